"""The commit graph as lines of text: lanes side by side, newest commit first; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DrawnCommit:
    """A commit, what it descends from, and what to print beside it."""

    commit_id: str
    parents: tuple[str, ...]
    label: str


def draw(commits: Sequence[DrawnCommit]) -> list[str]:
    """One line a commit, and lines between where lanes part or join.

    `commits` come with children before parents. A lane waits for one commit; parents that are not
    among them leave their lane open at the bottom.
    """
    lanes: list[str] = []
    lines: list[str] = []
    for commit in commits:
        if commit.commit_id not in lanes:
            lanes.append(commit.commit_id)
        column = lanes.index(commit.commit_id)
        for joining in [i for i, c in enumerate(lanes) if c == commit.commit_id][:0:-1]:
            lines.append(_joint(len(lanes), joining, "/"))
            del lanes[joining]
        marks = ["*" if i == column else "|" for i in range(len(lanes))]
        lines.append(f"{' '.join(marks)}  {commit.label}".rstrip())
        first, *others = commit.parents or ("",)
        if first:
            lanes[column] = first
        else:
            del lanes[column]
        for parent in others:
            if parent not in lanes:
                lanes.insert(column + 1, parent)
                lines.append(_joint(len(lanes), column + 1, "\\"))
    return lines


def _joint(lanes: int, column: int, mark: str) -> str:
    """A line on which the lane at `column` leaves or meets the one to its left."""
    left = " ".join("|" for _ in range(column))
    right = "".join(" |" for _ in range(lanes - column - 1))
    return f"{left}{mark}{right}"
