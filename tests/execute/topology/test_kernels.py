"""The kernels in numpy and compiled by numba give what a plain loop gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.neighbours import (
    StoredNeighbours,
    count_common,
    group,
    turned,
)

NODES = 60


def neighbours(seed: int, edges: int) -> StoredNeighbours:
    chance = np.random.default_rng(seed)
    ends = chance.integers(0, NODES, (2, edges)).astype(np.int32)
    # One node has most of the others, so that lists of very different lengths meet.
    ends[0, : edges // 3] = 7
    return group(ends[0], ends[1], np.arange(edges, dtype=np.int32), NODES).pairs


def lists(near: StoredNeighbours) -> list[list[int]]:
    bounds = near.offsets.tolist()
    return [near.nodes[a:b].tolist() for a, b in pairwise(bounds)]


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def _with_or_without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "compiled":
        assert kernels.warm_up()
    else:
        monkeypatch.setattr(kernels, "_compiled", None)


@pytest.mark.parametrize("many", [0, 1, 5, 32, 33, 500])
@pytest.mark.parametrize("mapped", [False, True])
def test_targets_are_the_nodes_of_follow(many: int, mapped: bool) -> None:
    near = neighbours(1, 200)
    # Arrays that are mapped from a file cannot be written.
    near.nodes.flags.writeable = near.offsets.flags.writeable = not mapped
    sources = np.random.default_rng(many).integers(0, NODES, many).astype(np.int32)
    expected: list[Any] = [(row, n) for row, s in enumerate(sources) for n in lists(near)[s]]
    rows, nodes, edges = near.follow(sources)
    assert list(zip(rows.tolist(), nodes.tolist(), strict=True)) == expected
    assert len(edges) == len(nodes)
    assert near.targets(sources).tolist() == nodes.tolist()


@pytest.mark.parametrize("many", [0, 3, 5000])
def test_common_neighbours_are_counted(many: int) -> None:
    near, far = neighbours(2, 300), neighbours(3, 900)
    chance = np.random.default_rng(many)
    keys, others = (chance.integers(0, NODES, many).astype(np.int32) for _ in range(2))
    first, second = lists(near), lists(far)
    expected = [
        len(set(first[a]) & set(second[b])) for a, b in zip(keys.tolist(), others, strict=True)
    ]
    assert count_common(near, far, keys, others).tolist() == expected


@pytest.mark.parametrize("edges", [0, 1, 30, 2000])
def test_entries_are_grouped_and_turned(edges: int) -> None:
    chance = np.random.default_rng(edges)
    keys, nodes = (chance.integers(0, NODES, edges).astype(np.int32) for _ in range(2))
    # Some edges have no ends, so their numbers are left out.
    numbers = np.flatnonzero(chance.random(edges * 2) < 0.4)[:edges].astype(np.int32)
    keys, nodes = keys[: len(numbers)], nodes[: len(numbers)]
    entries = list(zip(keys.tolist(), nodes.tolist(), numbers.tolist(), strict=True))
    near = group(keys, nodes, numbers, NODES)
    assert entries_of(near) == sorted(entries)
    assert entries_of(turned(near, NODES)) == sorted((n, k, e) for k, n, e in entries)


def entries_of(near: StoredNeighbours) -> list[tuple[int, int, int]]:
    assert len(near.offsets) == NODES + 1
    assert near.nodes.dtype == near.edges.dtype == np.int32
    rows, nodes, edges = near.follow(np.arange(NODES, dtype=np.int32))
    return list(zip(rows.tolist(), nodes.tolist(), edges.tolist(), strict=True))


@pytest.mark.parametrize("many", [0, 1, 20, 400])
def test_distinct_values_ascend(many: int) -> None:
    values = np.random.default_rng(many).integers(0, 1000, many).astype(np.int32)
    found = kernels.unique_sorted(values, 1000)
    assert found.tolist() == sorted(set(values.tolist()))
    assert found.dtype == np.int32


LOADED = """
import json
from omnigraph.execute.topology import compiled_kernels, kernels
kept = compiled_kernels.are_kept()
assert kernels.warm_up()
compiled = [k.__name__ for k in compiled_kernels._signatures if k.stats.cache_misses]
print(json.dumps([kept, compiled, compiled_kernels.are_kept()]))
"""


@pytest.mark.slow
def test_the_first_process_of_an_installation_compiles_in_another_one(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def load() -> Any:
        out = subprocess.run(
            [sys.executable, "-c", LOADED], env=environment, capture_output=True, check=True
        )
        return json.loads(out.stdout)

    assert load() == [False, [], True]
    assert load() == [True, [], True]
