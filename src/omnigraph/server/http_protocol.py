"""HTTP/1.1 of uvicorn: whole requests are answered at once, and bad bytes with the envelope.

uvicorn makes a task for every request, before its body is there. A short request that the
application can answer without any wait needs no task. uvicorn also collects headers of any length,
before anything can ask who sends them; here their length is bounded.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from omnigraph.server.exchange import API_VERSION, request_id_of
from omnigraph.server.replies import (
    Application,
    Receive,
    Refusal,
    Scope,
    Send,
    WholeAnswer,
    head_lines,
    reply_of,
)

_LONGEST_BODY = 64 * 1024
"""uvicorn reads so much of a body before the application asks for it."""
_LENGTH_DIGITS = len(str(_LONGEST_BODY))
_LONGEST_HEAD = 64 * 1024
"""Bytes of a request line and headers, or of trailers, besides those of one read of the socket."""


class PromptApplication(Protocol):
    """An ASGI application that answers some requests without a wait."""

    def is_prompt(self, scope: Scope) -> bool:
        """Whether `answer_now` may answer it, so that its body is waited for."""

    def answer_now(self, scope: Scope, body: bytes) -> WholeAnswer | Application:
        """The answer to a whole request, or the application that answers it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer any request."""


class PromptProtocol(HttpToolsProtocol):
    """One connection."""

    _waiting: RequestResponseCycle | None = None
    """A request whose body is not whole yet, and that has no task."""
    _has_turn = True
    """One request of each packet is answered at once; others wait for those of other clients."""
    _held = 0
    """Bytes since the last headers, or part of a body, that were whole."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._application: PromptApplication = self.config.app  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._has_turn = True
        self._held += len(data)
        super().data_received(data)
        if self._held > _LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("")

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if (
            cycle.more_body  # else it waited for the answer to the request before it
            and cycle.keep_alive
            and not cycle.waiting_for_100_continue
            and self._application.is_prompt(_scope(cycle))
            and self._is_short()
        ):
            self._waiting = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _is_short(self) -> bool:
        for name, value in self.headers:
            if name == b"content-length":
                short = len(value) < _LENGTH_DIGITS
                return short or (value.isdigit() and int(value) <= _LONGEST_BODY)
        return False

    def on_headers_complete(self) -> None:
        self._held = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held = 0
        super().on_message_complete()
        cycle, self._waiting = self._waiting, None
        if cycle is None:
            return
        if self.flow.write_paused or not self._has_turn:
            super()._start_asgi_task(cycle, self.app)
            return
        self._has_turn = False
        answer = self._application.answer_now(_scope(cycle), bytes(cycle.body))
        if isinstance(answer, WholeAnswer):
            self._write(cycle, answer)
        else:
            super()._start_asgi_task(cycle, cast("Any", answer))

    def _write(self, cycle: RequestResponseCycle, answer: WholeAnswer) -> None:
        common = head_lines(self.server_state.default_headers)
        close = b"" if cycle.keep_alive else b"connection: close\r\n"  # the server ends
        parts = (STATUS_LINE[answer.status], common, answer.head, close, b"\r\n", answer.content)
        self.transport.write(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        cycle, self._waiting = self._waiting, None
        super().connection_lost(exc)
        if cycle is not None:
            super()._start_asgi_task(cycle, self.app)  # counts the request and writes its line

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that have no path and no method, so that no application can."""
        request_id = request_id_of(())
        told = "these bytes are no HTTP/1.1 request"
        if self._held > _LONGEST_HEAD:
            told = f"the headers have more than {_LONGEST_HEAD:,} bytes"
        reply = reply_of(Refusal(400, told), request_id)
        content = reply.content()
        head = head_lines(
            [
                *self.server_state.default_headers,
                (b"content-type", reply.media_type),
                (b"content-length", str(len(content)).encode()),
                (b"connection", b"close"),
                (b"x-request-id", request_id.encode()),
                API_VERSION,
            ]
        )
        self.transport.write(STATUS_LINE[reply.status] + head + b"\r\n" + content)
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """A request for another protocol is answered as if it had not asked for one."""


def _scope(cycle: RequestResponseCycle) -> Scope:
    return cast("Scope", cycle.scope)
