"""New processes without the time that imports take: a server that imported the product and forks.

The suite kills hundreds of processes. A new interpreter needs more than a second of CPU to import
the product, a fork needs a few milliseconds. The server only imports: it opens no graph and starts
no runtime of Lance, so that a forked process is as good as a new one.

The server is `python -m omnigraph_testing.crash FD`. The test process sends it requests over a
socket, with the files that become stdout and stderr of the new process. The server ends when the
test process closes the socket or dies.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph import failpoints

_MOST_BYTES = 180_000
_PRELOADED = (
    "omnigraph_testing.workloads",
    "omnigraph.commit.transaction",
    "omnigraph.commit.branches",
    "omnigraph.commit.recovery.sweep",
    "omnigraph.commit.recovery.act",
    "omnigraph.evolve.apply",
    "omnigraph.execute.query_runner",
    "omnigraph.feed",
    "omnigraph.load.local_load",
    "omnigraph.maintain.cleanup",
    "omnigraph.maintain.reconciler",
    "omnigraph.merge.operation",
    "omnigraph.mutate.mutation",
)


class ForkedProcess:
    """A process of the server, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def ended(self, status: int) -> None:
        self.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The server as the test process sees it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "omnigraph_testing.crash", str(theirs.fileno())]
            self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        self._socket = ours
        self._asking = threading.Lock()
        self._answered = threading.Condition()
        self._started: ForkedProcess | None = None
        self._running: dict[int, ForkedProcess] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def start(
        self, command: list[str], environment: Mapping[str, str], stdout: int, stderr: int
    ) -> ForkedProcess | None:
        """Fork a process that runs `command`. None if the request is too long for the socket."""
        request = {"command": command, "environment": dict(environment), "folder": str(Path.cwd())}
        message = json.dumps(request).encode()
        if len(message) > _MOST_BYTES:
            return None
        with self._asking, self._answered:
            self._started = None
            socket.send_fds(self._socket, [message], [stdout, stderr])
            if not self._answered.wait_for(lambda: self._started is not None, timeout=120):
                raise RuntimeError("the fork server does not answer")
            return self._started

    def _listen(self) -> None:
        while message := self._socket.recv(_MOST_BYTES):
            told = json.loads(message)
            with self._answered:
                if "started" in told:
                    process = ForkedProcess(told["started"])
                    self._started = self._running[process.pid] = process
                    self._answered.notify_all()
                else:
                    self._running.pop(told["ended"]).ended(told["status"])


@dataclass(frozen=True, slots=True)
class _ForkRequest:
    command: list[str]
    environment: dict[str, str]
    folder: str


def serve_forks(requests: socket.socket) -> list[str] | None:
    """Fork for each request. Returns the command in a new process, and None at the end."""
    for name in _PRELOADED:
        importlib.import_module(name)
    wakeup, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched: list[socket.socket | int] = [requests, wakeup]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if wakeup in ready:
            os.read(wakeup, 1024)
            _tell_ended(requests)
        if requests in ready:
            message, files, _, _ = socket.recv_fds(requests, _MOST_BYTES, 2)
            if not message:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for fd in (wakeup, writer):
                    os.close(fd)
                requests.close()
                return _become(_ForkRequest(**json.loads(message)), files)
            for fd in files:
                os.close(fd)
            requests.send(json.dumps({"started": pid}).encode())


def _tell_ended(requests: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        requests.send(json.dumps({"ended": pid, "status": status}).encode())


def _become(request: _ForkRequest, files: list[int]) -> list[str]:
    """Make this process look like a new one: signals, files, folder, environment, modules."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, fd in enumerate((nothing, *files)):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    known = set(sys.path)
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in added if path and path not in known]
    sys.argv[1:] = request.command
    failpoints.arm_from_environment(os.environ.get("OMNIGRAPH_FAILPOINTS", ""))
    return request.command
