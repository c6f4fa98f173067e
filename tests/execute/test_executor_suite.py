"""The suite itself: it must notice every way an answer can be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph_testing.executor_suite import (
    Answer,
    ConformanceCase,
    check_conformance,
    read_suite,
    same_value,
)
from omnigraph_testing.graph_data import GraphData

TEXT = """// one node type
schema
node Person { name: String @key  age: I32? }
data
{"type": "Person", "data": {"name": "Ada", "age": 36}}
// a comment
{"type": "Person", "data": {"name": "Bob"}}

=== people
query q($least: I32?) {
  match { $p: Person }
  return { $p.name, $p.age as years }
}
params {"least": 3}
not_yet spark: no reason at all
-> p.name | years
["Ada", 36]
["Bob", null]

=== nobody
query q() { match { $p: Person $p.age > 99 } return { $p.name } }
-> p.name

=== wrong
query q() { match { $p: Person $p.age > "x" } return { $p.name } }
-> error T7
"""


@pytest.fixture
def cases(tmp_path: Path) -> list[ConformanceCase]:
    file = tmp_path / "small.case"
    file.write_text(TEXT, encoding="utf-8")
    return read_suite(file)


def answering(columns: list[str], rows: list[list[Any]]) -> Any:
    def run(_graph: GraphData, _source: str, _parameters: Mapping[str, Any]) -> Answer:
        return columns, [dict(zip(columns, row, strict=True)) for row in rows]

    return run


def test_a_file_is_read(cases: list[ConformanceCase]) -> None:
    people, nobody, wrong = cases
    assert str(people) == "small: people"
    assert people.columns == ("p.name", "years")
    assert people.rows == (["Ada", 36], ["Bob", None])
    assert people.parameters == {"least": 3}
    assert people.gaps == {"spark": "no reason at all"}
    assert people.graph is nobody.graph
    assert people.graph.nodes["Person"]["Bob"] == {"id": "Bob", "name": "Bob", "age": None}
    assert (nobody.rows, nobody.error, wrong.error) == ((), None, "T7")


def test_the_right_answer_passes(cases: list[ConformanceCase]) -> None:
    check_conformance(cases[0], answering(["p.name", "years"], [["Ada", 36], ["Bob", None]]))


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (["p.name", "years"], [["Bob", None], ["Ada", 36]]),
        (["p.name", "years"], [["Ada", 36]]),
        (["p.name", "years"], [["Ada", 36], ["Bob", None], ["Bob", None]]),
        (["p.name", "years"], [["Ada", 36.0], ["Bob", None]]),
        (["p.name", "years"], [["Ada", "36"], ["Bob", None]]),
        (["p.name", "years"], [["Ada", 36], ["Bob", 0]]),
        (["p.name", "p.age"], [["Ada", 36], ["Bob", None]]),
    ],
    ids=["order", "missing", "repeated", "float", "text", "null", "column"],
)
def test_a_wrong_answer_is_noticed(
    cases: list[ConformanceCase], columns: list[str], rows: list[list[Any]]
) -> None:
    with pytest.raises(AssertionError, match="small: people"):
        check_conformance(cases[0], answering(columns, rows))


def test_rows_instead_of_an_error_are_noticed(cases: list[ConformanceCase]) -> None:
    with pytest.raises(AssertionError, match="small: wrong"):
        check_conformance(cases[2], answering(["p.name"], []))


def test_another_error_is_noticed(cases: list[ConformanceCase]) -> None:
    def refuse(*_: object) -> Answer:
        raise NotFound("nothing here")

    with pytest.raises(AssertionError, match="nothing here"):
        check_conformance(cases[2], refuse)


def test_an_error_instead_of_rows_is_raised(cases: list[ConformanceCase]) -> None:
    def refuse(*_: object) -> Answer:
        raise InvalidArgument("no")

    with pytest.raises(InvalidArgument):
        check_conformance(cases[0], refuse)


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (1.0, 1, False),
        (0.1 + 0.2, 0.3, True),
        (0.1, 0.1001, False),
        ([1, [2.0]], [1, [2.0]], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        (None, None, True),
        ("", None, False),
    ],
)
def test_same_value(expected: Any, actual: Any, same: bool) -> None:
    assert same_value(expected, actual) is same
