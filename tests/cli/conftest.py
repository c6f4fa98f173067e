from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import omnigraph
from omnigraph import Edit, Graph
from omnigraph.cli.main import app

SCHEMA = """node Person {
  name: String @key
  age: I32?
  born: DateTime?
  bio: String?
  tags: [String]?
}
node Note { text: String  photo: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
BORN = dt.datetime(1815, 12, 10, 10)
PEOPLE = [
    {"name": "Ada", "age": 36, "born": BORN, "bio": "", "tags": ["a", "b"]},
    {"name": "Bob", "age": None, "bio": "NULL"},
    {"name": "Čen 陳", "age": 7, "bio": 'one, "two"\nthree'},
]
QUERIES = """query everybody() {
  match { $p: Person }
  return { $p.name, $p.age, $p.born, $p.bio, $p.tags }
}
query named($name: String) {
  match { $p: Person { name: $name } }
  return { $p.age as age }
}
query older($than: I32, $at: DateTime?) {
  match { $p: Person  $p.age > $than }
  return { $p.name as name }
}
query grow($name: String) { update Person set { age: 99 } where name = $name }
"""


@dataclass(frozen=True)
class Answer:
    """What a person sees after a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _nobody_is_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config file of whoever runs the tests must not take part in them."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("OMNIGRAPH_CONFIG", "OMNIGRAPH_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OMNIGRAPH_DEBUG", raising=False)


@pytest.fixture
def cli() -> Callable[..., Answer]:
    def run(*words: object, input: str | None = None) -> Answer:
        result = CliRunner().invoke(app, [str(word) for word in words], input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "people.omni", SCHEMA, actor="maker")
    edges = [
        {"from": "Ada", "to": "Bob", "since": dt.date(2020, 1, 2)},
        {"from": "Bob", "to": "Čen 陳"},
    ]
    graph.apply({"Person": Edit(insert=PEOPLE), "Knows": Edit(insert=edges)}, message="people")
    return graph


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    file = tmp_path / "people.gq"
    file.write_text(QUERIES, encoding="utf-8")
    return file
