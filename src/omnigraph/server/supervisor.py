"""`omnigraph serve`: one worker in this process, or several under this one.

The workers accept from one listening socket. A worker that dies is started again.
"""

from __future__ import annotations

import base64
import logging
import os
import pickle
import resource
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.server.access_log import configure_logging, log_event
from omnigraph.server.boot import METRICS_DIRECTORY, RUN_DIRECTORY, build_state, require_graphs
from omnigraph.server.configuration import ServerSettings
from omnigraph.server.served_graphs import check_graph_id
from omnigraph.server.serving import EXIT_DEADLINE, EXIT_REFUSED, announce, bind, run_worker
from omnigraph.settings.models import Settings
from omnigraph.values.clock import SYSTEM_CLOCK

logger = logging.getLogger(__name__)

_CONFIGURATION = "OMNIGRAPH_SERVER_WORKER"
_SUPERVISOR = "OMNIGRAPH_SERVER_SUPERVISOR"
_READY = b"r"
_SHORTEST_LIFE_SECONDS = 2.0
_RESTART_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 0.5
_OPEN_FILES = 65_536
"""Connections and files that a process may have open; the limit of a shell is often 1,024."""


def serve(
    addresses: Mapping[str, str], settings: ServerSettings, engine: Settings | None = None
) -> int:
    """Serve graphs by id until SIGTERM; returns the exit code."""
    configure_logging(settings.log_format, settings.log_level)
    _allow_open_files()
    require_graphs(addresses, settings.cluster)
    for graph_id in addresses:
        check_graph_id(graph_id)
    state = build_state(addresses, settings, os.environ, engine)  # refuses before anything starts
    mode = {
        "mode": state.mode,
        "graph_count": state.graphs.wanted_count,
        "workers": settings.workers,
    }
    try:
        bound = bind(settings.host, settings.port)
    except OSError as error:
        place = f"{settings.host}:{settings.port}"
        raise InvalidArgument(f"cannot listen on {place}: {error.strerror}") from None
    if settings.workers == 1:
        return run_worker(state, bound, lambda: announce(bound, mode), ends_process=True)
    return _Supervisor(addresses, settings, engine or Settings(), bound, mode).run()


def _allow_open_files() -> None:
    """Raise the soft limit of this process, and of the workers that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@dataclass(slots=True)
class _WorkerProcess:
    process: subprocess.Popen[bytes]
    started: float
    pipe: int
    """Gets one byte when the worker is ready, and ends when the worker does."""
    is_ready: bool = False


class _Supervisor:
    def __init__(
        self,
        addresses: Mapping[str, str],
        settings: ServerSettings,
        engine: Settings,
        bound: socket.socket,
        mode: dict[str, Any],
    ) -> None:
        self._settings = settings
        self._bound = bound
        self._mode = mode
        given = pickle.dumps((dict(addresses), settings, engine))
        self._configuration = base64.b64encode(given).decode()
        self._children: list[_WorkerProcess] = []
        self._ending = False
        self._announced = False
        self._codes: list[int] = []

    def run(self) -> int:
        directory = Path(tempfile.mkdtemp(prefix="omnigraph-server-"))
        try:
            (directory / "metrics").mkdir()
            return self._run(directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _run(self, directory: Path) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._forward)
        for _ in range(self._settings.workers):
            self._start(directory)
        while self._children:
            self._look()
            if self._ending:
                # Workers stop to accept on their own. A connection that comes later is refused;
                # on this socket no worker would take it.
                self._bound.close()
            for child in [c for c in self._children if c.process.poll() is not None]:
                self._ended(child, directory)
        return max(self._codes, default=0)

    def _start(self, directory: Path) -> None:
        mine, theirs = os.pipe()
        environment = {
            **os.environ,
            _CONFIGURATION: self._configuration,
            _SUPERVISOR: str(os.getpid()),
            RUN_DIRECTORY: str(directory),
            METRICS_DIRECTORY: str(directory / "metrics"),
        }
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "omnigraph.server.supervisor",
                str(self._bound.fileno()),
                str(theirs),
            ],
            env=environment,
            pass_fds=(self._bound.fileno(), theirs),
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C on a terminal reaches the supervisor only
        )
        os.close(theirs)
        self._children.append(_WorkerProcess(process, SYSTEM_CLOCK.monotonic(), mine))
        if self._ending:  # the signal came while this worker was started
            process.send_signal(signal.SIGTERM)

    def _look(self) -> None:
        """Wait until a worker is ready or ends."""
        with selectors.DefaultSelector() as selector:
            for child in self._children:
                selector.register(child.pipe, selectors.EVENT_READ, child)
            for key, _ in selector.select(_LOOK_SECONDS):
                told: _WorkerProcess = key.data
                if os.read(told.pipe, 1) == _READY:
                    told.is_ready = True
                else:
                    told.process.wait()
        ready = all(child.is_ready for child in self._children)
        if ready and not self._announced and not self._ending:
            self._announced = True
            announce(self._bound, self._mode)

    def _ended(self, child: _WorkerProcess, directory: Path) -> None:
        self._children.remove(child)
        os.close(child.pipe)
        code = child.process.returncode
        self._forget_metrics(child.process.pid, directory)
        if self._ending:
            # A worker that was killed while it drained did not finish its requests. One that had
            # just started had none.
            lost = EXIT_DEADLINE if child.is_ready else 0
            self._codes.append(code if code >= 0 else lost)
            return
        if not child.is_ready and not self._announced:
            self._codes.append(code if code > 0 else EXIT_REFUSED)
            self._end(signal.SIGTERM)
            return
        log_event(logger, "worker ended, starting another", pid=child.process.pid, code=code)
        if SYSTEM_CLOCK.monotonic() - child.started < _SHORTEST_LIFE_SECONDS:
            SYSTEM_CLOCK.sleep(_RESTART_PAUSE_SECONDS)
        self._start(directory)

    def _forget_metrics(self, pid: int, directory: Path) -> None:
        """Gauges of a dead worker must not count any more; its counters stay."""
        for pattern in (f"gauge_live*_{pid}.db",):
            for file in (directory / "metrics").glob(pattern):
                file.unlink(missing_ok=True)

    def _forward(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            for child in self._children:
                child.process.send_signal(number)
            return
        self._end(number)

    def _end(self, number: int) -> None:
        self._ending = True
        for child in self._children:
            if child.process.poll() is None:
                child.process.send_signal(number)


def run_as_worker(socket_number: int, pipe: int) -> int:
    """The main function of a worker process."""
    # Only the supervisor of this worker writes this variable.
    given = base64.b64decode(os.environ.pop(_CONFIGURATION))
    addresses, settings, engine = pickle.loads(given)
    configure_logging(settings.log_format, settings.log_level)
    threading.Thread(target=_end_with_supervisor, args=(pipe,), daemon=True).start()
    supervisor = int(os.environ.pop(_SUPERVISOR))
    state = build_state(addresses, settings, os.environ, engine)
    state.tell_workers = lambda: _tell_to_reload(supervisor)
    bound = socket.socket(fileno=socket_number)
    return run_worker(state, bound, lambda: _tell_ready(pipe), ends_process=True)


def _end_with_supervisor(pipe: int) -> None:
    """Drain when the supervisor is gone: killed, it could not tell its workers to end."""
    watched = select.poll()
    watched.register(pipe, 0)  # errors only: the other end of the pipe was closed
    watched.poll()
    logger.error("the supervisor is gone: this worker ends, too")
    os.kill(os.getpid(), signal.SIGTERM)


def _tell_to_reload(supervisor: int) -> None:
    """The supervisor forwards the signal to all of its workers."""
    if os.getppid() == supervisor:  # else it is gone, and its number may be that of another process
        os.kill(supervisor, signal.SIGHUP)


def _tell_ready(pipe: int) -> None:
    os.write(pipe, _READY)


if __name__ == "__main__":
    sys.exit(run_as_worker(int(sys.argv[1]), int(sys.argv[2])))
