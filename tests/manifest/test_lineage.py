"""Common ancestors on random histories, against the definition."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.manifest.lineage import best_common_ancestors, meeting_points


@dataclass(frozen=True)
class FakeCommit:
    graph_commit_id: str
    created_at: int
    parents: tuple[str, ...]

    @property
    def commit(self) -> FakeCommit:
        return self


class FakeLineage:
    def __init__(self, parents: dict[str, tuple[str, ...]]) -> None:
        self._known = {name: FakeCommit(name, int(name), above) for name, above in parents.items()}

    def find(self, commit_id: str) -> FakeCommit | None:
        return self._known.get(commit_id)

    def commit(self, commit_id: str) -> FakeCommit:
        return self._known[commit_id]


@st.composite
def histories(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {"0": ()}
    for number in range(1, draw(st.integers(2, 14))):
        older = st.sampled_from([str(n) for n in range(max(0, number - 5), number)])
        found[str(number)] = tuple(draw(st.lists(older, min_size=1, max_size=2, unique=True)))
    return found


def ancestors(parents: dict[str, tuple[str, ...]], commit_id: str) -> set[str]:
    return {commit_id}.union(*(ancestors(parents, p) for p in parents[commit_id]))


def best(parents: dict[str, tuple[str, ...]], a: str, b: str) -> list[str]:
    common = ancestors(parents, a) & ancestors(parents, b)
    return sorted(c for c in common if not any(c in ancestors(parents, d) - {d} for d in common))


@settings(max_examples=60)
@given(histories(), st.data())
def test_cleanup_is_told_of_every_ancestor_a_merge_may_need(
    parents: dict[str, tuple[str, ...]], data: st.DataObject
) -> None:
    lineage = FakeLineage(parents)
    heads = data.draw(st.lists(st.sampled_from(sorted(parents)), min_size=1, unique=True))
    spared = meeting_points(lineage, heads) | set(heads)  # type: ignore[arg-type]
    waiting = list(combinations(heads, 2))
    seen = set(waiting)
    while waiting:
        a, b = waiting.pop()
        found = best_common_ancestors(lineage, (a,), b)  # type: ignore[arg-type]
        assert found == best(parents, a, b)
        assert set(found) <= spared
        more = set(combinations(found, 2)) - seen  # a criss-cross: its ancestors are merged first
        seen |= more
        waiting += more


def test_one_line_needs_nothing_but_its_forks() -> None:
    line = {str(n): (str(n - 1),) if n else () for n in range(50)}
    lineage = FakeLineage({**line, "50": ("20",), "51": ("40",)})
    assert meeting_points(lineage, ["49", "50", "51"]) == {"20", "40"}  # type: ignore[arg-type]
