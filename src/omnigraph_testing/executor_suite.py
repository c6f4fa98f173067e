"""The conformance suite: cases in text files, with one answer that every executor must give.

A file has one graph and its cases:

    // what the file is about
    schema
    node Person { name: String @key  age: I32? }
    data
    {"type": "Person", "data": {"name": "Ada", "age": 36}}

    === a title
    query q($least: I32) {
      match { $p: Person $p.age >= $least }
      return { $p.name, $p.age }
    }
    params {"least": 30}
    not_yet spark: why it cannot yet
    -> p.name | p.age
    ["Ada", 36]

After `->` come the columns, then one JSON array per row, in order. `-> error <code>` expects an
error: its code, or the code of one of its findings (`T7`).
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.query.compiler import compile_query
from omnigraph.values.temporal import write_moment
from omnigraph_testing.graph_data import GraphData, data_lines
from omnigraph_testing.reference.executor import evaluate

Answer = tuple[Sequence[str], Sequence[Mapping[str, Any]]]
Run = Callable[[GraphData, str, Mapping[str, Any]], Answer]
"""(graph, query text, parameters) -> columns and rows."""

_TITLE = "=== "
_CLOSE = 1e-9


@dataclass(frozen=True)
class ConformanceCase:
    """One query over one graph, with the expected answer."""

    file: Path
    title: str
    graph: GraphData
    source: str
    parameters: Mapping[str, Any]
    columns: tuple[str, ...] = ()
    rows: tuple[list[Any], ...] = ()
    error: str | None = None
    gaps: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file.stem}: {self.title}"


def read_suite(path: Path) -> list[ConformanceCase]:
    """The cases of a file, or of every `.case` file of a folder."""
    if path.is_dir():
        return [case for file in sorted(path.glob("*.case")) for case in read_suite(file)]
    head, *blocks = f"\n{path.read_text(encoding='utf-8')}".split(f"\n{_TITLE}")
    graph = _read_graph(head)
    cases = [_read_case(path, graph, block) for block in blocks]
    titles = [case.title for case in cases]
    assert len(set(titles)) == len(titles), f"{path}: a title occurs twice"
    return cases


def _read_graph(head: str) -> GraphData:
    before, _, data = head.partition("\ndata\n")
    _, _, schema = before.partition("\nschema\n")
    return GraphData(schema, data_lines(data.splitlines()))


def _read_case(path: Path, graph: GraphData, block: str) -> ConformanceCase:
    title, _, text = block.partition("\n")
    asked, found, expected = text.partition("\n-> ")
    assert found, f"{path}: {title}: no `->` line"
    query: list[str] = []
    parameters: dict[str, Any] = {}
    gaps: dict[str, str] = {}
    for line in asked.splitlines():
        if line.startswith("params "):
            parameters = json.loads(line.removeprefix("params "))
        elif line.startswith("not_yet "):
            executor, _, why = line.removeprefix("not_yet ").partition(":")
            gaps[executor.strip()] = why.strip()
        else:
            query.append(line)
    first, *lines = expected.strip("\n").splitlines()
    error = first.removeprefix("error ") if first.startswith("error ") else None
    columns = () if error else tuple(name.strip() for name in first.split(" | "))
    rows = tuple(json.loads(line) for line in lines if line.strip())
    assert all(len(row) == len(columns) for row in rows), f"{path}: {title}: row width"
    return ConformanceCase(
        path, title.strip(), graph, "\n".join(query), parameters, columns, rows, error, gaps
    )


def run_reference(graph: GraphData, source: str, parameters: Mapping[str, Any]) -> Answer:
    """The reference evaluator as an executor."""
    compiled = compile_query(source, graph.catalog)
    assert compiled.plan is not None, "a conformance case must be a read query"
    bound = compiled.bind(parameters)
    return evaluate(compiled.plan, graph.catalog, graph.nodes, graph.edges, bound)


def check_conformance(case: ConformanceCase, run: Run) -> None:
    """Run one case; the assertion shows both tables."""
    failed: OmnigraphError | None = None
    columns: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    try:
        columns, rows = run(case.graph, case.source, case.parameters)
    except OmnigraphError as error:
        if case.error is None:
            raise
        failed = error
    actual = [[plain(row[name]) for name in columns] for row in rows]
    shown = f"{case}\n--- expected {case.error or ''}\n{_table(case.columns, case.rows)}"
    shown += f"\n--- actual {failed!r}\n{_table(columns, actual)}"
    assert case.error is None or (failed and case.error in _codes(failed)), shown
    assert tuple(columns) == case.columns, shown
    assert len(actual) == len(case.rows), shown
    assert all(map(same_value, case.rows, actual)), shown


def _codes(error: OmnigraphError) -> set[str]:
    findings = error.fields.get("diagnostics", ())
    return {error.code, *(finding["code"] for finding in findings)}


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return "\n".join([" | ".join(columns), *(json.dumps(r, ensure_ascii=False) for r in rows)])


def plain(value: Any) -> Any:
    """A result value in its JSON form. Moments without a zone are UTC."""
    match value:
        case dt.datetime():
            return write_moment(value if value.tzinfo else value.replace(tzinfo=dt.UTC))
        case dt.date():
            return value.isoformat()
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case _:
            return value


def same_value(expected: Any, actual: Any) -> bool:
    """Equal in type and value. Floats may differ as much as the order of a sum changes them."""
    match expected:
        case float():
            return type(actual) is float and math.isclose(
                expected, actual, rel_tol=_CLOSE, abs_tol=_CLOSE
            )
        case list():
            return (
                isinstance(actual, list)
                and len(expected) == len(actual)
                and all(map(same_value, expected, actual))
            )
        case dict():
            return (
                isinstance(actual, dict)
                and expected.keys() == actual.keys()
                and all(same_value(value, actual[name]) for name, value in expected.items())
            )
        case _:
            return type(expected) is type(actual) and expected == actual
