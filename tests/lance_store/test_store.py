from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from omnigraph.lance_store.store import VersionFolder

LONG_AGO = 1_700_000_000_000_000_000


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    folder = tmp_path / "t" / "tree" / "b" / "_versions"
    folder.mkdir(parents=True)
    os.utime(folder, ns=(LONG_AGO, LONG_AGO))
    return folder


def watched(versions: Path) -> VersionFolder:
    return VersionFolder(versions.parents[3], "t", "b")


def test_a_still_folder_is_recognised(versions: Path) -> None:
    folder = watched(versions)
    mark = folder.mark()
    assert mark is not None
    assert folder.is_still(mark)


def test_a_new_file_shows(versions: Path) -> None:
    folder = watched(versions)
    mark = folder.mark()
    assert mark is not None
    (versions / "2.manifest").touch()
    assert not folder.is_still(mark)


def test_what_changed_a_moment_ago_is_not_trusted(versions: Path) -> None:
    now = time.time_ns()
    os.utime(versions, ns=(now, now))
    assert watched(versions).mark() is None


def test_another_folder_of_the_same_age_is_another(versions: Path) -> None:
    folder = watched(versions)
    mark = folder.mark()
    assert mark is not None
    versions.rename(versions.parent / "old")
    versions.mkdir()
    os.utime(versions, ns=(LONG_AGO, LONG_AGO))
    assert not folder.is_still(mark)


def test_a_folder_that_is_gone(versions: Path) -> None:
    folder = watched(versions)
    mark = folder.mark()
    assert mark is not None
    shutil.rmtree(versions)
    assert not folder.is_still(mark)
    assert folder.mark() is None
