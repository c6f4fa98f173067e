"""Tools obey the policy: what is listed, what is called, and which rows and names are seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnigraph_testing.http_server import ThreadServer

POLICY = """
version: 1
groups: {agents: [ann], reviewers: [rob], guests: [gus]}
protected_branches: [main]
rules:
  - id: agents-and-reviewers-read
    allow: {actors: {group: agents}, actions: [read]}
  - id: reviewers-read
    allow: {actors: {group: reviewers}, actions: [read, change, branch_merge, branch_delete]}
  - id: agents-run
    allow: {actors: {group: agents}, actions: [invoke_query], queries: [friends_of, set_age]}
  - id: reviewers-run
    allow: {actors: {group: reviewers}, actions: [invoke_query]}
  - id: agents-fork
    allow: {actors: {group: agents}, actions: [branch_create], target_branches: ["task/*"]}
  - id: agents-write
    allow: {actors: {group: agents}, actions: [change], branches: ["task/*"]}
  - id: guests-see-little
    allow:
      actors: {group: guests}
      actions: [read]
      types: [Person, Knows]
      properties: {Person: [name, bio]}
      where: {Person: 'name != "Cleo"'}
  - id: guests-run
    allow: {actors: {group: guests}, actions: [invoke_query]}
"""
TOKENS = {"ann": "a", "rob": "r", "gus": "g"}
MAY_WRITE = {"graph_mutate", "graph_load", "birthday"}


@pytest.fixture(scope="module")
def server(
    made: Callable[[], str], queries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadServer]:
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text(POLICY)
    with ThreadServer(
        {"people": made()},
        tokens=json.dumps(TOKENS),
        queries=(("people", str(queries)),),
        policies=(("people", str(policy)),),
    ) as running:
        yield running


class Agent:
    """A client of one actor."""

    def __init__(self, server: ThreadServer, actor: str) -> None:
        self.http = server.graph_client("people", TOKENS[actor])
        self.http.headers["Accept"] = "application/json, text/event-stream"

    def send(self, method: str, **params: Any) -> Any:
        sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer: httpx.Response = self.http.post("/mcp", json=sent)
        return answer.json()["result"]

    def tools(self) -> set[str]:
        return {tool["name"] for tool in self.send("tools/list")["tools"]}

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.send("tools/call", name=name, arguments=arguments)

    def body(self, name: str, /, **arguments: Any) -> Any:
        answer = self.call(name, **arguments)
        assert not answer["isError"], answer
        return answer["structuredContent"]

    def refusal(self, name: str, /, **arguments: Any) -> str:
        answer = self.call(name, **arguments)
        assert answer["isError"], answer
        text: str = answer["content"][0]["text"]
        return text


@pytest.fixture(scope="module")
def agents(server: ThreadServer) -> Iterator[dict[str, Agent]]:
    found = {actor: Agent(server, actor) for actor in TOKENS}
    yield found
    for agent in found.values():
        agent.http.close()


@pytest.fixture
def ann(agents: dict[str, Agent]) -> Agent:
    return agents["ann"]


@pytest.fixture
def rob(agents: dict[str, Agent]) -> Agent:
    return agents["rob"]


@pytest.fixture
def gus(agents: dict[str, Agent]) -> Agent:
    return agents["gus"]


def test_lists_show_what_is_possible_on_some_branch(ann: Agent, rob: Agent, gus: Agent) -> None:
    agent, reviewer, guest = ann.tools(), rob.tools(), gus.tools()
    assert agent >= MAY_WRITE | {"begin_task", "finish_task", "friends_of"}
    assert not agent & {"branch_merge", "branch_delete", "on_branch"}
    assert reviewer >= {"branch_merge", "branch_delete", "graph_mutate", "on_branch"}
    assert not reviewer & {"branch_create", "begin_task"}
    assert not guest & (MAY_WRITE | {"begin_task", "branch_merge"})
    assert "friends_of" in guest


def test_a_denied_stored_query_is_an_unknown_tool(ann: Agent) -> None:
    """The answer depends only on the tools that the actor sees, and on the name."""
    denied, unknown = ann.call("on_branch", branch="x"), ann.call("on_banana", branch="x")
    assert denied["isError"]
    assert denied["structuredContent"].keys() == unknown["structuredContent"].keys()
    told = [a["structuredContent"]["error"].partition(";")[0] for a in (denied, unknown)]
    assert told == ["there is no tool 'on_branch'", "there is no tool 'on_banana'"]


def test_calls_ask_for_the_branch_of_the_call(ann: Agent, rob: Agent) -> None:
    insert = {"query": 'insert Person { name: "Dan" }'}
    assert "call begin_task" in ann.refusal("graph_mutate", **insert)
    assert "is not allowed" in ann.refusal("graph_mutate", **insert, branch=" main ")
    assert "may not" in ann.refusal("birthday", name="Ada", age=1)
    assert "another branch name" in ann.refusal("branch_create", name="release")
    branch = ann.body("begin_task", title="Add Dan")["branch"]
    ann.body("graph_mutate", **insert, branch=branch)
    refused = ann.refusal("finish_task", branch=branch, merge=True)
    assert "leave the branch for a reviewer" in refused
    assert "no tool" in ann.refusal("branch_merge", source=branch)
    done = rob.body("finish_task", branch=branch, merge=True, delete_branch=True)
    assert (done["merge"]["outcome"], done["merge"]["actor_id"]) == ("fast_forward", "rob")
    rob.body("graph_mutate", query='delete Person where name = "Dan"')


def test_hidden_rows_types_and_properties_are_not_there(gus: Agent) -> None:
    names = "match { $p: Person } return { $p.name as name } order { name }"
    assert [row["name"] for row in gus.body("graph_query", query=names)["rows"]] == ["Ada", "Bob"]
    schema = gus.call("schema_get")
    everything = json.dumps([
        schema,
        gus.call("type_sample", type="Person"),
        gus.call("graph_find", text="sea"),
        gus.call("graph_neighbours", type="Person", id="Bob", depth=3),
        gus.call("graph_snapshot"),
        gus.call("commit_changes", commit_id="HEAD"),
        gus.call("graph_diff", **{"from": "HEAD~1", "to": "main"}),
        gus.call("friends_of", name="Bob"),
        gus.call("graph_query", query="match { $p: Persn } return { $p.age }"),
        gus.call("graph_neighbours", type="City", id="London"),
        gus.send("resources/read", uri="omnigraph://schema"),
        gus.send("tools/list"),
    ])  # fmt: skip
    for hidden in ("City", "London", "LivesIn", "founded", "sails"):
        asked = everything.replace('"City"', "").replace("type 'City'", "").replace("London", "")
        assert hidden not in asked, hidden
    assert '"age"' not in everything
    found = gus.body("graph_neighbours", type="Person", id="Bob", depth=3)
    assert {node["id"] for node in found["nodes"]} == {"Ada"}
    assert gus.body("friends_of", name="Bob")["rows"] == []
    assert "no property" in gus.refusal(
        "graph_query", query=f"{names}".replace("$p.name", "$p.age")
    )


def test_a_stored_query_about_hidden_properties_is_no_tool(gus: Agent) -> None:
    assert "birthday" not in gus.tools()
    assert "there is no tool 'birthday'" in gus.refusal("birthday", name="Ada", age=1)
