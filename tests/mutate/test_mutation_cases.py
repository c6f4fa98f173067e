"""Mutations as golden cases: the receipt and every entity that changed, or the error.

A case is a query, optionally after a line `params {…}`, on a fresh copy of one small graph.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import LanguageError, OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import EmbeddingSettings, Settings
from omnigraph_testing.golden_cases import GoldenCase, check_case, read_cases
from omnigraph_testing.invariants import assert_at_rest, content

FIXTURES = Path(__file__).parent.parent / "fixtures" / "mutations"
SETTINGS = Settings(embedding=EmbeddingSettings(provider="mock", width=4))
SEED = {
    "Person": [
        {"email": "ada", "name": "Ada", "age": 36, "status": "active", "nick": "countess"},
        {"email": "bob", "name": "Bob", "age": None, "status": "left", "tags": ["x"]},
        {"email": "cy", "name": "Cy", "age": 7, "status": "active", "score": 1.5, "bio": "red fox"},
    ],
    "Note": [{"id": "n1", "text": "first", "stars": 5}, {"id": "n2", "text": "second"}],
    "Knows": [
        {"id": "k1", "from": "ada", "to": "bob", "since": 2001},
        {"id": "k2", "from": "bob", "to": "cy"},
        {"id": "k3", "from": "ada", "to": "cy", "since": 2020},
    ],
    "Wrote": [{"id": "w1", "from": "ada", "to": "n1"}, {"id": "w2", "from": "cy", "to": "n2"}],
}
ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
NOW = re.compile(r'"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00:00"')


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seed") / "g.omni"
    schema = (FIXTURES / "graph.pg").read_text()
    graph = omnigraph.init(folder, schema, settings=SETTINGS)
    graph.apply({name: {"insert": rows} for name, rows in SEED.items()})
    return folder


@pytest.mark.parametrize("case", read_cases(FIXTURES), ids=str)
def test_mutation(case: GoldenCase, seed: Path, tmp_path: Path) -> None:
    shutil.copytree(seed, tmp_path / "g.omni")
    graph = omnigraph.open(tmp_path / "g.omni", settings=SETTINGS)
    check_case(case, lambda text: outcome(graph, text))
    assert_at_rest(graph)


def outcome(graph: Graph, text: str) -> str:
    first, _, rest = text.partition("\n")
    params = json.loads(first.removeprefix("params ")) if first.startswith("params ") else {}
    source = rest if first.startswith("params ") else text
    before, head = content(graph), graph.snapshot().graph_commit_id
    try:
        receipt = graph.mutate(source, params=params)
    except OmnigraphError as error:
        assert content(graph) == before
        assert graph.snapshot().graph_commit_id == head
        return masked(described(error))
    after = content(graph)
    lines = [f"nodes {receipt.affected_nodes} edges {receipt.affected_edges}"]
    if receipt.commit is None:
        lines.append("no commit")
        assert graph.snapshot().graph_commit_id == head
    return masked("\n".join([*lines, *sorted(changes(before, after))]))


def described(error: OmnigraphError) -> str:
    lines = [type(error).__name__]
    if isinstance(error, LanguageError):
        return "\n".join([*lines, *(f"{d['code']} {d['message']}" for d in error.diagnostics)])
    if "violations" not in error.fields:
        return "\n".join([*lines, error.message])
    lines += [
        f"{v['rule']} {v['type']} {v['entity_id']} {v['property']}: {v['message']}"
        for v in error.violations
    ]
    return "\n".join(lines)


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    lines = []
    for name in {*before, *after}:
        old, new = before.get(name, {}), after.get(name, {})
        lines += [f"- {name} {i}" for i in old if i not in new]
        for identity, row in new.items():
            if identity not in old:
                lines.append(f"+ {name} {identity} {shown(row)}")
            elif old[identity] != row:
                changed = {k: v for k, v in row.items() if old[identity][k] != v}
                lines.append(f"~ {name} {identity} {shown(changed, keep_null=True)}")
    return lines


def shown(row: dict[str, Any], *, keep_null: bool = False) -> str:
    kept = {k: v for k, v in row.items() if k != "id" and (keep_null or v is not None)}
    for name, value in kept.items():
        if name == "vec" and value is not None:
            kept[name] = f"<{len(value)} numbers>"
    return json.dumps(kept, default=str)


def masked(text: str) -> str:
    return NOW.sub('"<now>"', ULID.sub("<new>", text))
