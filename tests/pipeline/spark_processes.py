"""Masters, workers and Connect servers started from the pip package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from omnigraph.pipeline.java import find_java

HOME = Path(pyspark.__file__).parent
_PATIENCE = 240


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(folder: Path, *commands: list[str], port: int) -> Iterator[None]:
    """All commands side by side; each begins when the port of the first answers."""
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    log_file = folder / "cluster.log"
    started: list[subprocess.Popen[bytes]] = []
    with log_file.open("wb") as log:
        try:
            for command in commands:
                started.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
                )
                _wait_for(port, started[-1], log_file)
            yield
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(60)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers, on two addresses: only so does Spark run a copy of a straggler."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    launch = [str(HOME / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    address = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = [*launch, f"{deploy}.worker.Worker", "-c", "1", "-m", "700m", "--webui-port", "0"]
    workers = [[*worker, "--host", host, master] for host in ("127.0.0.1", "127.0.0.2")]
    with running(folder, [*launch, f"{deploy}.master.Master", *address], *workers, port=port):
        yield master


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server of its own, in the foreground of this process's child."""
    port = free_port()
    command = [
        str(HOME / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master",
        "local[2,4]",
        "--driver-memory",
        "700m",
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "--conf",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf",
        "spark.ui.enabled=false",
        "spark-internal",
    ]
    with running(folder, command, port=port):
        yield f"sc://127.0.0.1:{port}"


def _wait_for(port: int, process: subprocess.Popen[bytes], log_file: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, log_file.read_text()[-2000:]
        time.sleep(0.2)
    raise AssertionError(log_file.read_text()[-2000:])
