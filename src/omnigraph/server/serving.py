"""One worker: the event loop, the signals, the slow end.

At SIGTERM the worker says so at `/readyz`, goes on to accept for a moment, then lets the requests
in flight come to their end. A thread ends the process with status 2 at the deadline.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import uvicorn

from omnigraph.errors import OmnigraphError
from omnigraph.server.access_log import log_event
from omnigraph.server.application import HttpApplication
from omnigraph.server.boot import open_graphs
from omnigraph.server.console_mount import WithConsole
from omnigraph.server.http_protocol import PromptProtocol
from omnigraph.server.route_table import ROUTES
from omnigraph.server.routes.server_wide import look_after_graphs, reload_state
from omnigraph.server.state import DRAINING, SERVING, ServerState

logger = logging.getLogger(__name__)

EXIT_REFUSED = 1
EXIT_DEADLINE = 2
_SWITCH_SECONDS = 0.0005
_TOKENS_EVERY_SECONDS = 30.0
_OPERATIONS_EVERY_SECONDS = 1.0
_MEASURE_EVERY_SECONDS = 1.0
_SWEEP_EVERY_SECONDS = 3600.0
_LOOK_AFTER_EVERY_SECONDS = 5.0
_CONNECTIONS_EVERY_SECONDS = 10.0
_KEPT_ALIVE_SECONDS = 75
"""Longer than proxies and clients keep an idle connection, so that they never use a closed one."""
_BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. The protocol is named, because without it asyncio sets no TCP_NODELAY."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    bound.listen(_BACKLOG)
    return bound


def address_text(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Worker(uvicorn.Server):
    """uvicorn with readiness, a slow end, and reload at SIGHUP."""

    def __init__(self, state: ServerState, ready: Callable[[], None]) -> None:
        application = HttpApplication(state, ROUTES)
        self._console = WithConsole(application) if state.settings.console else None
        super().__init__(
            uvicorn.Config(
                self._console or application,
                loop="uvloop",
                http=PromptProtocol,
                ws="auto" if self._console is not None else "none",  # only pages use them
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,  # the address of the client is not used
                timeout_keep_alive=_KEPT_ALIVE_SECONDS,
                backlog=_BACKLOG,
            )
        )
        self.state = state
        self._ready = ready
        self._deadline: threading.Timer | None = None
        self.refused: OmnigraphError | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT begin the end; SIGHUP reads tokens, rules and graphs again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGHUP:
            threading.Thread(target=reload_state, args=(self.state,), daemon=True).start()
            return
        self.drain()

    def drain(self) -> None:
        """Begin the end; a second call makes it immediate."""
        settings = self.state.settings
        if self.state.phase == DRAINING or settings.shutdown_grace_seconds == 0:
            self.should_exit = self.force_exit = True
            return
        self.state.phase = DRAINING
        log_event(logger, "draining", grace_seconds=settings.shutdown_grace_seconds)
        self._deadline = threading.Timer(settings.shutdown_grace_seconds, _end_now)
        self._deadline.daemon = True
        self._deadline.start()
        pause = min(settings.lame_duck_seconds, settings.shutdown_grace_seconds / 2)
        threading.Timer(pause, self._stop_accepting).start()

    def _stop_accepting(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._console is not None and sockets:
            await self._console.start(sockets[0], asks_for_token=self.state.needs_token)
        await super().startup(sockets)
        self._tasks = [
            asyncio.ensure_future(self._open()),
            asyncio.ensure_future(self._every(_TOKENS_EVERY_SECONDS, self._poll_tokens)),
            asyncio.ensure_future(
                self._every(_OPERATIONS_EVERY_SECONDS, self._exchange_operations)
            ),
            asyncio.ensure_future(self._every(_MEASURE_EVERY_SECONDS, self._measure)),
            asyncio.ensure_future(self._every(_SWEEP_EVERY_SECONDS, self._sweep)),
            asyncio.ensure_future(self._every(_LOOK_AFTER_EVERY_SECONDS, self._look_after)),
            asyncio.ensure_future(self._end_overdue_connections()),
        ]

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, open_graphs, self.state)
        except OmnigraphError as error:
            self.refused = error
            self.should_exit = True
            return
        self._ready()

    async def _every(self, seconds: float, work: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await asyncio.get_running_loop().run_in_executor(None, work)
            except OmnigraphError as error:
                logger.warning("background work failed: %s", error.message)

    async def _end_overdue_connections(self) -> None:
        while True:
            await asyncio.sleep(_CONNECTIONS_EVERY_SECONDS)
            for connection in list(self.server_state.connections):
                if isinstance(connection, PromptProtocol):  # a WebSocket of the console is none
                    connection.end_if_overdue()

    def _poll_tokens(self) -> None:
        self.state.tokens.reload_if_changed()
        self.state.policies.reload_if_changed()

    def _look_after(self) -> None:
        if self.state.phase == SERVING:
            look_after_graphs(self.state)

    def _exchange_operations(self) -> None:
        for served in self.state.graphs:
            served.graph.engine.operations.notice_cancellations()
            served.graph.engine.operations.tell_progress()

    def _measure(self) -> None:
        if self.state.settings.workers > 1:
            self.state.metrics.gather(self.state.admission, self.state.graphs)

    def _sweep(self) -> None:
        for served in self.state.graphs:
            served.graph.engine.requests.sweep()
            served.graph.engine.operations.sweep()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        await super().shutdown(sockets)
        if self._console is not None:
            await self._console.stop()
        await self.state.agents.stop()


def run_worker(
    state: ServerState, bound: socket.socket, ready: Callable[[], None], *, ends_process: bool
) -> int:
    """Serve until a signal; the exit code. The process ends here, if it is the worker's own."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    # A full collection looks at every object while all threads wait, and most objects are those of
    # the imported modules, which stay. Graphs are opened later, so those that go are collected.
    gc.freeze()
    worker = Worker(state, ready)
    worker.run(sockets=[bound])
    if worker.refused is not None:
        logger.error("boot refused: %s", worker.refused.message)
        code = EXIT_REFUSED
    else:
        code = 0
        if not worker.force_exit:
            # Operations and writes whose client went away also come to their end.
            state.writes.shutdown(wait=True)
    if ends_process:
        # Threads of abandoned reads would hold the exit until they end.
        _end(code)
    return code


def _end_now() -> None:
    logger.error("requests in flight did not end in time: exit with status %d", EXIT_DEADLINE)
    _end(EXIT_DEADLINE)


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def announce(bound: socket.socket, state_mode: Mapping[str, object]) -> None:
    """The ready line, which is the only line on stdout."""
    sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={address_text(bound)}\n")
    sys.stdout.flush()
    log_event(logger, "serving omnigraph", bind=address_text(bound), **state_mode)
