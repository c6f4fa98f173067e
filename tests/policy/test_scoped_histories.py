"""Exports, differences, feeds and merge previews under random rules, against brute force."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from omnigraph_testing.graph_data import GraphData
from omnigraph_testing.random_graphs import graphs
from omnigraph_testing.scoped_graphs import random_rules
from omnigraph_testing.scoped_histories import Expected, ScopedHistory

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

GRAPH = GraphData(
    "interface Insect { s: String? }\n"
    "node Ant implements Insect { key: String @key  i: I32?  ls: [String]? }\n"
    "node Bee implements Insect { t: String  m: DateTime?  f: F64? }\n"
    "edge Knows: Ant -> Ant { i: I32? }\n"
    "edge Visits: Ant -> Bee { s: String? }\n",
    (
        '{"type": "Ant", "data": {"key": "a", "i": 1, "s": "x"}}',
        '{"type": "Ant", "data": {"key": "b", "i": 2, "ls": ["a", ""]}}',
        '{"type": "Ant", "data": {"key": "c", "s": "100%"}}',
        '{"type": "Ant", "data": {"key": "d", "i": 7}}',
        '{"type": "Bee", "data": {"id": "a", "t": "two", "f": 0.25}}',
        '{"type": "Bee", "data": {"id": "b", "t": "", "m": "2020-01-01T10:30:15Z"}}',
        '{"type": "Bee", "data": {"id": "c", "t": "x", "s": "a"}}',
        '{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "1", "i": 1}}',
        '{"edge": "Knows", "from": "b", "to": "c", "data": {"id": "2"}}',
        '{"edge": "Knows", "from": "c", "to": "c", "data": {"id": "3", "i": 2}}',
        '{"edge": "Visits", "from": "a", "to": "a", "data": {"id": "1", "s": "x"}}',
        '{"edge": "Visits", "from": "d", "to": "c", "data": {"id": "2"}}',
    ),
)


def check_history(graph: GraphData, seed: int, rule_sets: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history = ScopedHistory.create(graph, folder, chance)
        try:
            for number in range(rule_sets):
                expected = Expected(history, random_rules(graph, chance))
                (folder / f"rules{number}").mkdir()
                expected.check_exports(folder / f"rules{number}")
                expected.check_differences()
                expected.check_previews()
        finally:
            history.whole.close()


@pytest.mark.parametrize("seed", [3])
def test_answers_about_a_history_are_those_of_the_filtered_graph(seed: int) -> None:
    check_history(GRAPH, seed, rule_sets=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(graph=graphs(), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET, phases=[Phase.generate])
def test_answers_about_many_histories_are_those_of_the_filtered_graph(
    graph: GraphData, seed: int
) -> None:
    check_history(graph, seed, rule_sets=3)
