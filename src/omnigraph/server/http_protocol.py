"""HTTP/1.1 of uvicorn: whole requests are answered at once, and bad bytes with the envelope.

uvicorn makes a task for every request, before its body is there. A short request that the
application can answer without any wait needs no task. uvicorn also collects headers of any length
for any time, before anything can ask who sends them, and waits for any time for a client that takes
nothing; here length and time are bounded.
"""

from __future__ import annotations

from asyncio import TimerHandle
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
_SLOWEST_REQUEST_SECONDS = 60.0
"""Time for a request line and headers, or for all of a request that has no task yet."""
_SILENT_SECONDS = 90.0
"""A client that sends nothing for this long in the middle of a body is gone."""
_STALLED_SECONDS = 60.0
"""A client that leaves what it was sent for this long has lost its answer."""


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
    _answered: RequestResponseCycle | None = None
    """The request that has a task; further ones of a client that does not wait stand behind it."""
    _stalled: TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._application: PromptApplication = self.config.app  # type: ignore[assignment]
        self._since = self._heard = self.loop.time()
        """When the client connected or began its newest request, and when it last sent anything."""

    def data_received(self, data: bytes) -> None:
        self._has_turn = True
        self._heard = self.loop.time()
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
            self._give_task(cycle, app)

    def _give_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _is_short(self) -> bool:
        for name, value in self.headers:
            if name == b"content-length":
                short = len(value) < _LENGTH_DIGITS
                return short or (value.isdigit() and int(value) <= _LONGEST_BODY)
        return False

    def on_message_begin(self) -> None:
        self._since = self._heard
        super().on_message_begin()

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
            self._give_task(cycle, self.app)
            return
        self._has_turn = False
        answer = self._application.answer_now(_scope(cycle), bytes(cycle.body))
        if isinstance(answer, WholeAnswer):
            self._write(cycle, answer)
        else:
            self._give_task(cycle, answer)

    def _write(self, cycle: RequestResponseCycle, answer: WholeAnswer) -> None:
        common = head_lines(self.server_state.default_headers)
        close = b"" if cycle.keep_alive else b"connection: close\r\n"  # the server ends
        parts = (STATUS_LINE[answer.status], common, answer.head, close, b"\r\n", answer.content)
        self.transport.write(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(_STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_stall()

    def _forget_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        waiting, self._waiting = self._waiting, None
        self._forget_stall()
        super().connection_lost(exc)
        if self._answered is not None and not self._answered.response_complete:
            # uvicorn tells the newest request only, which may stand behind this one.
            self._answered.disconnected = True
            self._answered.message_event.set()
        if waiting is not None:
            self._give_task(waiting, self.app)  # counts the request and writes its line

    def shutdown(self) -> None:
        """The server ends. It does not wait for the rest of a read that nothing was done for."""
        if self._waiting is not None:
            self.transport.close()
        else:
            super().shutdown()

    def end_if_overdue(self) -> None:
        """Close a connection whose client does not send its request to the end."""
        cycle: RequestResponseCycle | None = self.cycle
        now = self.loop.time()
        if self.timeout_keep_alive_task is not None:
            return  # it idles between two requests, and uvicorn ends it
        if cycle is None or cycle.response_complete or self._waiting is not None:
            if now - self._since < _SLOWEST_REQUEST_SECONDS:
                return
            if self._held or self._waiting is not None:
                told = f"the request took more than {_SLOWEST_REQUEST_SECONDS:.0f} s to arrive"
                self._refuse(Refusal(408, told))
            else:
                self.transport.close()  # a connection without a request
        elif (
            cycle.more_body
            and not self.flow.read_paused
            and not cycle.waiting_for_100_continue
            and now - self._heard >= _SILENT_SECONDS
        ):
            self.transport.abort()  # the application learns that the client is gone

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that have no path and no method, so that no application can."""
        answered = self._answered
        if answered is not None and not answered.response_complete:
            own = answered is self.cycle and answered.more_body
            if not own:
                # Answers come in the order of the requests: this one would be taken for that of
                # the request before, which may be a write. With its answer the connection ends.
                answered.keep_alive = False
                self.flow.pause_reading()
                return
        told = "these bytes are no HTTP/1.1 request"
        if self._held > _LONGEST_HEAD:
            told = f"the headers have more than {_LONGEST_HEAD:,} bytes"
        self._refuse(Refusal(400, told))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer without a task, and close the connection."""
        request_id = request_id_of(())
        reply = reply_of(refusal, request_id)
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
