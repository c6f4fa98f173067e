"""The contract of control files, on a directory and on S3."""

from __future__ import annotations

import fcntl
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.errors import StorageFailure, StorageUnsafe
from omnigraph.lance_store.objects import control_files
from omnigraph.lance_store.objects.control_files import (
    ControlFiles,
    LocalFiles,
    open_control_files,
    prove_put_if_absent,
)
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.values.clock import SYSTEM_CLOCK


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.s3)])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> ControlFiles:
    if request.param == "file":
        return open_control_files(parse_location(tmp_path / "root", {}))
    server = request.getfixturevalue("s3")
    uri = f"s3://graphs/{uuid.uuid4()}"
    return open_control_files(parse_location(uri, server.environment()))


def test_put_is_if_absent(files: ControlFiles) -> None:
    assert files.get("a/b.json") is None
    assert files.put("a/b.json", b"one")
    assert not files.put("a/b.json", b"two")
    assert files.get("a/b.json") == b"one"
    held = files.put_held("a/c.json", b"held")
    assert held is not None
    assert files.put_held("a/c.json", b"other") is None
    assert files.get("a/c.json") == b"held"
    held()
    assert files.get("a/c.json") == b"held", "letting go does not remove"


def test_listing_shows_names_of_one_folder_sorted(files: ControlFiles) -> None:
    assert files.list("a") == []
    for key in ("a/z", "a/.dot", "a/b.json", "ab/other", "other/a"):
        assert files.put(key, b"x")
    assert files.list("a") == [".dot", "b.json", "z"]


def test_delete(files: ControlFiles) -> None:
    files.delete("a/absent")
    files.put("a/b", b"x")
    files.delete("a/b")
    files.delete("a/b")
    assert files.get("a/b") is None
    assert files.list("a") == []
    assert files.put("a/b", b"again"), "the name is free again"


def test_only_the_object_that_was_looked_at_is_deleted(files: ControlFiles) -> None:
    files.delete_exactly("a/caf\u00e9~x.json", b"one")
    files.put("a/caf\u00e9~x.json", b"two")
    files.delete_exactly("a/caf\u00e9~x.json", b"one")
    assert files.get("a/caf\u00e9~x.json") == b"two"
    files.delete_exactly("a/caf\u00e9~x.json", b"two")
    assert files.get("a/caf\u00e9~x.json") is None


@pytest.mark.parametrize("data", [b"", b"\0" * 10, b"x" * 300_000])
def test_bytes_come_back_whole(files: ControlFiles, data: bytes) -> None:
    assert files.put("k", data)
    assert files.get("k") == data


def test_names_as_refs_have_them(files: ControlFiles) -> None:
    keys = [f"_refs/branches/{n}.json" for n in ("a~b", "ä", ".x", "x.json", "z" * 180)]
    for key in keys:
        assert files.put(key, key.encode())
    assert [files.get(key) for key in keys] == [key.encode() for key in keys]
    assert files.list("_refs/branches") == sorted(k.rsplit("/", 1)[1] for k in keys)


def test_of_racing_putters_one_wins(files: ControlFiles) -> None:
    files.put("warm/up", b"")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: files.put("race/key", b"%d" % n), range(8)))
    assert won.count(True) == 1
    assert files.get("race/key") == b"%d" % won.index(True)


def test_a_good_store_is_proven_and_left_clean(files: ControlFiles) -> None:
    prove_put_if_absent(files, SYSTEM_CLOCK)
    assert files.list("__recovery") == []


class _Overwriting(dict[str, bytes]):
    """A store whose second put wins as well."""

    def put(self, key: str, data: bytes) -> bool:
        self[key] = data
        return True

    def delete(self, key: str) -> None:
        self.pop(key, None)


class _Lying(_Overwriting):
    """Says that the second put lost, and keeps its bytes."""

    def put(self, key: str, data: bytes) -> bool:
        fresh = key not in self
        self[key] = data
        return fresh


@pytest.mark.parametrize("kind", [_Overwriting, _Lying])
def test_a_store_without_put_if_absent_is_refused(kind: type[_Overwriting]) -> None:
    files = kind()
    with pytest.raises(StorageUnsafe, match="conditional puts"):
        prove_put_if_absent(files, SYSTEM_CLOCK)  # type: ignore[arg-type]
    assert not files, "the probe is removed"


def test_an_object_replaced_between_look_and_delete_stays(
    files: ControlFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment there is: the bytes were compared, the request goes out."""
    files.put("refs/x", b"old")

    def replaced() -> None:
        files.delete("refs/x")
        files.put("refs/x", b"new")

    if isinstance(files, LocalFiles):
        real = control_files._lock_in_time
        monkeypatch.setattr(control_files, "_lock_in_time", lambda fd: (replaced(), real(fd)))
    else:
        ours = control_files.delete_if_unchanged
        monkeypatch.setattr(
            control_files,
            "delete_if_unchanged",
            lambda *arguments: (replaced(), ours(*arguments))[1],
        )
    files.delete_exactly("refs/x", b"old")
    assert files.get("refs/x") == b"new"


def test_who_removes_the_same_object_waits_for_its_turn(tmp_path: Path) -> None:
    """Between its look and its unlink a remover holds the file, so its name stays with it."""
    files = open_control_files(parse_location(tmp_path, {}))
    files.put("x", b"data")
    fd = os.open(tmp_path / "x", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(files.delete_exactly, "x", b"data")
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        assert files.get("x") == b"data"
        os.close(fd)  # what the kernel does for a killed process
        waiting.result(10)
    assert files.get("x") is None


def test_a_stopped_remover_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_files, "_LOCK_ATTEMPTS", 3)
    files = open_control_files(parse_location(tmp_path, {}))
    files.put("x", b"data")
    fd = os.open(tmp_path / "x", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(StorageFailure, match="a stopped process"):
        files.delete_exactly("x", b"data")
    os.close(fd)


def test_only_the_bytes_that_were_read_are_replaced(files: ControlFiles) -> None:
    assert not files.replace_exactly("a/state", b"1", b"2")
    assert files.get("a/state") is None
    files.put("a/state", b"1")
    assert not files.replace_exactly("a/state", b"0", b"2")
    assert files.get("a/state") == b"1"
    assert files.replace_exactly("a/state", b"1", b"2")
    assert files.get("a/state") == b"2"
    assert files.list("a") == ["state"], "nothing else is left"


def test_of_racing_replacers_one_wins(files: ControlFiles) -> None:
    files.put("state", b"start")
    with ThreadPoolExecutor(8) as pool:
        won = list(
            pool.map(lambda n: files.replace_exactly("state", b"start", b"%d" % n), range(8))
        )
    assert won.count(True) == 1
    assert files.get("state") == b"%d" % won.index(True)
