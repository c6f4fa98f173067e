"""Positions for a drawing: nodes pushed apart, links pulling together, and lanes of commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin, sqrt

import numpy as np
import numpy.typing as npt

from omnigraph.manifest.records import Commit

Points = npt.NDArray[np.float64]

_GOLDEN = pi * (3 - sqrt(5))
_ROUNDS = 60
_STEP = 0.1


def sunflower(count: int, radius: float = 1.0) -> Points:
    """Points that fill a disc evenly, in a fixed order."""
    return np.array(
        [
            (radius * sqrt(i + 0.5) * cos(i * _GOLDEN), radius * sqrt(i + 0.5) * sin(i * _GOLDEN))
            for i in range(count)
        ],
        dtype=np.float64,
    ).reshape(count, 2)


def arranged(
    points: Points, links: Sequence[tuple[int, int]], fixed: Sequence[bool], rounds: int = _ROUNDS
) -> Points:
    """The points moved by forces: all repel each other, and linked ones attract each other.

    Fixed points keep their place. Equal inputs give equal positions.
    """
    count = len(points)
    if count < 2:
        return points.copy()
    placed = points.astype(np.float64).copy()
    free = ~np.asarray(fixed, dtype=bool)
    if not free.any():
        return placed
    ends = np.asarray(links, dtype=np.intp).reshape(-1, 2)
    for turn in range(rounds):
        apart = placed[:, None, :] - placed[None, :, :]
        square = np.maximum((apart**2).sum(axis=2), 0.01)
        push = (apart / square[:, :, None]).sum(axis=1)
        pull = np.zeros_like(placed)
        along = placed[ends[:, 1]] - placed[ends[:, 0]]
        weight = np.sqrt((along**2).sum(axis=1, keepdims=True))
        np.add.at(pull, ends[:, 0], along * weight)
        np.add.at(pull, ends[:, 1], -along * weight)
        force = push + pull - 0.05 * placed
        length = np.maximum(np.sqrt((force**2).sum(axis=1, keepdims=True)), 1e-9)
        heat = _STEP * sqrt(count) * (1 - turn / rounds)
        placed[free] += (force / length * np.minimum(length, heat))[free]
    return placed


@dataclass(frozen=True, slots=True)
class CommitSpot:
    """A commit in the drawing of a history: its lane, its row, and its parents in the drawing."""

    commit: Commit
    lane: int
    row: int
    parents: tuple[str, ...]


def lanes(commits: Sequence[Commit]) -> list[CommitSpot]:
    """Commits, newest first, each in a lane; a first parent continues the lane of its child."""
    shown = {commit.graph_commit_id for commit in commits}
    waiting: list[str | None] = []
    found = []
    for row, commit in enumerate(commits):
        name = commit.graph_commit_id
        lane = _lane_of(waiting, name)
        for other, wanted in enumerate(waiting):
            if wanted == name and other != lane:
                waiting[other] = None
        parents = tuple(
            parent
            for parent in (commit.parent_commit_id, commit.merged_parent_commit_id)
            if parent is not None and parent in shown
        )
        waiting[lane] = commit.parent_commit_id
        merged = commit.merged_parent_commit_id
        if merged is not None and merged not in waiting:
            waiting[_free_lane(waiting)] = merged
        found.append(CommitSpot(commit, lane, row, parents))
    return found


def _lane_of(waiting: list[str | None], name: str) -> int:
    return waiting.index(name) if name in waiting else _free_lane(waiting)


def _free_lane(waiting: list[str | None]) -> int:
    if None in waiting:
        return waiting.index(None)
    waiting.append(None)
    return len(waiting) - 1


def schema_positions(
    names: Sequence[str], links: Sequence[tuple[str, str]]
) -> Mapping[str, Points]:
    """A place for every type of a schema."""
    index = {name: i for i, name in enumerate(names)}
    pairs = [(index[a], index[b]) for a, b in links if a != b]
    placed = arranged(sunflower(len(names), 1.5), pairs, [False] * len(names), 200)
    return {name: placed[i] for name, i in index.items()}
