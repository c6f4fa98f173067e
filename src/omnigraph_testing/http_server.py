"""A real server on loopback: in a thread of this process, or as other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from omnigraph.server.boot import build_state
from omnigraph.server.configuration import RequestLimits, ServerSettings
from omnigraph.server.serving import Worker, address_text, bind
from omnigraph.settings.models import Settings

_READY_SECONDS = 60.0
_END_SECONDS = 30.0


class ThreadServer:
    """A worker in a thread, so that tests can look at its state and arm failpoints.

    `client` has its address; `graph_client(id)` has the address of one graph.
    """

    def __init__(
        self,
        addresses: Mapping[str, str] | str,
        *,
        tokens: str | None = None,
        limits: RequestLimits | None = None,
        engine: Settings | None = None,
        **settings: Any,
    ) -> None:
        graphs = {"default": addresses} if isinstance(addresses, str) else dict(addresses)
        environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": tokens} if tokens else {}
        chosen = replace(
            ServerSettings(unauthenticated=tokens is None, port=0, lame_duck_seconds=0.05),
            limits=limits or RequestLimits(),
            **settings,
        )
        self.state = build_state(graphs, chosen, environment, engine)
        self._bound = bind("127.0.0.1", 0)
        self.url = f"http://{address_text(self._bound)}"
        self._ready = threading.Event()
        self.worker = Worker(self.state, self._ready.set)
        self._thread = threading.Thread(
            target=self.worker.run, kwargs={"sockets": [self._bound]}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self._ready.is_set() or not self._thread.is_alive(), _READY_SECONDS)
        assert self._ready.is_set(), self.worker.refused
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.worker.should_exit = True
        self._thread.join(_END_SECONDS)
        self.state.graphs.close()
        for pool in (self.state.reads, self.state.writes, self.state.streams):
            pool.shutdown(wait=False)
        self._bound.close()

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        return client_of(self.url, token, **options)

    def graph_client(
        self, graph_id: str = "default", token: str | None = None, **options: Any
    ) -> httpx.Client:
        return client_of(f"{self.url}/graphs/{graph_id}", token, **options)


def client_of(
    url: str, token: str | None = None, headers: Mapping[str, str] | None = None, **options: Any
) -> httpx.Client:
    sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    return httpx.Client(base_url=url, headers=sent, timeout=60, trust_env=False, **options)


class ProcessServer:
    """`omnigraph serve` as another process."""

    def __init__(
        self,
        *arguments: str | os.PathLike[str],
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self.arguments = [os.fspath(argument) for argument in arguments]
        self.environment = {**os.environ, **(environment or {})}
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        log = self._log or Path(os.devnull)
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "omnigraph.cli", "serve", "--bind", "127.0.0.1:0"),
                    *self.arguments,
                ],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().strip()
        assert line.startswith("OMNIGRAPH_LISTEN_ADDR="), self.log_text()
        self.url = f"http://{line.partition('=')[2]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop(signal.SIGKILL if kind is not None else signal.SIGTERM)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send the signal, wait for the end; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            for worker in self.workers():
                os.kill(worker, signal.SIGKILL)
            self.process.kill()
            code = self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def workers(self) -> Sequence[int]:
        """The processes below this one."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def log_text(self) -> str:
        return self._log.read_text() if self._log is not None else ""

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        return client_of(self.url, token, **options)

    def graph_client(
        self, graph_id: str = "default", token: str | None = None, **options: Any
    ) -> httpx.Client:
        return client_of(f"{self.url}/graphs/{graph_id}", token, **options)


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    """Wait for something that another process or thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
