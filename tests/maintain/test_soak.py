"""Everything at once, with kills: nothing acknowledged is lost, nothing read is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph_testing.soak import Soak, SoakPlan
from omnigraph_testing.soak_roles import SoakModel, edits_of, first_edits, soak_catalog

pytestmark = pytest.mark.crash


def test_a_short_soak(tmp_path: Path) -> None:
    plan = SoakPlan(
        commits=100,
        commits_per_writer=40,
        life_seconds=5.0,
        pause_seconds=0.2,
        minimum_age=3.0,
        samples=0,
    )
    report = Soak(str(tmp_path / "graph"), plan).run()
    assert report.commits >= 100
    assert report.done["right"] > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_long_soak(tmp_path: Path) -> None:
    """`python -m bench soak --scale full` also measures."""
    assert Soak(str(tmp_path / "graph"), SoakPlan(commits=20_000, samples=0)).run().kills > 20


@pytest.fixture
def soaked(uri: str) -> Graph:
    graph = init(uri, soak_catalog())
    graph.apply(first_edits())
    for number in range(1, 30):
        graph.apply(edits_of("main", number))
    return graph


@pytest.mark.parametrize(
    "wrong",
    [
        {"Person": {"delete": ["main-count"]}},
        {"Person": {"upsert": [{"name": "main-count", "age": 28}]}},
        {"Person": {"insert": [{"name": "main-900", "age": 3}]}},
        {"Place": {"upsert": [{"name": "main-1", "visit": 9}]}},
        {"Place": {"delete": ["place-7"]}},
        {"Knows": {"insert": [{"id": "x", "from": "main-count", "to": "main-count", "since": 1}]}},
    ],
)
def test_the_model_sees_a_wrong_row(soaked: Graph, wrong: dict[str, object]) -> None:
    SoakModel().check_snapshot(soaked, soaked.snapshot())
    soaked.apply(wrong)
    with pytest.raises(AssertionError):
        SoakModel().check_snapshot(soaked, soaked.snapshot())
