"""The tools on a graph: what they answer, what they refuse, and that a refusal changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.mcp.agent_tools import BUILT_IN, AgentTools
from omnigraph.mcp.guide_texts import BEST_PRACTICES, guide
from omnigraph.mcp.tool_answers import MOST_BYTES, MOST_TEXT, ToolAnswer
from omnigraph.query.compiler import compile_all
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.json_values import json_form

Ask = Callable[..., ToolAnswer]
NAMES = "match { $p: Person } return { $p.name as name } order { name }"
CONTRACT = {
    "graph_health",
    "graph_query",
    "graph_snapshot",
    "schema_get",
    "branch_list",
    "commit_list",
    "commit_get",
    "graph_mutate",
    "graph_load",
    "branch_create",
    "branch_delete",
    "branch_merge",
}


def size(answer: ToolAnswer) -> int:
    return len(json.dumps(answer.body, default=json_form))


def test_the_tools_of_the_contract_are_there(tools: AgentTools) -> None:
    shown = {tool["name"]: tool for tool in tools.declarations()}
    assert shown.keys() >= CONTRACT
    assert {"friends_of", "birthday", "on_branch"} <= shown.keys()
    assert "secret" not in shown
    for name, tool in shown.items():
        schema = tool["inputSchema"]
        assert schema["type"] == "object", name
        assert schema["additionalProperties"] is False, name
        assert set(schema.get("required", ())) <= schema["properties"].keys(), name
        writes = BUILT_IN[name].writes if name in BUILT_IN else name == "birthday"
        assert tool["annotations"]["readOnlyHint"] is not writes, name
        if writes:
            assert "idempotency_key" in schema["properties"], name


def test_parameters_of_a_stored_query_become_json_schema(tools: AgentTools) -> None:
    shown = {tool["name"]: tool["inputSchema"] for tool in tools.declarations()}
    found = shown["on_branch"]["properties"]
    assert found["branch"]["type"] == "string"
    assert found["ids"]["items"] == {"type": "string", "pattern": "^-?[0-9]+$"}
    assert (found["day"]["type"], found["day"]["format"]) == ("string", "date")
    kinds = [found[name]["type"] for name in ("ok", "x", "n")]
    assert kinds == ["boolean", "number", "integer"]
    assert shown["on_branch"]["required"] == ["branch"]
    assert "_branch" in found  # the parameter of the query keeps its name
    assert shown["friends_of"]["required"] == ["name"]
    assert "snapshot" not in shown["birthday"]["properties"]


def test_reads(ask: Ask) -> None:
    found = ask("graph_query", query=NAMES)
    assert [row["name"] for row in found.body["rows"]] == ["Ada", "Bob", "Cleo"]
    assert found.text.splitlines()[:2] == ["name", "Ada"]
    old = ask("graph_query", query=NAMES, snapshot="HEAD~1")
    assert old.body["row_count"] == 0
    assert ask("graph_health").body["status"] == "ok"
    datasets = {d["type_name"]: d["entity_count"] for d in ask("graph_snapshot").body["datasets"]}
    assert datasets == {"Person": 3, "City": 1, "Knows": 2, "LivesIn": 1}
    assert "node Person" in ask("schema_get").body["schema_source"]
    one = ask("schema_get", type="City").text
    assert "edge LivesIn" in one
    assert "Knows" not in one
    assert ask("branch_list").body["branches"][0] == "main"
    commits = ask("commit_list", limit=1).body
    assert commits["commits"][0]["operation"] == "load"
    rest = ask("commit_list", after=commits["next"]).body["commits"]
    assert [commit["operation"] for commit in rest] == ["init"]
    head = commits["commits"][0]["graph_commit_id"]
    assert ask("commit_get", commit_id=head).body["graph_commit_id"] == head
    page = ask("commit_changes", commit_id=head, limit=3)
    assert len(page.body["changes"]) == 3
    more = ask("commit_changes", commit_id=head, limit=50, page_token=page.body["next_page_token"])
    assert len(more.body["changes"]) == 4
    assert ask("graph_diff", **{"from": "HEAD~1", "to": "main"}).text.count("\n+") == 6


def test_exploring(ask: Ask) -> None:
    sample = ask("type_sample", type="Person", limit=2)
    assert (sample.body["entity_count"], len(sample.body["entities"])) == (3, 2)
    assert "about" not in sample.body["entities"][0]
    assert "2 of 3" in sample.text
    assert ask("type_sample", type="Knows").body["entities"][0]["from"] == "Ada"
    by_words = ask("graph_find", text="bread engines", how="words").body["matches"]
    assert {m["id"] for m in by_words} == {"Ada", "Bob"}
    by_meaning = ask("graph_find", text="a ship on the ocean", how="meaning").body["matches"]
    assert by_meaning[0]["id"] == "Cleo"
    assert ask("graph_find", text="London").body["matches"][0]["how"] == "id"
    assert "nothing found" in ask("graph_find", text="zzz", how="words").text
    around = ask("graph_neighbours", type="Person", id="Ada", depth=2).body
    assert [(n["type"], n["id"], n["depth"]) for n in around["nodes"]] == [
        ("Person", "Bob", 1),
        ("City", "London", 1),
        ("Person", "Cleo", 2),
    ]
    assert len(around["edges"]) == 3
    only = ask("graph_neighbours", type="Person", id="Bob", edges=["Knows"], limit=1)
    assert len(only.body["nodes"]) == 1
    assert "There is more" in only.text


def test_stored_queries(ask: Ask) -> None:
    assert ask("friends_of", name="Ada").body["rows"] == [{"friend": "Bob"}]
    task = ask("begin_task", title="Ages").body["branch"]
    grown = ask("birthday", name="Ada", age="37", branch=task, message="a year later")
    assert grown.body["commit"]["message"] == "a year later"
    assert ask("on_branch", branch="text", _branch=task, ids=["1"], day="2020-01-01").body[
        "rows"
    ] == [{"branch": "text"}]


def test_many_stored_queries_are_two_tools(made: Callable[[], str], tmp_path: Path) -> None:
    text = (
        'query q{n}($name: String?) @description("Number {n}.") '
        "{{ match {{ $p: Person }} return {{ $p.name as name }} limit 1 }}\n"
    )
    (tmp_path / "many.gq").write_text("".join(text.format(n=n) for n in range(24)))
    with omnigraph.open(made(), queries=tmp_path) as graph:
        tools = AgentTools(graph)
        names = [tool["name"] for tool in tools.declarations()]
        assert names[-2:] == ["stored_query_list", "stored_query_run"]
        assert "q1" not in names
        assert len(tools.call("stored_query_list", {}).body["queries"]) == 24
        assert len(tools.call("stored_query_list", {"about": "number 2"}).body["queries"]) == 5
        ran = tools.call("stored_query_run", {"name": "q3"})
        assert ran.body["rows"] == [{"name": "Ada"}]
        wrong = tools.call("stored_query_run", {"name": "q3", "params": {"nam": "x"}})
        assert "did you mean 'name'" in wrong.text
        assert "did you mean" in tools.call("stored_query_run", {"name": "q333"}).text
        assert tools.call("q3", {}).is_error


def test_a_task_from_begin_to_merge(ask: Ask, tools: AgentTools) -> None:
    begun = ask("begin_task", title="Öffne  the Café!", idempotency_key="t-1").body
    again = ask("begin_task", title="Öffne  the Café!", idempotency_key="t-1").body
    branch = begun["branch"]
    assert (again["branch"], branch.startswith("task/ffne-the-caf-")) == (branch, True)
    add = "query add($name: String) { insert Person { name: $name } }"
    key = {"idempotency_key": "add-dan", "branch": branch}
    first = ask("graph_mutate", query=add, params={"name": "Dan"}, message="Dan", **key)
    same = ask("graph_mutate", query=add, params={"name": "Dan"}, message="Dan", **key)
    assert same.body["commit"] == first.body["commit"]
    assert "already done" in same.text
    city = '{"type": "City", "data": {"name": "Rome"}}'
    lines = f'{city}\n{{"edge": "LivesIn", "from": "Dan", "to": "Rome"}}'
    assert ask("graph_load", data=lines, dry_run=True, branch=branch).body["commit"] is None
    ask("graph_load", data=lines, branch=branch, idempotency_key="rome")
    assert "Dan" not in ask("graph_query", query=NAMES).text
    assert "+ Person Dan" in ask("graph_diff", branch=branch).text
    summed = ask("finish_task", branch=branch)
    assert [c["operation"] for c in summed.body["commits"]] == ["load", "mutate"]
    assert summed.body["preview"]["conflict_count"] == 0
    assert summed.body["merge"] is None
    assert "merge=true" in summed.text
    done = ask("finish_task", branch=branch, merge=True, delete_branch=True, message="Dan moves")
    assert done.body["merge"]["outcome"] == "fast_forward"
    assert branch not in ask("branch_list").body["branches"]
    assert "Dan" in ask("graph_query", query=NAMES).text
    undo = 'delete Person where name = "Dan"  delete City where name = "Rome"'
    ask("graph_mutate", query=undo)


def test_conflicts_say_how_to_decide(ask: Ask, tools: AgentTools) -> None:
    branches = [ask("begin_task", title=f"age {n}").body["branch"] for n in (1, 2)]
    for age, branch in zip((50, 60), branches, strict=True):
        ask("birthday", name="Bob", age=age, branch=branch)
    base = ask("branch_create", name="target").body["name"]
    ask("branch_merge", source=branches[0], target=base)
    summed = tools.call("finish_task", {"branch": branches[1], "target": base, "merge": True})
    assert summed.body["merge"] is None
    assert "decide the conflicts" in summed.text
    stopped = tools.call("branch_merge", {"source": branches[1], "target": base})
    assert (stopped.is_error, stopped.body["status"]) == (True, 409)
    assert "Person Bob age: was 20, target has 50, source has 60" in stopped.text
    assert any("strategy" in line for line in stopped.body["next"])
    take = [{"type_name": "Person", "entity_id": "Bob", "property": "age", "take": "theirs"}]
    merged = ask("branch_merge", source=branches[1], target=base, resolutions=take)
    assert merged.body["outcome"] == "merged"
    assert ask("graph_query", query='match { $p: Person { name: "Bob" } } return { $p.age as age }',
               branch=base).body["rows"] == [{"age": 60}]  # fmt: skip
    ask("branch_delete", name=base)


WRONG: list[tuple[str, Any, str]] = [
    ("graph_query", {}, "needs 'query'"),
    ("graph_query", {"query": None}, "which is null"),
    ("graph_query", {"query": 5}, "5 is not a string"),
    ("graph_query", {"query": NAMES, "params": "x"}, "not an object"),
    ("graph_query", {"query": NAMES, "max_rows": 0}, "between 1 and 1000"),
    ("graph_query", {"query": NAMES, "max_rows": True}, "not an integer"),
    ("graph_query", {"query": NAMES, "brnch": "x"}, "did you mean 'branch'"),
    ("graph_query", {"query": "match {"}, "best-practices"),
    ("graph_query", {"query": "match { $p: Persn } return { $p }"}, "did you mean 'Person'"),
    ("graph_query", {"query": 'insert Person { name: "x" }'}, "call graph_mutate"),
    ("graph_query", {"query": "people.gq"}, "<query>"),
    ("graph_query", {"query": NAMES, "branch": "nope"}, "branch_list"),
    ("graph_query", {"query": NAMES, "snapshot": "v9"}, "v9"),
    ("graph_query", {"query": NAMES, "params": {"a": 1}}, "unknown parameter"),
    ("graph_mutate", {"query": NAMES}, "call graph_query"),
    ("graph_mutate", {"query": 'insert Person { name: "x", age: 200 }'}, "outside 0..150"),
    ("graph_mutate", {"query": 'insert Knows { from: "Ada", to: "Nobody" }'}, "Nobody"),
    (
        "graph_mutate",
        {"query": 'insert Person { name: "x" }', "if_graph_commit": "01J00000000000000000000000"},
        "newest state",
    ),
    ("graph_mutate", {"query": 'insert Person { name: "x" }', "idempotency_key": "a b"}, "ASCII"),
    ("graph_mutate", {"query": 'insert Person { name: "x" }', "idempotency_key": ""}, "ASCII"),
    ("graph_load", {"data": "not json"}, "JSON"),
    ("graph_load", {"data": '{"type": "Nope", "data": {}}'}, "Nope"),
    ("graph_load", {"data": "", "mode": "mirror"}, "none of merge, append"),
    ("graph_load", {"data": '{"type": "Person", "data": {"name": 5}}'}, "name"),
    ("branch_create", {"name": "a b"}, "a b"),
    ("branch_create", {"name": "x", "from": "nope"}, "nope"),
    ("branch_create", {"name": "main"}, "main"),
    ("branch_delete", {"name": "nope"}, "nope"),
    ("branch_delete", {"name": "main"}, "main"),
    ("branch_merge", {"source": "nope"}, "nope"),
    ("branch_merge", {"source": "main", "strategy": "mine"}, "none of fail, ours, theirs"),
    ("branch_merge", {"source": "main", "resolutions": "/etc/passwd"}, "not a list"),
    ("branch_merge", {"source": "main", "resolutions": ["x"]}, "item 0"),
    ("merge_preview", {"source": "main", "target": "nope"}, "nope"),
    ("schema_get", {"type": "Persn"}, "did you mean 'Person'"),
    ("type_sample", {"type": "Nope"}, "schema_get"),
    ("graph_find", {"text": "  "}, "empty"),
    ("graph_find", {"text": "x", "types": ["Knows"]}, "edge type"),
    ("graph_neighbours", {"type": "Person", "id": "Nobody"}, "graph_find"),
    ("graph_neighbours", {"type": "Person", "id": "Ada", "edges": ["City"]}, "node type"),
    ("graph_neighbours", {"type": "Knows", "id": "x"}, "edge type"),
    ("graph_diff", {"from": "main"}, "both"),
    ("commit_get", {"commit_id": "zzz"}, "zzz"),
    ("commit_changes", {"commit_id": "HEAD", "page_token": "junk"}, "cursor"),
    ("begin_task", {}, "title"),
    ("begin_task", {"title": "x", "from": "nope"}, "nope"),
    ("finish_task", {"branch": "nope"}, "nope"),
    ("friends_of", {}, "needs 'name'"),
    ("friends_of", {"name": 5}, "String"),
    ("friends_of", {"name": "Ada", "nam": 1}, "did you mean 'name'"),
    ("birthday", {"name": "Ada", "age": "old"}, "I64"),
    ("birthday", {"name": "Ada", "age": 500}, "outside 0..150"),
    ("friend_of", {"name": "Ada"}, "did you mean 'friends_of'"),
    ("secret", {}, "there is no tool 'secret'"),
    ("", {}, "no tool"),
    ("graph_query", [1], "JSON object"),
]


@pytest.mark.parametrize(("name", "arguments", "told"), WRONG)
def test_a_wrong_call_says_what_to_do(
    tools: AgentTools, name: str, arguments: Any, told: str
) -> None:
    answer = tools.call(name, arguments)
    assert answer.is_error
    assert told in answer.text
    assert answer.body["status"] in (400, 404, 409, 412)
    json.dumps(answer.body)


def test_wrong_calls_changed_nothing(made: Callable[[], str], queries: Path) -> None:
    with omnigraph.open(made(), queries=queries) as graph:
        before = [branch.to_dict() for branch in graph.branches.list()]
        tools = AgentTools(graph)
        for name, arguments, _ in WRONG:
            tools.call(name, arguments)
        assert [branch.to_dict() for branch in graph.branches.list()] == before
        assert graph.verify().ok


def test_large_answers_are_cut_and_say_so(made: Callable[[], str]) -> None:
    with omnigraph.open(made()) as graph:
        rows = [
            {"type": "Person", "data": {"name": f"p{n:04}", "bio": "x" * 400}} for n in range(900)
        ]
        graph.load(rows, message="many")
        tools = AgentTools(graph)
        everyone = "match { $p: Person } return { $p.name as name, $p.bio as bio } order { name }"
        few = tools.call("graph_query", {"query": everyone})
        assert (few.body["row_count"], len(few.body["rows"])) == (903, 50)
        assert few.body["truncated"]["shown"] == 50
        assert "offset 50" in few.text
        many = tools.call("graph_query", {"query": everyone, "max_rows": 1000})
        assert 50 < len(many.body["rows"]) < 903
        for answer in (few, many):
            assert size(answer) < MOST_BYTES + 4096
            assert len(answer.text) < MOST_TEXT + 1024
        head = graph.commits.list()[0].graph_commit_id
        page = tools.call("commit_changes", {"commit_id": head, "limit": 1000})
        assert size(page) < MOST_BYTES + 4096
        assert "smaller limit" in page.text
        next_rows = everyone.replace("order { name }", "order { name } limit 50 offset 50")
        assert tools.call("graph_query", {"query": next_rows}).body["rows"][0]["name"] == "p0047"


def test_the_default_branch_of_a_session(made: Callable[[], str]) -> None:
    with omnigraph.open(made()) as graph:
        graph.branches.create("desk")
        tools = AgentTools(graph, default_branch="desk")
        assert not tools.call("graph_mutate", {"query": 'insert City { name: "Oslo" }'}).is_error
        assert graph.read("City", "desk").num_rows == 2
        assert graph.read("City").num_rows == 1
        seen = tools.call("graph_query", {"query": "match { $c: City } return { $c.name }"})
        assert seen.body["row_count"] == 2


def test_a_graph_for_reading_has_no_tools_that_write(made: Callable[[], str]) -> None:
    with omnigraph.open(made(), read_only=True) as graph:
        tools = AgentTools(graph)
        assert all(tool["annotations"]["readOnlyHint"] for tool in tools.declarations())
        assert "no tool 'graph_mutate'" in tools.call("graph_mutate", {"query": "x"}).text


def test_a_failure_of_the_program_tells_nothing(
    made: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with omnigraph.open(made()) as graph:
        monkeypatch.setattr(type(graph), "query", lambda *_, **__: 1 / 0)
        answer = AgentTools(graph).call("graph_query", {"query": NAMES})
    assert (answer.is_error, answer.body["status"]) == (True, 500)
    assert "division" not in answer.text


def test_resources(tools: AgentTools) -> None:
    uris = [resource["uri"] for resource in tools.resources()]
    assert uris[:3] == ["omnigraph://schema", "omnigraph://branches", "omnigraph://graphs"]
    assert {f"omnigraph://best-practices/{name}" for name in BEST_PRACTICES} <= set(uris)
    texts = {uri: tools.read(uri)[1] for uri in uris}
    assert "node Person" in texts["omnigraph://schema"]
    assert "main" in json.loads(texts["omnigraph://branches"])["branches"]
    with pytest.raises(omnigraph.NotFound, match="did you mean 'omnigraph://schema'"):
        tools.read("omnigraph://schemas")


def test_queries_of_the_guides_compile() -> None:
    catalog = catalog_from_text(
        "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person"
    )
    texts = [guide(name).split("```")[1::2] for name in BEST_PRACTICES]
    compiled = [compile_all(text, catalog) for part in texts for text in part]
    assert sum(len(found) for found in compiled) == 3
