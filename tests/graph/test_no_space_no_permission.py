"""A full disk and a directory that may not be written: a clear error, and nothing is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import (
    InvalidArgument,
    OmnigraphError,
    OutcomeUnknown,
    StorageFailure,
    StorageFull,
    StorageUnsafe,
)
from omnigraph.failpoints import FailpointRaised
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.lance_store.objects import control_files
from omnigraph.lance_store.objects.control_files import LocalFiles
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

ONE_NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}
PAGE = 4096


# --- permissions --------------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder every user can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_directory_that_may_not_be_written(open_folder: Path) -> None:
    uri = str(open_folder / "graph.omni")
    graph = workloads.create_small_graph(uri)
    expected = content(graph)
    folders = [Path(root) for root, *_ in os.walk(uri)]
    for folder in folders:
        folder.chmod(0o555)
    try:
        child = start("omnigraph_testing.workloads:open_unprivileged", {"uri": uri})
        code, reports, stderr = child.finish()
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert code == 0, stderr
    read, refused = reports
    assert read == expected, "reading needs no write permission"
    assert refused["code"] == "storage_failure"
    assert "not allowed" in refused["error"]
    assert "not writable" in refused["error"]
    assert graph.apply(ONE_NOTE).commit is not None


def test_an_address_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidArgument, match="is a file; a graph is a directory"):
        init(tmp_path / "file" / "graph", workloads.small_catalog())
    with pytest.raises(StorageFailure):
        init("/proc/graph", workloads.small_catalog())


# --- a small file system ------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = tmp_path / "disk"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(mounted)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)


def free_pages(disk: Path) -> int:
    usage = os.statvfs(disk)
    return usage.f_bavail * usage.f_bsize // PAGE


def leave_free(disk: Path, pages: int) -> None:
    """Fill the disk with a file named ballast until exactly `pages` are left."""
    with (disk / "ballast").open("wb") as ballast:
        while (surplus := free_pages(disk) - pages) > 0:
            ballast.write(b"\0" * PAGE * surplus)
            ballast.flush()


def test_a_read_only_file_system(small_disk: Path) -> None:
    uri = str(small_disk / "graph.omni")
    graph = workloads.create_small_graph(uri)
    before = content(graph)
    remount = ["mount", "-o", "remount", str(small_disk)]
    subprocess.run([*remount[:2], "remount,ro", remount[-1]], check=True)
    for write in (
        lambda: graph.apply(ONE_NOTE),
        lambda: open_graph(uri),
        lambda: graph.branches.create("b"),
        lambda: graph.tags.create("t"),
    ):
        with pytest.raises(StorageFailure, match="not allowed"):
            write()
    assert content(open_graph(uri, read_only=True)) == before
    subprocess.run([*remount[:2], "remount,rw", remount[-1]], check=True)
    assert graph.apply(ONE_NOTE).commit is not None
    assert_at_rest(graph)


def commit_two_tables(graph: Graph, marker: str) -> OmnigraphError | None:
    try:
        graph.apply(
            {
                "Note": {"insert": [{"id": marker, "text": "x"}]},
                "Person": {"upsert": [{"name": marker}]},
            }
        )
    except (StorageFull, OutcomeUnknown) as error:
        return error
    return None


def test_a_disk_that_fills_up_at_any_moment_of_a_commit(small_disk: Path) -> None:
    """One more page each time, so that every step of the commit in turn is the one that fails."""
    uri = str(small_disk / "graph.omni")
    graph = workloads.create_small_graph(uri)
    acknowledged = {"n0"}
    errors: list[OmnigraphError] = []
    for pages in range(40):
        marker = f"pages-{pages}"
        leave_free(small_disk, pages)
        failure = commit_two_tables(graph, marker)
        unknown = {marker} if isinstance(failure, OutcomeUnknown) else set()
        if failure is None:
            acknowledged.add(marker)
        else:
            errors.append(failure)
        reader = open_graph(uri, read_only=True)
        assert set(content(reader)["Note"]) == acknowledged, "what is visible is acknowledged"
        (small_disk / "ballast").unlink()

        graph.apply({"Note": {"insert": [{"id": f"after-{pages}", "text": "x"}]}})
        acknowledged.add(f"after-{pages}")
        notes = set(content(graph)["Note"])
        assert acknowledged <= notes <= acknowledged | unknown
        assert (marker in notes) == (marker in content(graph)["Person"]), "all or nothing"
        acknowledged = notes
        assert_at_rest(graph)
        if failure is None:
            break
    else:
        pytest.fail("a commit should fit into 40 pages")
    assert any(isinstance(error, StorageFull) for error in errors)
    assert all("no space left" in str(error) for error in errors)
    assert_history_readable(graph, limit=5)


def test_a_full_disk_does_not_stop_recovery_for_good(small_disk: Path) -> None:
    uri = str(small_disk / "graph.omni")
    graph = workloads.create_small_graph(uri)
    before = content(graph)
    failpoints.arm("commit.after_advance_first", "raise")
    with pytest.raises(FailpointRaised):
        graph.apply(workloads.THREE_TABLES)
    failpoints.disarm_all()
    for pages in range(40):
        leave_free(small_disk, pages)
        try:
            fresh = open_graph(uri, settings=workloads.settings())
        except StorageFull:
            assert content(open_graph(uri, read_only=True)) == before
        else:
            break
        finally:
            (small_disk / "ballast").unlink()
    else:
        pytest.fail("a recovery should fit into 40 pages")
    assert content(fresh) == before
    assert [a.recovery_kind for a in fresh.recoveries()] == ["rolled_back"]
    assert_at_rest(fresh)


def test_init_on_a_full_disk_can_be_repeated(small_disk: Path) -> None:
    uri = str(small_disk / "graph.omni")
    leave_free(small_disk, 3)
    with pytest.raises(StorageFull):
        init(uri, workloads.small_catalog())
    (small_disk / "ballast").unlink()
    assert_at_rest(workloads.create_small_graph(uri))


# --- injected, so that it runs everywhere -------------------------------------------------------


def test_no_space_for_the_intent(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(graph)

    def full(fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(control_files, "_write_all", full)
        with pytest.raises(StorageFull, match="free some and repeat"):
            graph.apply(ONE_NOTE)
    assert content(graph) == before
    assert_at_rest(graph)
    assert graph.apply(ONE_NOTE).commit is not None


def test_a_store_without_put_if_absent_is_refused(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overwrite(self: LocalFiles, key: str, data: bytes) -> bool:
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return True

    before = content(graph)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "put", overwrite)
        with pytest.raises(StorageUnsafe, match="put-if-absent"):
            open_graph(uri)
        with pytest.raises(StorageUnsafe, match="put-if-absent"):
            init(f"{uri}-new", workloads.small_catalog())
        assert content(open_graph(uri, read_only=True)) == before
    assert not Path(f"{uri}-new", "__manifest").exists()
    assert_at_rest(open_graph(uri, settings=workloads.settings()))
