from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.mcp.agent_tools import AgentTools
from omnigraph.mcp.tool_answers import ToolAnswer

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  bio: String? @index
  about: Vector(256)? @embed("bio", model="wordllama-l2-supercat-256")
  @range(age, 0..150)
}
node City { name: String @key  founded: Date? }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City @card(0..1)
"""
DATA = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "bio": "writes programs for engines"}},
    {"type": "Person", "data": {"name": "Bob", "age": 20, "bio": "bakes bread in the morning"}},
    {"type": "Person", "data": {"name": "Cleo", "bio": "sails across the sea"}},
    {"type": "City", "data": {"name": "London", "founded": "0047-01-01"}},
    {"edge": "Knows", "from": "Ada", "to": "Bob"},
    {"edge": "Knows", "from": "Bob", "to": "Cleo"},
    {"edge": "LivesIn", "from": "Ada", "to": "London"},
]
QUERIES = """
query friends_of($name: String) @description("Friends of a person.") @instruction("Exact name.") {
  match { $p: Person { name: $name }  $p knows $f } return { $f.name as friend }
}
query set_age($name: String, $age: I64) @mcp(tool_name: "birthday") {
  update Person set { age: $age } where name = $name
}
query on_branch($branch: String, $ids: [I64]?, $day: Date?, $ok: Bool?, $x: F64?, $n: I32?) {
  match { $p: Person } return { $branch as branch } limit 1
}
query secret() @mcp(expose: false) { match { $p: Person } return { $p.name } }
"""


@pytest.fixture(scope="session")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    (folder / "people.gq").write_text(QUERIES)
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes another graph with the same people."""

    def make() -> str:
        uri = tmp_path_factory.mktemp("agents") / "people.omni"
        with omnigraph.init(uri, SCHEMA) as graph:
            graph.load(DATA)
        return str(uri)

    return make


@pytest.fixture(scope="module")
def tools(made: Callable[[], str], queries: Path) -> Iterator[AgentTools]:
    """The tools of a graph that a module shares; tests change only their own branches."""
    with omnigraph.open(made(), actor="agent", queries=queries) as graph:
        yield AgentTools(graph, graph_id="people")


@pytest.fixture
def ask(tools: AgentTools) -> Callable[..., ToolAnswer]:
    """Call a tool that must succeed."""

    def call(name: str, /, **arguments: Any) -> ToolAnswer:
        answer = tools.call(name, arguments)
        assert not answer.is_error, answer.text
        return answer

    return call
