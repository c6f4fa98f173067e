from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.spark.class_archive import archive_directory, class_archive
from omnigraph.spark.java import Java


@pytest.fixture
def java(tmp_path: Path) -> Java:
    base = tmp_path / "java" / "lib" / "server" / "classes.jsa"
    base.parent.mkdir(parents=True)
    base.touch()
    return Java(tmp_path / "java", 17, complete=True)


def test_the_second_session_writes_what_later_ones_use(java: Java, tmp_path: Path) -> None:
    work, kept = tmp_path / "omnigraph-spark-1", tmp_path / "a folder"
    work.mkdir()
    first = class_archive(java, kept, work)
    assert first is not None
    assert first.options == ""
    first.keep()
    second = class_archive(java, kept, work)
    assert second is not None
    assert second.written is not None
    assert f'"-XX:ArchiveClassesAtExit={second.written}"' in second.options
    second.keep()  # a JVM that was killed has written nothing
    assert not second.file.exists()
    second.written.write_bytes(b"classes")
    second.keep()
    third = class_archive(java, kept, work)
    assert third is not None
    assert third.written is None
    assert f'"-XX:SharedArchiveFile={third.file}"' in third.options
    assert third.file.read_bytes() == b"classes"


def test_other_jars_are_another_archive(java: Java, tmp_path: Path) -> None:
    before = class_archive(java, tmp_path, tmp_path)
    os.utime(java.home / "lib" / "server" / "classes.jsa", (1, 1))
    after = class_archive(java, tmp_path, tmp_path)
    assert before is not None
    assert after is not None
    assert before.file != after.file


def test_only_the_newest_archives_are_kept(java: Java, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.jsa").touch()
        os.utime(tmp_path / f"{number}.jsa", (number, number))
    class_archive(java, tmp_path, tmp_path)
    archive = class_archive(java, tmp_path, tmp_path)
    assert archive is not None
    assert archive.written is not None
    archive.written.write_bytes(b"classes")
    archive.keep()
    assert {f.name for f in tmp_path.glob("*.jsa")} == {"3.jsa", "4.jsa", archive.file.name}


def test_no_archive(java: Java, tmp_path: Path) -> None:
    assert class_archive(java, None, tmp_path) is None
    (tmp_path / "file").touch()
    assert class_archive(java, tmp_path / "file" / "below", tmp_path) is None
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    assert class_archive(java, tmp_path, tmp_path) is None


def test_where_archives_are() -> None:
    assert archive_directory("/a", {}) == Path("/a/spark")
    assert archive_directory("", {"OMNIGRAPH_CACHE_DIR": "/b"}) is None
    assert archive_directory(None, {"OMNIGRAPH_CACHE_DIR": "/b"}) == Path("/b/spark")
    assert archive_directory(None, {"OMNIGRAPH_CACHE_DIR": ""}) is None
    assert archive_directory(None, {"XDG_CACHE_HOME": "/c"}) == Path("/c/omnigraph/spark")
