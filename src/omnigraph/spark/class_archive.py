"""A file of Java classes that are already loaded, so that a JVM starts in half the CPU time.

Java calls this class data sharing. A JVM writes the file when it ends, and a JVM with the same Java
and the same jars maps it into memory. If anything is different, Java notices, and loads the classes
as always.

The first session on a machine only leaves a mark, because a container may never start a second
one. The second session writes the file, which takes some seconds at its end. Those after it use it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from omnigraph.spark.java import Java

_KEPT = 3
# Java would print its warnings about single classes on stdout.
_WARNINGS_TO_STDERR = "-Xlog:disable -Xlog:all=warning:stderr"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """What one session does about the archive."""

    options: str
    """Options of its JVM; empty in the first session."""
    file: Path
    written: Path | None = None
    """Where the JVM writes the archive when it ends; None if it does not write one."""

    def keep(self) -> None:
        """Take over what the JVM has written, if it has. Call it when the JVM has ended."""
        if self.written is None or not self.written.is_file():
            return
        with suppress(OSError):  # a session works without an archive
            moving = self.file.with_suffix(f".{self.written.parent.name}")
            shutil.move(self.written, moving)
            moving.replace(self.file)
            archives = sorted(self.file.parent.glob("*.jsa"), key=lambda f: f.stat().st_mtime)
            for old in archives[:-_KEPT]:
                old.unlink(missing_ok=True)


def class_archive(java: Java, directory: Path | None, workspace: Path) -> ClassArchive | None:
    """The archive for this Java and this pyspark; None without a directory or where Java has none.

    `workspace` is a directory of this session alone.
    """
    spec = find_spec("pyspark")
    base = java.home / "lib" / "server" / "classes.jsa"
    if directory is None or spec is None or spec.origin is None or not base.is_file():
        return None
    jars = Path(spec.origin).parent / "jars"
    file = directory / f"{_name(java, base, jars)}.jsa"
    mark = file.with_suffix(".wanted")
    try:
        if file.is_file():
            return ClassArchive(f'{_WARNINGS_TO_STDERR} "-XX:SharedArchiveFile={file}"', file)
        if not mark.is_file():
            directory.mkdir(parents=True, exist_ok=True)
            mark.touch()
            return ClassArchive("", file)
    except OSError:
        return None
    written = workspace / "classes.jsa"
    return ClassArchive(
        f'{_WARNINGS_TO_STDERR} "-XX:ArchiveClassesAtExit={written}"', file, written
    )


def archive_directory(chosen: str | None, environment: Mapping[str, str]) -> Path | None:
    """The directory of the settings, else one below `OMNIGRAPH_CACHE_DIR`; an empty text: none."""
    if chosen is None:
        chosen = environment.get("OMNIGRAPH_CACHE_DIR")
    if chosen is None:
        home = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        chosen = f"{home}/omnigraph"
    return Path(chosen) / "spark" if chosen else None


def _name(java: Java, base: Path, jars: Path) -> str:
    """Changes with the Java and with the jars, which may be installed again at the same place."""
    facts = [f"{java.home}", f"{base.stat().st_mtime_ns}", f"{jars}", f"{jars.stat().st_mtime_ns}"]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
