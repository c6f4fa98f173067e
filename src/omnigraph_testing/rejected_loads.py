"""Loads with bad rows that every load engine must pass: what is reported, what is loaded.

`check_skipped`, `check_limit` and `check_everything_at_once` run one case with an engine, given as
the value of `engine=`. The graph is that of `load_suite`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph_testing.graph_helpers import exported
from omnigraph_testing.load_suite import write_files


def _home(name: str) -> str:
    return f'{{"edge":"LivesIn","from":"{name}","to":"[\\"at\\",\\"1\\"]"}}'


@dataclass(frozen=True)
class SkippedInput:
    """A file that loads without its bad rows."""

    name: str
    lines: tuple[str, ...]
    rejected: Mapping[int, tuple[str, ...]]
    """Line -> the rules that its row breaks."""
    added: tuple[int, ...]
    """Lines that the export has afterwards."""
    mode: str = "append"
    unchanged: int = 0
    """Rows that the load takes and that change nothing."""


_LIVES_L4 = '{"edge":"LivesIn","from":"y","to":"[\\"at\\",\\"1\\"]","data":{"id":"l4"}}'
_LIVES_L5 = '{"edge":"LivesIn","from":"z","to":"[\\"at\\",\\"1\\"]","data":{"id":"l5"}}'
_Y, _Z = (f'{{"type":"Person","data":{{"name":"{name}"}}}}' for name in "yz")

SKIPPED_INPUTS = (
    SkippedInput(
        "values, and edges of rejected nodes",
        (
            '{"type":"Person","data":{"name":"x","age":"old","status":"gone","born":"soon"}}',
            _home("x"),
            _Y,
            _LIVES_L4,
            '{"edge":"Knows","from":"y","to":"x"}',
            '{"edge":"Knows","from":"y","to":"ada","data":{"id":"k2"}}',
            '{"type":"Person","data":{"name":"w","age":151,"email":"nobody"}}',
            "rubbish",
        ),
        {
            1: ("type", "type", "enum"),
            2: ("endpoint",),
            5: ("endpoint",),
            7: ("range", "check"),
            8: ("syntax",),
        },
        (3, 4, 6),
    ),
    SkippedInput(
        "one row falls after the other",
        (
            _Y,
            '{"edge":"LivesIn","from":"y","to":"[\\"de\\",\\"9\\"]"}',
            '{"edge":"Knows","from":"ada","to":"y"}',
            _Z,
            _LIVES_L5,
        ),
        {1: ("cardinality",), 2: ("endpoint",), 3: ("endpoint",)},
        (4, 5),
    ),
    SkippedInput(
        "ids that exist or occur twice, and unique values",
        (
            '{"type":"Person","data":{"name":"ada"}}',
            '{"type":"Person","data":{"name":"z","code":"B"}}',
            '{"type":"Person","data":{"name":"z","age":3}}',
            '{"type":"Person","data":{"name":"w","code":"B"}}',
            _LIVES_L5,
            _home("w"),
        ),
        {1: ("duplicate_id",), 3: ("duplicate_id",), 4: ("unique",), 6: ("endpoint",)},
        (2, 5),
    ),
    SkippedInput(
        "too many edges",
        (
            _Y,
            _LIVES_L4,
            _Z,
            _LIVES_L5,
            '{"edge":"Knows","from":"ada","to":"y","data":{"id":"k2"}}',
            '{"edge":"Knows","from":"ada","to":"z","data":{"id":"k3"}}',
        ),
        {6: ("cardinality",)},
        (1, 2, 3, 4, 5),
    ),
    SkippedInput(
        "an edge that its node needs",
        ('{"edge":"LivesIn","from":"bob","to":"[\\"at\\",\\"1\\"]","data":{"id":"l1"}}',),
        {1: ("cardinality", "cardinality")},
        (),
        "merge",
    ),
    SkippedInput(
        "merged edges without ids",
        (
            '{"edge":"Knows","from":"ada","to":"zoe"}',
            '{"edge":"Knows","from":"ada","to":"bob"}',
            '{"edge":"Knows","from":"bob","to":"ada","data":{"id":"k2"}}',
            '{"edge":"Knows","from":"bob","to":"bob","data":{"id":"k3"}}',
            '{"edge":"Knows","from":"bob","to":"cy","data":{"id":"k3"}}',
        ),
        {1: ("endpoint",), 5: ("endpoint",)},
        (3, 4),
        "merge",
        unchanged=1,
    ),
    SkippedInput(
        "patches",
        (
            '{"type":"Person","data":{"name":"ada","age":"old"}}',
            '{"type":"Person","data":{"name":"bob","age":200}}',
            '{"type":"Task","data":{"title":"t","state":"done","points":1,"due":"2030-01-01"}}',
            '{"edge":"Knows","from":"bob","to":"zoe"}',
            '{"type":"Person","data":{"name":"ada","age":36}}',
            '{"type":"Person","data":{"name":"ada","age":-1}}',
            '{"type":"Task","data":{"state":"done"}}',
        ),
        {1: ("type",), 2: ("range",), 4: ("endpoint",), 6: ("range",), 7: ("required",)},
        (3,),
        "patch",
        unchanged=1,
    ),
    SkippedInput(
        "overwrite",
        (
            '{"type":"Note","data":{"id":"n1","text":"a"}}',
            '{"type":"Note","data":{"id":"n2"}}',
            '{"edge":"Wrote","from":"ada","to":"n1","data":{"id":"w1"}}',
            '{"edge":"Wrote","from":"ada","to":"n2","data":{"id":"w2"}}',
        ),
        {2: ("required",), 4: ("endpoint",)},
        (1, 3),
        "overwrite",
    ),
)


def check_skipped(graph: Graph, folder: Path, case: SkippedInput, engine: str) -> None:
    """The load takes the good rows only, and the file of rejects lists the others."""
    (path,) = write_files(folder / "in", {"in.ndjson": "\n".join(case.lines).encode()})
    before, bad = exported(graph).splitlines(), folder / "bad.ndjson"
    receipt = graph.load(path, case.mode, engine=engine, on_error="skip", rejects=bad)
    after = exported(graph).splitlines()
    assert sorted(after) == sorted([*before, *(case.lines[line - 1] for line in case.added)])
    taken = len(case.added) + case.unchanged
    assert (receipt.rejected, receipt.total_entities) == (len(case.rejected), taken)
    assert receipt.to_dict()["rejected"] == len(case.rejected)
    found = [json.loads(line) for line in bad.read_text().splitlines()]
    rules = {row["line"]: tuple(v["rule"] for v in row["violations"]) for row in found}
    assert rules == case.rejected
    for row in found:
        assert row["file"] == str(path)
        text = case.lines[row["line"] - 1]
        assert row["row"] == (json.loads(text) if text.startswith("{") else text)
    assert graph.verify().ok


def check_limit(graph: Graph, folder: Path, case: SkippedInput, engine: str) -> None:
    """With more bad rows than allowed nothing changes, but the file still lists them."""
    (path,) = write_files(folder / "in", {"in.ndjson": "\n".join(case.lines).encode()})
    before, bad = exported(graph), folder / "bad.ndjson"
    most = len(case.rejected) - 1
    refused = _refusal(graph, path, case.mode, engine, bad, max_errors=most, on_error="skip")
    listed = len(bad.read_text().splitlines())
    assert listed > most
    assert refused.message.startswith(f"{listed} rows would be rejected, more than max_errors")
    assert exported(graph) == before


def check_everything_at_once(graph: Graph, folder: Path, engine: str) -> ValidationFailed:
    """All kinds of violations are reported together; an edge is not blamed for a broken node."""
    lines = (
        '{"type":"Person","data":{"name":"x","age":"old","status":"gone"}}',
        _home("x"),
        '{"edge":"Knows","from":"bob","to":"x"}',
        '{"type":"Person","data":{"name":"ada"}}',
        '{"type":"Note","data":{"id":"n","text":"a"}}',
        '{"type":"Note","data":{"id":"n","text":"b"}}',
        '{"edge":"Wrote","from":"ada","to":"n9"}',
        '{"edge":"Knows","from":"ada","to":"bob"}',
        _Y,
    )
    (path,) = write_files(folder / "in", {"in.ndjson": "\n".join(lines).encode()})
    before, bad = exported(graph), folder / "bad.ndjson"
    refused = _refusal(graph, path, "append", engine, bad)
    counts = {"type": 1, "enum": 1, "duplicate_id": 2, "endpoint": 1, "unique": 1}
    assert refused.counts == {**counts, "cardinality": 1}
    assert refused.total == 7
    endpoint = {"rule": "endpoint", "type": "Wrote", "property": "to", "count": 1}
    assert endpoint in (refused.summary or ())
    listed = [json.loads(line)["line"] for line in bad.read_text().splitlines()]
    assert listed == [1, 4, 6, 7, 8, 9]
    assert exported(graph) == before
    return refused


def _refusal(
    graph: Graph, path: Path, mode: str, engine: str, rejects: Path, **options: Any
) -> ValidationFailed:
    try:
        graph.load(path, mode, engine=engine, rejects=rejects, **options)
    except ValidationFailed as error:
        return error
    raise AssertionError("the load should have failed")
