"""A server with tokens and policies: boot, denials, masked answers, reload, no way round."""

from __future__ import annotations

import io
import json
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph.errors import (
    InvalidArgument,
    NotFound,
    OmnigraphError,
    PolicyDenied,
    PolicyInvalid,
)
from omnigraph.graph.handle import Graph
from omnigraph.policy.bundle import read_bundle
from omnigraph.server.boot import build_state
from omnigraph.server.configuration import ServerSettings
from omnigraph.server.routes.server_wide import reload_state
from omnigraph.server.tokens import FILE, INLINE
from omnigraph_testing.http_server import ThreadServer, wait_until
from omnigraph_testing.policy_reference import (
    ACTIONS,
    ACTORS,
    BRANCHES,
    Asked,
    expected,
    random_policy,
    random_request,
)
from omnigraph_testing.workloads import create_small_graph

TOKENS = json.dumps({name: f"token-{name}" for name in ACTORS})
ID = {"X-Request-Id": "same"}
CHANGES_NOTHING = 'delete Note where text = "none"'
STORED = f"""
query people() {{ match {{ $n: Note }} return {{ count($n) as n }} }}
query friends() {{ {CHANGES_NOTHING} }}
"""
ENDS = ("allowed", "denied")
GRAPH_RULES = """
version: 1
groups: {devs: [ada], ops: [cleo]}
protected_branches: [main]
rules:
  - id: dev-read
    allow: {actors: {group: devs}, actions: [read, change, export], branches: [main, open]}
  - id: dev-merge
    allow: {actors: {group: devs}, actions: [branch_merge]}
  - id: ops
    allow: {actors: {group: ops}, actions: [read, change, branch_delete, schema_apply, admin]}
"""
SERVER_RULES = """
version: 1
groups: {ops: [cleo], all: [ada, cleo]}
rules:
  - id: list
    allow: {actors: {group: all}, actions: [graph_list]}
  - id: run
    allow: {actors: {group: ops}, actions: [admin]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    graph = create_small_graph(folder / "graph.omni")
    for name in ("open", "secret", "release/1", "review/x"):
        graph.branches.create(name)
    graph.apply({"Note": {"insert": [{"id": "s", "text": "s"}]}}, branch="secret")
    graph.close()
    (folder / "graph.yaml").write_text(GRAPH_RULES)
    (folder / "server.yaml").write_text(SERVER_RULES)
    (folder / "queries").mkdir()
    (folder / "queries" / "stored.gq").write_text(STORED)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ThreadServer]:
    with ThreadServer(
        str(folder / "graph.omni"),
        tokens=TOKENS,
        policies=(("default", str(folder / "graph.yaml")),),
        server_policies=(str(folder / "server.yaml"),),
        queries=(("default", str(folder / "queries")),),
        metrics_auth=True,
    ) as running:
        yield running


def as_actor(server: ThreadServer, name: str) -> httpx.Client:
    return server.graph_client(token=f"token-{name}")


MATRIX = [
    # tokens, policy, unauthenticated, state
    (False, False, False, None),
    (False, False, True, "open"),
    (True, False, False, "default-deny"),
    (True, False, True, "default-deny"),
    (False, True, False, None),
    (False, True, True, None),
    (True, True, False, "policy"),
    (True, True, True, "policy"),
]


@pytest.mark.parametrize(("tokens", "policy", "unauthenticated", "state"), MATRIX)
@pytest.mark.parametrize("where", ["graph", "server"])
def test_the_boot_matrix(
    folder: Path, tokens: bool, policy: bool, unauthenticated: bool, state: str | None, where: str
) -> None:
    files: dict[str, Any] = {}
    if policy and where == "graph":
        files["policies"] = (("default", str(folder / "graph.yaml")),)
    if policy and where == "server":
        files["server_policies"] = (str(folder / "server.yaml"),)
    settings = ServerSettings(unauthenticated=unauthenticated, **files)
    environment = {INLINE: TOKENS} if tokens else {}
    addresses = {"default": str(folder / "graph.omni")}
    if state is None:
        with pytest.raises(InvalidArgument, match="bearer tokens"):
            build_state(addresses, settings, environment)
        return
    built = build_state(addresses, settings, environment)
    assert (built.mode, built.needs_token) == (state, tokens)


def test_a_wrong_policy_refuses_the_boot(folder: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(GRAPH_RULES.replace("actions", "action", 1))
    addresses, environment = {"default": str(folder / "graph.omni")}, {INLINE: TOKENS}
    for settings, error in (
        (ServerSettings(policies=(("default", str(wrong)),)), PolicyInvalid),
        (ServerSettings(policies=(("default", str(tmp_path / "none.yaml")),)), PolicyInvalid),
        (ServerSettings(policies=(("other", str(folder / "graph.yaml")),)), InvalidArgument),
        (ServerSettings(server_policies=(str(folder / "graph.yaml"),)), PolicyInvalid),
    ):
        with pytest.raises(error):
            build_state(addresses, settings, environment)


def test_a_denial_says_what_was_asked(server: ThreadServer) -> None:
    with as_actor(server, "ada") as ada, as_actor(server, "zed") as zed:
        body = ada.request("DELETE", "/branches/open").json()
        assert body["code"] == "forbidden"
        assert body["policy_denied"] == {
            "action": "branch_delete",
            "target_branch": "open",
            "actor_id": "ada",
        }
        denied = zed.get("/snapshot")
        assert denied.status_code == 403
        assert "does not know this actor" in denied.json()["error"]
        assert ada.get("/status").status_code == 403
        assert ada.get("/recoveries").status_code == 403
        query = {"query": "match { $n: Note } return { $n.text }"}
        assert ada.post("/query", json=query).status_code == 200
        changed = ada.post("/mutate", json={"query": 'insert Note { text: "new" }'})
        assert (changed.status_code, changed.json()["actor_id"]) == (200, "ada")
    with as_actor(server, "cleo") as cleo:
        assert cleo.get("/status").status_code == 200
        assert cleo.get("/recoveries").status_code == 200


def test_admin_sees_the_work_of_others_without_its_content(server: ThreadServer) -> None:
    later = {"Prefer": "respond-async"}
    bad = '{"type": "Note", "data": {"text": 7}}'
    with as_actor(server, "ada") as ada, as_actor(server, "cleo") as cleo:
        merged = ada.post("/branches/merge", json={"source": "open"}, headers=later)
        assert merged.status_code == 202, merged.text
        name = merged.json()["operation_id"]
        ndjson = later | {"Content-Type": "application/x-ndjson"}
        ada.post("/load/ndjson", content=bad, headers=ndjson)

        def ended() -> bool:
            found = ada.get("/operations").json()["operations"]
            return all(o["status"] in ("succeeded", "failed") for o in found)

        wait_until(ended)
        own = {o["operation_id"]: o for o in ada.get("/operations").json()["operations"]}
        assert "result" in own[name]
        assert [o["status"] for o in own.values() if "error" in o] == ["failed"]
        seen = cleo.get("/operations").json()["operations"]
        assert {o["operation_id"] for o in seen} >= set(own)
        for shown in (*seen, cleo.get(f"/operations/{name}").json()):
            assert "result" not in shown
            assert "error" not in shown


def test_a_merge_stands_without_the_right_to_delete_its_source(server: ThreadServer) -> None:
    with as_actor(server, "ada") as ada:
        asked = {"source": "open", "delete_branch": True}
        merged = ada.post("/branches/merge", json=asked)
        assert merged.status_code == 200, merged.text
        assert merged.json()["branch_deleted"] is False
        assert "branch_delete" in merged.json()["branch_delete_error"]
        assert "open" in ada.get("/branches").json()["branches"]


def test_who_may_not_change_a_schema_learns_nothing_of_branches(server: ThreadServer) -> None:
    """403 comes before what the branches or the text would refuse."""
    with as_actor(server, "ada") as ada:
        for text in ("node Person { name: String @key }", "no schema"):
            denied = ada.post("/schema/apply", json={"schema_source": text})
            assert (denied.status_code, denied.json()["code"]) == (403, "forbidden")
            assert denied.json()["policy_denied"]["action"] == "schema_apply"


def test_explain_names_the_rule_that_a_request_matched(
    server: ThreadServer, caplog: pytest.LogCaptureFixture
) -> None:
    policy = server.state.policies.of_graph("default")
    assert policy is not None
    with as_actor(server, "ada") as ada, caplog.at_level(logging.INFO, "omnigraph.policy"):
        ada.get("/snapshot", params={"branch": "open"})
        ada.post("/mutate", json={"query": 'delete Note where text = "none"', "branch": "open"})
        ada.request("DELETE", "/branches/open")
        logged = [record.fields for record in caplog.records if record.name == "omnigraph.policy"]
    assert [(each["action"], each["matched_rule_id"]) for each in logged] == [
        ("read", "dev-read"),
        ("change", "dev-read"),
        ("branch_delete", None),
    ]
    for each in logged:
        told = policy.explain("ada", each["action"], each["branch"], each["target_branch"])
        assert (told.rule, told.allowed) == (each["matched_rule_id"], each["allowed"])


def test_the_server_has_its_own_rules(server: ThreadServer) -> None:
    with server.client(token="token-ada") as ada, server.client(token="token-cleo") as cleo:
        assert ada.get("/graphs").json()["graphs"] == [{"graph_id": "default"}]
        assert "uri" in cleo.get("/graphs").json()["graphs"][0]
        assert ada.post("/admin/reload").status_code == 403
        assert cleo.post("/admin/reload").json()["reloaded"]
        assert ada.get("/metrics").status_code == 403
        assert cleo.get("/metrics").status_code == 200
        assert ada.get("/healthz").status_code == 200
    with server.client(token="token-ben") as ben:
        assert ben.get("/graphs").status_code == 403
    with server.client() as nobody:
        assert nobody.get("/graphs").status_code == 401


def test_hidden_and_unknown_are_the_same_bytes(server: ThreadServer) -> None:
    with as_actor(server, "cleo") as cleo, as_actor(server, "ada") as ada:
        commit = cleo.get("/commits", params={"branch": "secret"}).json()["commits"][0]
        name = commit["graph_commit_id"]
        unknown = name[:-2] + ("ZZ" if not name.endswith("ZZ") else "YY")
        for path in ("/commits/{}", "/commits/{}/changes"):
            denied = ada.get(path.format(name), headers=ID)
            missing = ada.get(path.format(unknown), headers=ID)
            assert (denied.status_code, missing.status_code) == (404, 404)
            assert denied.content.replace(name.encode(), unknown.encode()) == missing.content
        listed = ada.get("/branches").json()["branches"]
        assert listed == ["main", "open"]
        assert ada.get("/schema").status_code == 200
        diff = ada.get("/diff", params={"from": "main", "to": "secret"})
        assert diff.status_code == 404
        asked = {"query": "match { $n: Note } return { $n.text }", "snapshot": name}
        assert ada.post("/query", json=asked).status_code == 404
        assert ada.post("/export", json={"snapshot": name}).status_code in (400, 404)


def test_no_header_body_or_parameter_changes_the_actor(server: ThreadServer) -> None:
    spoofed = {
        "X-Actor": "cleo",
        "X-Actor-Id": "cleo",
        "X-Forwarded-User": "cleo",
        "Omnigraph-Actor": "cleo",
        "X-Omnigraph-Actor-Id": "cleo",
        "Cookie": "actor=cleo; authorization=Bearer token-cleo",
        "Proxy-Authorization": "Bearer token-cleo",
    }
    with as_actor(server, "ada") as ada:
        for extra in ({}, {"actor": "cleo"}, {"actor_id": "cleo", "as": "cleo"}):
            assert ada.get("/status", params=extra, headers=spoofed).status_code == 403
        for member in ("actor", "actor_id", "as_actor"):
            body = {"query": 'insert Note { text: "y" }', "branch": "secret", member: "cleo"}
            sent = ada.post("/mutate", json=body, headers=spoofed)
            assert sent.status_code in (400, 403)
        twice = [("Authorization", "Bearer token-ada"), ("Authorization", "Bearer token-cleo")]
        both = httpx.get(f"{server.url}/graphs/default/status", headers=twice)
        assert both.status_code in (401, 403)


@pytest.mark.parametrize(
    "spelled", [" main ", "main ", "MAIN", "Main", "main\t", "refs/main", "./main"]
)
def test_other_spellings_of_main_are_not_main(server: ThreadServer, spelled: str) -> None:
    """`ada` may change `main` here; `ben` has no rule, and no spelling gives him one."""
    with as_actor(server, "ben") as ben, as_actor(server, "cleo") as cleo:
        calls = [
            (
                "POST",
                "/mutate",
                {"json": {"query": 'insert Note { text: "z" }', "branch": spelled}},
            ),
            ("GET", "/snapshot", {"params": {"branch": spelled}}),
            ("POST", "/branches/merge", {"json": {"source": "open", "target": spelled}}),
            ("POST", "/load", {"json": {"data": "", "branch": spelled}}),
        ]
        for method, path, more in calls:
            assert ben.request(method, path, **more).status_code in (400, 403), path
            assert cleo.request(method, path, **more).status_code in (400, 403, 404), path


def places(asked: Asked) -> tuple[str, str]:
    """The branch and the target of the request that is sent.

    The schema of main is open to all who read some branch, so another one is asked for.
    """
    branch, target = asked.branch or "main", asked.target or "main"
    return "release/1" if (asked.action, branch) == ("schema_read", "main") else branch, target


def decisions(asked: Asked, rules: dict[str, Any]) -> list[Asked]:
    """What the engine asks the policy about for a request of this kind, in this order."""
    who, (branch, target) = asked.actor, places(asked)
    match asked.action:
        case "branch_delete":
            return [Asked(who, asked.action, None, f"{target}/none")]
        case "schema_apply":
            return [Asked(who, asked.action, None, "main")]
        case "admin":
            return [Asked(who, asked.action)]
        case "branch_create" | "branch_merge":
            return [Asked(who, "read", branch), Asked(who, asked.action, branch, target)]
        case "invoke_query":
            name = asked.query or "people"
            first = Asked(who, asked.action, query=name)
            reads, changes = Asked(who, "read", branch), Asked(who, "change", branch)
            # Without both rights the engine does not look what kind of query it is.
            mutates = name == "friends" and (
                expected(rules, reads)[0] or expected(rules, changes)[0]
            )
            return [first, changes if mutates else reads]
        case _:
            return [Asked(who, asked.action, branch)]


def request_of(asked: Asked) -> tuple[str, str, dict[str, Any]]:
    """A harmless request of this kind: method, path and arguments of the client."""
    branch, target = places(asked)
    on_branch: dict[str, Any] = {"json": {"branch": branch}}
    name = asked.query or "people"
    found: dict[str, tuple[str, str, dict[str, Any]]] = {
        "read": ("GET", "/snapshot", {"params": {"branch": branch}}),
        "schema_read": ("GET", "/schema", {"params": {"branch": branch}}),
        "export": ("POST", "/export", on_branch),
        "change": ("POST", "/mutate", {"json": {"query": CHANGES_NOTHING, "branch": branch}}),
        "branch_create": ("POST", "/branches", {"json": {"name": target, "from": branch}}),
        "branch_delete": ("DELETE", f"/branches/{target}/none", {}),
        "branch_merge": (
            "POST",
            "/branches/merge",
            {"json": {"source": branch, "target": target}},
        ),
        "schema_apply": ("POST", "/schema/apply", {"json": {"schema_source": "node { broken"}}),
        "admin": ("GET", "/recoveries", {}),
        "invoke_query": ("POST", f"/queries/{name}", on_branch),
    }
    return found[asked.action]


def run_over_http(client: httpx.Client, asked: Asked) -> str | None:
    """Send the request; the action that the server denied, if it did."""
    method, path, more = request_of(asked)
    sent = client.request(method, path, headers=ID, **more)
    if sent.status_code == 403:
        denied = sent.json()["policy_denied"]
        assert denied["actor_id"] == asked.actor
        return str(denied["action"])
    if asked.action == "invoke_query" and sent.status_code == 404:
        unknown = client.request(method, "/queries/unknown", headers=ID, **more)
        assert sent.content == unknown.content
        return "invoke_query"
    assert sent.status_code in (200, 400, 404, 409), sent.text
    return None


def run_embedded(graph: Graph, asked: Asked) -> str | None:
    """The same request to a `Graph` of the process; the action that was denied, if one was."""
    branch, target = places(asked)
    name = asked.query or "people"
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: graph.snapshot(branch),
        "schema_read": lambda: graph.schema.show(branch),
        "export": lambda: graph.export(io.BytesIO(), branch=branch),
        "change": lambda: graph.mutate(CHANGES_NOTHING, branch=branch),
        "branch_create": lambda: graph.branches.create(target, branch),
        "branch_delete": lambda: graph.branches.delete(f"{target}/none"),
        "branch_merge": lambda: graph.merge(branch, target),
        "schema_apply": lambda: graph.schema.apply("node { broken"),
        "admin": graph.recoveries,
        "invoke_query": lambda: graph.queries.run(name, branch=branch),
    }
    try:
        calls[asked.action]()
    except PolicyDenied as error:
        return error.action
    except NotFound:
        return "invoke_query" if asked.action == "invoke_query" else None
    except OmnigraphError:
        return None
    return None


def compare_over_http(
    server: ThreadServer, folder: Path, seeds: range, requests: int
) -> Counter[str]:
    """The server, the engine, `explain` and the second evaluator agree."""
    compared: Counter[str] = Counter()
    policy = server.state.policies.of_graph("default")
    assert policy is not None
    before = policy.bundles
    graph = omnigraph.open(folder / "graph.omni", policy=policy, queries=folder / "queries")
    clients = {name: as_actor(server, name) for name in ACTORS}
    embedded = {name: graph.as_actor(name) for name in ACTORS}
    try:
        for seed in seeds:
            rng = random.Random(seed)
            rules = random_policy(rng)
            policy.replace([read_bundle(json.dumps(rules), "random.yaml")])
            for _ in range(requests):
                asked = random_request(rng)
                denied = None
                for each in decisions(asked, rules):
                    allowed, rule = expected(rules, each)
                    told = policy.explain(
                        each.actor, each.action, each.branch, each.target, each.query
                    )
                    assert (told.allowed, told.rule) == (allowed, rule), (each, rules)
                    if not allowed:
                        denied = each.action
                        break
                found = (
                    run_over_http(clients[asked.actor], asked),
                    run_embedded(embedded[asked.actor], asked),
                )
                assert found == (denied, denied), (asked, rules)
                compared[f"{asked.action} {'denied' if denied else 'allowed'}"] += 1
    finally:
        policy.replace(before)
        graph.close()
        for client in clients.values():
            client.close()
    return compared


def test_random_rules_over_http(server: ThreadServer, folder: Path) -> None:
    assert compare_over_http(server, folder, range(30), 8).total() == 240


@pytest.mark.slow
def test_many_random_rules_over_http(server: ThreadServer, folder: Path) -> None:
    compared = compare_over_http(server, folder, range(1000, 2000), 8)
    assert all(compared[f"{action} {end}"] > 20 for action in ACTIONS for end in ENDS), compared


def test_rules_and_tokens_are_read_again(folder: Path, tmp_path: Path) -> None:
    rules, tokens = tmp_path / "rules.yaml", tmp_path / "tokens.json"
    rules.write_text(GRAPH_RULES)
    tokens.write_text(json.dumps({"ada": "one"}))
    settings = ServerSettings(policies=(("default", str(rules)),))
    state = build_state({"default": str(folder / "graph.omni")}, settings, {FILE: str(tokens)})
    policy = state.policies.of_graph("default")
    assert policy is not None
    assert not state.policies.reload_if_changed()
    rules.write_text("version: 1\nrules: [oops")
    assert not state.policies.reload_if_changed()
    assert not reload_state(state)["reloaded"]
    assert policy.decide("ada", "read", "main").allowed
    rules.write_text(GRAPH_RULES.replace("[ada]", "[ben]"))
    assert state.policies.reload_if_changed()
    assert not policy.decide("ada", "read", "main").allowed
    assert policy.decide("ben", "read", "main").allowed


def test_tokens_change_under_load(folder: Path, tmp_path: Path) -> None:
    """Requests with a token that is in both files never fail while the files change."""
    file = tmp_path / "tokens.json"
    contents = [
        json.dumps({"ada": {"tokens": ["keep", "old"]}}),
        json.dumps({"ada": {"tokens": ["keep", "new"]}}),
    ]
    file.write_text(contents[0])
    statuses: list[int] = []
    with ThreadServer(str(folder / "graph.omni"), tokens=TOKENS) as running:
        running.state.tokens._environment = {FILE: str(file)}
        running.state.tokens.reload()
        ended = threading.Event()

        def ask() -> None:
            with running.graph_client(token="keep") as client:
                while not ended.is_set():
                    statuses.append(client.get("/snapshot").status_code)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        number = 0
        while number < 40 or (len(statuses) < 30 and number < 40_000):
            file.write_text(contents[number % 2])
            running.state.tokens.reload()
            number += 1
        file.write_text(contents[1])
        running.state.tokens.reload()
        ended.set()
        for thread in threads:
            thread.join()
        with running.graph_client(token="old") as client:
            assert client.get("/snapshot").status_code == 401
        with running.graph_client(token="new") as client:
            assert client.get("/snapshot").status_code == 200
    assert len(statuses) >= 30
    assert set(statuses) == {200}


def test_branches_of_the_module_exist(server: ThreadServer) -> None:
    """The random requests name branches that exist, so that a 404 is never a denial."""
    (served,) = server.state.graphs
    names = set(served.graph.engine.reader.branch_refs.names())
    assert {branch for branch in BRANCHES if branch} <= names
