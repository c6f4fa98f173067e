"""Real Spark clusters on this machine, from the pip package, and tasks that fail on them.

A cluster ends with its `with` block. The faults are in this package because executors can import
the package but not the tests.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from omnigraph.spark.java import find_java

_START_SECONDS = 240
LOCAL_CLUSTER = "local-cluster[2,1,700]"
"""Two executors with one core and 700 MB each, as child processes of the driver."""


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers. Yields the master's address. Logs and work go to `folder`.

    The workers have different addresses, because Spark runs a copy of a slow task on another
    host only.
    """
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    worker = (f"{deploy}.worker.Worker", "-c", "1", "-m", "700m", "--host")
    commands = (
        (f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)),
        (*worker, "127.0.0.1", master),
        (*worker, "127.0.0.2", master),
    )
    with _running(folder, "standalone") as start:
        for command in commands:
            start([str(_home() / "bin" / "spark-class"), *command, "--webui-port", "0"])
            wait_for(port)
        yield master


@contextmanager
def connect_server(folder: Path, conf: Sequence[tuple[str, str]] = ()) -> Iterator[str]:
    """A Spark Connect server with two local cores. Yields its `sc://` address."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **dict(conf),
    }
    flags = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(_home() / "bin" / "spark-submit"), "--master", "local[2,4]", *flags]
    with _running(folder, "connect") as start:
        start([*command, "--class", server, "spark-internal"])
        wait_for(port)
        yield f"sc://127.0.0.1:{port}"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until a server listens on the port."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"port {port} is not open after {_START_SECONDS} s")


def environment(folder: Path) -> dict[str, str]:
    """The environment of the processes of a cluster."""
    return os.environ | {
        "SPARK_HOME": str(_home()),
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }


def _home() -> Path:
    return Path(str(import_module("pyspark").__file__)).parent


@contextmanager
def _running(folder: Path, name: str) -> Iterator[_Starter]:
    with (folder / f"{name}.log").open("wb") as log:
        starter = _Starter(folder, log.fileno())
        try:
            yield starter
        finally:
            starter.stop()


class _Starter:
    """Starts processes in new process groups, because the launcher scripts start a JVM each."""

    def __init__(self, folder: Path, log: int) -> None:
        self._folder = folder
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, command: Sequence[str]) -> None:
        process = subprocess.Popen(
            list(command),
            env=environment(self._folder),
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._processes.append(process)

    def stop(self) -> None:
        for process in reversed(self._processes):
            _signal(process, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


Trouble = Callable[[], None]


def fail() -> None:
    raise RuntimeError("this task fails on purpose")


def kill_worker() -> None:
    os.kill(os.getpid(), 9)


def kill_executor() -> None:
    """Kill the JVM two levels above a worker. The worker's daemon is between them."""
    os.kill(_parent(_parent(os.getpid())), 9)


def straggle() -> None:
    time.sleep(90)


TROUBLES: dict[str, Trouble] = {
    "fail": fail,
    "worker": kill_worker,
    "executor": kill_executor,
    "straggler": straggle,
}


def in_trouble_once(make_tasks: Callable[..., Any], marker: str, trouble: Trouble) -> Any:
    """The same tasks, but the first attempt that has a result calls `trouble` first."""

    def made(*arguments: Any) -> Any:
        run = make_tasks(*arguments)

        def attempt(batches: Any) -> Any:
            for result in run(batches):
                if claim(marker):
                    trouble()
                yield result

        return attempt

    return made


def claim(marker: str) -> bool:
    """Whether this process is the first that calls this with `marker`."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _parent(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    return int(stat.rpartition(")")[2].split()[1])
