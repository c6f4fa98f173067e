"""HTTP/1.1 of uvicorn, with the envelope also for bytes that are no request."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from omnigraph.server.exchange import API_VERSION, request_id_of
from omnigraph.server.replies import Refusal, reply_of


class EnvelopeProtocol(HttpToolsProtocol):
    """Such bytes never reach the application, because they have no path and no method."""

    def send_400_response(self, msg: str) -> None:
        request_id = request_id_of(())
        reply = reply_of(Refusal(400, "these bytes are no HTTP/1.1 request"), request_id)
        content = reply.content()
        headers = (
            *self.server_state.default_headers,
            (b"content-type", reply.media_type),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            (b"x-request-id", request_id.encode()),
            API_VERSION,
        )
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + content)
        self.transport.close()
