"""Make the jar of `omnigraph/spark/jvm` anew: `python -m omnigraph_testing.spark_jar`.

It needs `javac`, which users do not need, because the package has the jar. The jar holds its
sources, so that a test can tell whether it was made from the sources of the tree.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path

from omnigraph.spark.jvm import FOLDER, jar_of

_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_FORMAT = "org.omnigraph.spark.OmnigraphFormat"


def sources() -> dict[str, bytes]:
    """The sources of the tree, by name."""
    return {file.name: file.read_bytes() for file in sorted(FOLDER.glob("*.java"))}


def make_jar(jar: Path) -> None:
    """Compile the sources against the jars of the installed pyspark."""
    jars = Path(str(import_module("pyspark").__file__)).parent / "jars"
    with tempfile.TemporaryDirectory() as folder:
        files = [str(FOLDER / name) for name in sources()]
        command = ["javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", folder, *files]
        subprocess.run(command, check=True, capture_output=True, text=True)
        classes = {
            str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(Path(folder).rglob("*.class"))
        }
    entries = {_SERVICE: f"{_FORMAT}\n".encode(), **classes, **sources()}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries.items():
            fixed = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            made.writestr(fixed, content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    target = jar_of(import_module("pyspark").__version__)
    make_jar(target)
    sys.stdout.write(f"{target}\n")
