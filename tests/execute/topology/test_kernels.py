"""The kernels in numpy and compiled by numba give what a plain loop gives."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.neighbours import StoredNeighbours, count_common, group

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


@pytest.mark.parametrize("many", [0, 1, 20, 400])
def test_distinct_values_ascend(many: int) -> None:
    values = np.random.default_rng(many).integers(0, 1000, many).astype(np.int32)
    found = kernels.unique_sorted(values, 1000)
    assert found.tolist() == sorted(set(values.tolist()))
    assert found.dtype == np.int32
