"""Files between processes: whatever happens to them, answers stay right."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.execute.topology.cache_files import CacheFiles, StoredTopology
from omnigraph.execute.views.snapshot_views import SnapshotViews, ViewCache
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.writes.shape import Edit

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
QUERY = "query q() { match { $a: Person $a knows $b } return { $a.name, $b.name, $b.age } }"


def people(graph: Graph, names: range) -> None:
    rows = [{"name": f"p{n:04d}", "age": n} for n in names]
    edges = [{"id": f"e{n}", "from": f"p{n:04d}", "to": f"p{n * 7 % 50:04d}"} for n in names]
    graph.apply({"Person": Edit(upsert=rows), "Knows": Edit(upsert=edges)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g", SCHEMA)
    people(graph, range(50))
    return graph


def pairs(graph: Graph, folder: Path | None, limit: int = 1 << 30) -> list[tuple[str, str]]:
    """Who knows whom, by a cache of its own over the files of the folder."""
    stored = StoredTopology(CacheFiles(folder, limit), smallest=0)
    views = SnapshotViews(graph.snapshot(), ViewCache(graph.engine.reader, 1 << 30, stored))
    adjacency = views.adjacency("Knows")
    ids = adjacency.contents[1].ids.to_pylist()
    found = set()
    for near, turn in ((adjacency.out, 1), (adjacency.into, -1)):
        sources = np.repeat(np.arange(len(ids)), np.diff(near.offsets))
        ends = zip(sources.tolist(), near.nodes.tolist(), strict=True)
        found |= {(ids[a], ids[b])[::turn] for a, b in ends}
    return sorted(found)


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.topology"))


def test_a_second_process_maps_what_the_first_one_kept(graph: Graph, folder: Path) -> None:
    expected = pairs(graph, None)
    assert pairs(graph, folder) == expected
    kept = {path: path.stat().st_ino for path in files_of(folder)}
    assert kept
    assert pairs(graph, folder) == expected
    assert {path: path.stat().st_ino for path in files_of(folder)} == kept


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "head", "swapped", "longer"])
def test_damaged_files_are_noticed(graph: Graph, folder: Path, damage: str) -> None:
    expected = pairs(graph, folder)
    chance = random.Random(damage)
    files = files_of(folder)
    contents = [path.read_bytes() for path in files]
    for number, path in enumerate(files):
        data = bytearray(contents[number])
        match damage:
            case "cut":
                data = data[: chance.randrange(1, len(data))]
            case "empty":
                data = bytearray()
            case "flip":
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case "head":
                data[chance.randrange(16)] ^= 0xFF
            case "swapped":
                data = bytearray(contents[number - 1])
            case _:
                data += b"\0" * 64
        path.unlink()
        path.write_bytes(data)
    assert pairs(graph, folder) == expected
    assert pairs(graph, folder) == expected


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path, 1 << 30)
    array = np.arange(1500, dtype=np.int64)
    assert files.save("x", {"a": array, "b": array[:3].astype(np.int32)})
    (path,) = files_of(tmp_path)
    data = path.read_bytes()
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        loaded = files.load("x")
        # Between the arrays there is room that nobody reads.
        assert loaded is None or np.array_equal(loaded["a"], array)
        path.write_bytes(data)
    loaded = files.load("x")
    assert loaded is not None
    assert np.array_equal(loaded["a"], array)


def test_a_full_disk_means_slower(
    graph: Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = pairs(graph, None)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("omnigraph.execute.topology.cache_files.failpoints.hit", full)
    assert pairs(graph, folder) == expected
    assert list(folder.iterdir()) == []


def test_a_file_where_the_folder_should_be_means_slower(graph: Graph, folder: Path) -> None:
    folder.write_text("not a folder")
    assert pairs(graph, folder) == pairs(graph, None)


def test_a_closed_folder_means_slower(graph: Graph) -> None:
    closed = Path("/proc/omnigraph")  # closed to root too
    assert not CacheFiles(closed, 1 << 30).save("x", {"a": np.arange(3)})
    assert pairs(graph, closed) == pairs(graph, None)


def test_files_stay_within_their_bound(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path, 40_000)
    array = np.arange(1000)
    for number in range(10):
        assert files.save(f"n{number}", {"a": array})
        os.utime(files_of(tmp_path)[0])
        assert sum(path.stat().st_size for path in files_of(tmp_path)) <= 40_000
    assert files.load("n9") is not None
    assert files.load("n0") is None
    assert not files.save("large", {"a": np.arange(10_000)})


def test_a_mapped_file_survives_its_eviction(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path, 10_000)
    files.save("a", {"a": np.arange(1000)})
    mapped = files.load("a")
    files.save("b", {"a": np.arange(1000)})
    assert files.load("a") is None
    assert mapped is not None
    assert mapped["a"].sum() == 499_500


def test_a_graph_made_anew_at_the_same_place_starts_afresh(tmp_path: Path, folder: Path) -> None:
    for names in (range(30), range(20, 50)):
        place = tmp_path / "again"
        subprocess.run(["rm", "-rf", str(place)], check=True)
        graph = init(place, SCHEMA)
        people(graph, range(50))
        graph.apply({"Person": Edit(delete=[f"p{n:04d}" for n in range(50) if n not in names])})
        assert pairs(graph, folder) == pairs(graph, None)


BUILDER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.execute.topology.test_cache_files import pairs
from omnigraph.graph.open import open_graph
print(len(pairs(open_graph({graph!r}, read_only=True), Path({folder!r}))))
"""


def builder(graph: Graph, folder: Path, **environment: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    text = BUILDER.format(tests=str(root), graph=graph.uri, folder=str(folder))
    return subprocess.Popen(
        [sys.executable, "-c", text],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_builders_at_once_and_one_killed_while_writing(graph: Graph, folder: Path) -> None:
    expected = str(len(pairs(graph, None)))
    killed = builder(graph, folder, OMNIGRAPH_FAILPOINTS="cache.before_array=kill@3")
    killed.communicate()
    assert killed.returncode == -9
    racing = [builder(graph, folder) for _ in range(2)]
    for process in racing:
        out, _ = process.communicate()
        assert (process.returncode, out.strip()) == (0, expected)
    left = list(folder.glob(".*.part"))
    assert left, "the killed one left its unfinished file, which nobody reads"
    assert pairs(graph, folder) == pairs(graph, None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "home"))
    return tmp_path / "home"


def test_small_graphs_leave_no_files(graph: Graph, home: Path) -> None:
    opened = open_graph(graph.uri, read_only=True)
    assert len(opened.query(QUERY).to_pylist()) > 0
    assert not home.exists()


def test_files_are_bounded_in_number_and_rarely_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.execute.topology.cache_files._MOST_FILES", 128)
    files = CacheFiles(tmp_path, 1 << 30)
    looks = []
    look = files._files
    monkeypatch.setattr(files, "_files", lambda: looks.append(0) or look())
    for number in range(1000):
        assert files.save(f"n{number}", {"a": np.arange(3)})
        assert number % 100 or len(files_of(tmp_path)) <= 128
    assert len(files_of(tmp_path)) <= 128
    assert len(looks) <= 1000 / 2
    assert files.load("n999") is not None
