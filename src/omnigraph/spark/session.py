"""The Spark session of this process: a running one is used, else one is started."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omnigraph.errors import InvalidArgument, SparkUnavailable
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.class_archive import ClassArchive, archive_directory, class_archive
from omnigraph.spark.failures import TypedSession
from omnigraph.spark.java import Java, find_java, write_shim
from omnigraph.spark.jvm import with_columnar_jar
from omnigraph.values.machine_memory import machine_memory

Session = Any
"""A `pyspark.sql.SparkSession`, classic or Connect."""

_GIB = 1024**3
# A JVM that writes a class archive takes some seconds to end, and more on a busy machine.
_END_SECONDS = 300
# The JVM's second compiler compiles a method after ten times the usual number of calls and loops.
# Without it, a write of 5 million rows through the format took twice the CPU. With its defaults,
# the start of a session took a third more, for methods that run seldom.
_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
_MASTERS = ("local", "spark://", "sc://", "yarn", "k8s://")

_lock = threading.Lock()
_ours: _Started | None = None


@dataclass(frozen=True, slots=True)
class _Started:
    """A session that this module started, and that it must stop."""

    session: Session
    typed: TypedSession
    workspace: tempfile.TemporaryDirectory[str] | None
    log_file: Path | None
    """None with Spark Connect, because the server owns the JVM."""
    archive: ClassArchive | None = None


def spark_session(settings: PipelineSettings | None = None) -> Session:
    """The running session of this process, else a new one with these settings.

    Workers of a new session run the Python of this process, unless `PYSPARK_PYTHON` names another.
    Its calls raise an `OmnigraphError` where Spark's error carries one, as in `typed_errors`.
    """
    global _ours
    settings = settings or PipelineSettings()
    _check_master(settings)
    with _lock:
        running = running_session()
        if running is not None:
            return running
        if find_spec("pyspark") is None:
            raise SparkUnavailable(
                "pyspark is not installed: `pip install 'omnigraph[spark]'`, or use engine='local'"
            )
        stop_locked()
        _ours = _start(settings)
        return _ours.session


def running_session() -> Session | None:
    """A live session of this process, started here or by the caller; does not import pyspark."""
    module = sys.modules.get("pyspark.sql")
    if module is None:
        return None
    found = module.SparkSession.getActiveSession()
    return found if found is not None else _ours_if_alive()


def stop_session() -> None:
    """Stop the session if it was started here; a session of the caller is not touched."""
    with _lock:
        stop_locked()


def stop_locked() -> None:
    """Stop while `_lock` is held."""
    global _ours
    if _ours is None:
        return
    started, _ours = _ours, None
    started.typed.undo()
    gateway = getattr(getattr(started.session, "_sc", None), "_gateway", None)
    started.session.stop()
    _end_jvm(gateway)
    if started.archive is not None:
        started.archive.keep()
    if started.workspace is not None:
        started.workspace.cleanup()


def parallelism(session: Session) -> int:
    """How many tasks run at once; with Connect, which does not tell, the cores of this machine."""
    context = getattr(session, "_sc", None)
    return max(1, context.defaultParallelism if context is not None else os.cpu_count() or 1)


def log_file_of(session: Session) -> str | None:
    """The log file of the JVM, if the session was started here."""
    if _ours is None or _ours.session is not session or _ours.log_file is None:
        return None
    return str(_ours.log_file)


def memory_default(total_bytes: int) -> str:
    """Heap of an embedded JVM: a sixth of the memory of the machine, from 1 to 8 GiB.

    That is enough because rows are in the Python workers and in files, not in the heap.
    """
    return f"{max(1, min(8, round(total_bytes / _GIB / 6)))}g"


def _ours_if_alive() -> Session | None:
    if _ours is None:
        return None
    context = getattr(_ours.session, "_sc", None)
    alive = context is None or context._jsc is not None  # noqa: SLF001 - no public way to ask
    return _ours.session if alive else None


def _check_master(settings: PipelineSettings) -> None:
    if not settings.master.startswith(_MASTERS):
        raise InvalidArgument(
            f"{settings.master!r} is not a Spark master; use local[*,4], spark://host:port or "
            "sc://host",
            master=settings.master,
        )


def _start(settings: PipelineSettings) -> _Started:
    if settings.master.startswith("sc://"):
        return _connect(settings)
    workspace = tempfile.TemporaryDirectory(prefix="omnigraph-spark-", ignore_cleanup_errors=True)
    log_file = Path(settings.log_file or Path(workspace.name) / "spark.log")
    try:
        java = find_java(os.environ)
        archive = _class_archive(settings, java, Path(workspace.name))
        session = _launch(settings, java, archive, Path(workspace.name), log_file)
    except Exception as error:
        kept = _keep_log(log_file)
        workspace.cleanup()
        if isinstance(error, SparkUnavailable):
            raise
        raise SparkUnavailable(
            f"Spark at {settings.master} did not start: {_first_line(error)}; its log is {kept}",
            master=settings.master,
            log_file=str(kept),
        ) from error
    atexit.register(stop_session)
    return _Started(session, TypedSession(connect=False), workspace, log_file, archive)


def _class_archive(settings: PipelineSettings, java: Java, workspace: Path) -> ClassArchive | None:
    """For a driver that runs in the JVM of this process."""
    if not settings.master.startswith("local"):
        return None
    directory = archive_directory(settings.archive_directory, os.environ)
    return class_archive(java, directory, workspace)


def _launch(
    settings: PipelineSettings,
    java: Java,
    archive: ClassArchive | None,
    workspace: Path,
    log_file: Path,
) -> Session:
    home = java.home if java.complete else write_shim(java, workspace / "java")
    # Another JVM makes the command line of the first one. It runs for a moment.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    surroundings = {"JAVA_HOME": str(home), "SPARK_LAUNCHER_OPTS": quick}
    if settings.master.startswith("local"):
        surroundings["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Without this, workers run the first `python3` of their PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    pyspark_sql = import_module("pyspark.sql")
    # They print errors on stderr that are also raised as exceptions.
    for chatty in ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    builder = pyspark_sql.SparkSession.builder.master(settings.master).appName("omnigraph")
    options = archive.options if archive is not None else ""
    for name, value in _configuration(settings, workspace, options).items():
        builder = builder.config(name, value)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with (
        _environment(surroundings),
        _stderr_to(log_file),
        _own_interrupts(),
        warnings.catch_warnings(),
    ):
        # Lance warns of every fork. This one becomes the JVM and does not use Lance.
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


def _connect(settings: PipelineSettings) -> _Started:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        builder = import_module("pyspark.sql").SparkSession.builder.remote(settings.master)
        for name, value in settings.conf:
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    except Exception as error:
        raise SparkUnavailable(
            f"Spark Connect at {settings.master}: {_first_line(error)}", master=settings.master
        ) from error
    atexit.register(stop_session)
    return _Started(session, TypedSession(connect=True), None, None)


def _configuration(settings: PipelineSettings, workspace: Path, options: str) -> dict[str, str]:
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(workspace / "warehouse"),
    }
    if settings.master.startswith("local"):
        conf["spark.driver.memory"] = settings.driver_memory or memory_default(machine_memory())
        conf["spark.driver.defaultJavaOptions"] = f"{_COMPILER} {options}".strip()
        conf["spark.local.dir"] = str(workspace / "local")
        conf["spark.driver.bindAddress"] = "127.0.0.1"
        conf["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    elif settings.driver_memory is not None:
        conf["spark.driver.memory"] = settings.driver_memory
    return with_columnar_jar(conf | dict(settings.conf))


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _stderr_to(log_file: Path) -> Iterator[None]:
    """Redirect stderr while the JVM starts, because the JVM inherits descriptor 2 and keeps it."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log_file.open("ab") as log:
            os.dup2(log.fileno(), 2)
            try:
                yield
            finally:
                sys.stderr.flush()
                os.dup2(kept, 2)
    finally:
        os.close(kept)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the present handler of Ctrl-C instead of Spark's.

    Spark's handler calls the JVM even while another call to it is under way. It is not needed,
    because `jobs.run_job` cancels its own jobs.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def _keep_log(log_file: Path) -> Path:
    """Copy the log out of the workspace, which is removed, so that the error can name it."""
    if not log_file.is_file():
        return log_file
    descriptor, name = tempfile.mkstemp(prefix="omnigraph-spark-", suffix=".log")
    with os.fdopen(descriptor, "wb") as kept:
        kept.write(log_file.read_bytes())
    return Path(name)


def _end_jvm(gateway: Any) -> None:
    """End the JVM, which would run until Python exits, and wait for its end."""
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(timeout=_END_SECONDS)
    context = import_module("pyspark").SparkContext
    context._gateway = context._jvm = None  # noqa: SLF001 - so that a later session gets a new JVM


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
