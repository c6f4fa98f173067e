from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.errors import StorageFailure
from omnigraph.lance_store.objects import control_files
from omnigraph.lance_store.objects.control_files import LocalFiles

HOLD = """
import sys, time
from pathlib import Path
from omnigraph.lance_store.objects.control_files import LocalFiles
release = LocalFiles(Path(sys.argv[1])).put_held("a/held", b"x")
print("held", flush=True)
if sys.argv[2] == "release":
    release()
    print("released", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


def holder(root: Path, how: str = "hold") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    if how == "release":
        assert process.stdout.readline() == "released\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_holder_is_dead_only_when_its_process_is(files: LocalFiles, tmp_path: Path) -> None:
    process = holder(tmp_path)
    try:
        assert not files.holder_is_dead("a/held")
        assert not files.holder_is_dead("a/held"), "looking does not take the lock"
    finally:
        end(process)
    assert files.holder_is_dead("a/held")
    assert files.get("a/held") == b"x"


def test_a_holder_that_lets_go_counts_as_dead(files: LocalFiles, tmp_path: Path) -> None:
    process = holder(tmp_path, "release")
    try:
        assert files.holder_is_dead("a/held")
    finally:
        end(process)


def test_own_holds(files: LocalFiles) -> None:
    release = files.put_held("a/mine", b"x")
    assert release is not None
    assert not files.holder_is_dead("a/mine")
    assert files.put_held("a/mine", b"y") is None
    assert not files.holder_is_dead("a/mine"), "the loser's try does not end the hold"
    release()
    assert files.holder_is_dead("a/mine")
    assert not files.holder_is_dead("a/absent"), "absence proves nothing"


def test_a_failed_put_leaves_nothing(
    files: LocalFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, data: bytes) -> None:
        os.write(fd, data[:1])
        raise OSError("no more")

    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch:
        patch.setattr(control_files, "_write_all", fail)
        with pytest.raises(StorageFailure, match="writing a/key"):
            files.put("a/key", b"data")
    assert files.get("a/key") is None
    assert list((tmp_path / "a").iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert files.put("a/key", b"data")


def test_where_nameless_files_are_missing(
    files: LocalFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems have no O_TMPFILE: a named file that listings do not show."""
    shown: list[list[str]] = []
    real_open, real_link = os.open, os.link

    def refuse(path: object, flags: int, *rest: int, **more: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real_open(path, flags, *rest, **more)  # type: ignore[arg-type]

    def link(*arguments: object, **more: object) -> None:
        shown.append(files.list("a"))
        real_link(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "link", link)
    assert files.put("a/key", b"one")
    assert not files.put("a/key", b"two")
    assert shown == [[], ["key"]]
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["key"]
    assert files.get("a/key") == b"one"


def test_large_puts_are_written_whole(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    assert files.put("k", b"0123456789")
    assert files.get("k") == b"0123456789"


def test_synced_files_work_alike(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path, sync=True)
    assert files.put("a/b", b"x")
    assert not files.put("a/b", b"y")
    assert files.get("a/b") == b"x"
