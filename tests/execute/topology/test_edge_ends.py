"""The ends of edges are counted as a set of pairs counts them, in any number of parts."""

from __future__ import annotations

import numpy as np
import pytest

from omnigraph.execute.topology import edge_ends
from omnigraph.execute.topology.edge_ends import count_ends

# Positions of few bits, of 32 bits for a pair, and of more.
SIZES = [(60, 20), (1, 1), (3_000, 70_000), (1_000_000, 1_000_000), (2**31 - 1, 5), (90, 2**26)]


@pytest.mark.parametrize("edges", [0, 1, 30, 2_000, 60_000])
@pytest.mark.parametrize("sizes", SIZES[:4])
@pytest.mark.parametrize("part_edges", [4, edge_ends._PART_EDGES])
def test_ends_are_counted(
    edges: int, sizes: tuple[int, int], part_edges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_ends, "_PART_EDGES", part_edges)
    monkeypatch.setattr(edge_ends, "_AT_ONCE", 700)
    sources, targets = random_ends(edges, sizes)
    pairs = np.array(sorted(set(zip(sources.tolist(), targets.tolist(), strict=True))), np.int64)
    once = pairs.reshape(-1, 2)
    found = count_ends(sources, targets, sizes)
    expected = [
        np.bincount(sources, minlength=sizes[0]),
        np.bincount(targets, minlength=sizes[1]),
        np.bincount(once[:, 0], minlength=sizes[0]),
        np.bincount(once[:, 1], minlength=sizes[1]),
    ]
    for counts, right in zip(found, expected, strict=True):
        assert np.array_equal(counts, right)


@pytest.mark.parametrize("sizes", SIZES)
def test_repeated_pairs_are_found_whatever_the_number_of_nodes(sizes: tuple[int, int]) -> None:
    sources, targets = random_ends(20_000, sizes)
    seen: set[tuple[int, int]] = set()
    expected = []
    for pair in zip(sources.tolist(), targets.tolist(), strict=True):
        if pair in seen:
            expected.append(pair)
        seen.add(pair)
    found = edge_ends._repeated_pairs(sources, targets, sizes)
    pairs = zip(*(ends.tolist() for ends in found), strict=True)
    assert sorted(pairs) == sorted(expected)
    assert expected


def random_ends(edges: int, sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Every fourth edge has the ends of another one, and the last nodes have edges."""
    chance = np.random.default_rng(edges)
    sources, targets = (chance.integers(0, size, edges).astype(np.int32) for size in sizes)
    sources[: edges // 8] = sizes[0] - 1
    targets[: edges // 9] = sizes[1] - 1
    again, of = np.arange(0, edges, 4), chance.integers(0, max(edges, 1), len(range(0, edges, 4)))
    sources[again], targets[again] = sources[of], targets[of]
    return sources, targets
