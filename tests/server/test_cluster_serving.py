"""A server of a cluster: the boot matrix, quarantine that heals, and revisions that follow."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.cluster.lock import ClusterLock
from omnigraph.cluster.resources import digest_of, sha256, with_graph_digests
from omnigraph.cluster.root import ClusterIntent, open_root
from omnigraph.cluster.serving import read_revision
from omnigraph.errors import ClusterRefused, InvalidArgument, PolicyDenied
from omnigraph.server.boot import build_state, open_graphs
from omnigraph.server.configuration import ServerSettings
from omnigraph.server.routes.server_wide import look_after_graphs, reload_state
from omnigraph.server.state import ServerState
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph_testing.cluster_kit import BY_NAME, PEOPLE, POLICY, apply, declare, write
from omnigraph_testing.fakes import FakeClock
from omnigraph_testing.http_server import ProcessServer, ThreadServer, client_of, wait_until

TOKENS = json.dumps({"ada": "t-ada", "eve": "t-eve", "grace": "t-grace"})
SERVER_POLICY = (
    "version: 1\ngroups: {operators: [grace]}\nrules:\n"
    "  - id: run-it\n    allow: {actors: {group: operators}, actions: [graph_list, admin]}\n"
)
DEVS = POLICY.replace("[read]", "[read, invoke_query]")
PROVIDER = "providers: {embedding: {p: {kind: openai, api_key: '${EMBEDDING_KEY}'}}}"
PEOPLE_GRAPH = "  people: {schema: people.pg, queries: people.gq, embedding_provider: p}"
POLICIES = (
    "policies:\n  devs: {file: devs.yaml, applies_to: [people, docs]}\n"
    "  server: {file: server.yaml, applies_to: [cluster]}"
)
KEY = {"EMBEDDING_KEY": "k"}
ASKED = {"query": "match { $p: Person } return { count($p) as n }"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "config"
    write(
        folder,
        people_pg=PEOPLE,
        people_gq=BY_NAME,
        docs_pg=PEOPLE,
        devs_yaml=DEVS,
        server_yaml=SERVER_POLICY,
    )
    declare(folder, PROVIDER, f"graphs:\n{PEOPLE_GRAPH}\n  docs: {{schema: docs.pg}}", POLICIES)
    assert apply(folder).body["converged"]
    return folder


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_KEY", "k")


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "config"))


def state_of(folder: Path, environment: dict[str, str] | None = None, **more: Any) -> ServerState:
    settings = ServerSettings(cluster=str(folder), **more)
    given = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": TOKENS, **(environment or KEY)}
    return build_state({}, settings, given)


def edit(folder: Path, change: Callable[[dict[str, Any]], None], *, fit: bool = True) -> None:
    """Change the ledger by hand; with `fit` the digests of the graphs are made to fit."""
    root = open_root(str(folder))
    file = folder / "__cluster" / "state.json"
    body = json.loads(file.read_text())
    change(body["applied_revision"]["resources"])
    file.write_text(json.dumps(body))
    if fit:
        ledger = root.read_ledger().ledger
        ledger.resources = with_graph_digests(ledger.resources)
        file.write_bytes(ledger.to_bytes())


def payload(folder: Path, part: str) -> Path:
    return next((folder / "__cluster" / "resources" / part).rglob("*.*"))


def intent(folder: Path, text: str) -> None:
    place = folder / "__cluster" / "recoveries"
    place.mkdir(exist_ok=True)
    (place / "x.json").write_text(text)


def profile(value: dict[str, str] | None) -> Callable[[dict[str, Any]], None]:
    def change(resources: dict[str, Any]) -> None:
        entry = resources["provider.embedding.p"]
        entry["embedding_profile"] = value
        entry.pop("embedding_profile") if value is None else None

    return change


def double_rule(folder: Path) -> None:
    write(folder, more_yaml=POLICY.replace("devs-read", "other"))
    text = POLICIES + "\n  more: {file: more.yaml, applies_to: [people]}"
    declare(folder, PROVIDER, f"graphs:\n{PEOPLE_GRAPH}\n  docs: {{schema: docs.pg}}", text)
    assert apply(folder).body["converged"]


REFUSALS: dict[str, Callable[[Path], object]] = {
    "cluster_state_missing": lambda f: (f / "__cluster" / "state.json").unlink(),
    "invalid_state_json": lambda f: (f / "__cluster" / "state.json").write_text("{"),
    "unsupported_state_version": lambda f: (f / "__cluster" / "state.json").write_text(
        '{"version": 2}'
    ),
    "cluster_empty": lambda f: edit(f, lambda r: r.clear()),
    "catalog_payload_missing": lambda f: payload(f, "query").unlink(),
    "catalog_payload_digest_mismatch": lambda f: payload(f, "policy").write_text("version: 1\n"),
    "policy_bindings_missing": lambda f: edit(f, lambda r: r["policy.devs"].pop("applies_to")),
    "embedding_provider_profile_missing": lambda f: edit(f, profile(None)),
    "embedding_provider_profile_digest_mismatch": lambda f: edit(f, profile({"kind": "mock"})),
    "embedding_provider_missing": lambda f: edit(f, lambda r: r.pop("provider.embedding.p")),
    "external_blob_policy_digest_mismatch": lambda f: edit(
        f, lambda r: r["schema.people"].update(digest="0"), fit=False
    ),
    "cluster_recovery_unattributed": lambda f: intent(f, '{"schema_version": 1}'),
    "invalid_recovery_sidecar": lambda f: intent(f, "{"),
    "unsupported_recovery_sidecar_version": lambda f: intent(f, '{"schema_version": 2}'),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_what_is_wrong_with_the_cluster_refuses_the_start(folder: Path, code: str) -> None:
    REFUSALS[code](folder)
    with pytest.raises(ClusterRefused) as caught:
        state_of(folder)
    assert caught.value.reason == code


def test_a_ledger_out_of_reach_refuses_the_start(folder: Path) -> None:
    (folder / "__cluster" / "state.json").unlink()
    (folder / "__cluster" / "state.json").mkdir()
    with pytest.raises(ClusterRefused) as caught:
        state_of(folder)
    assert caught.value.reason == "state_read_error"


def test_an_invalid_bundle_in_the_catalog_refuses_the_start(folder: Path) -> None:
    root = open_root(str(folder))
    bad = b"version: 1\nrule: []\n"
    root.put_payload("policy.server", bad)
    edit(folder, lambda r: r["policy.server"].update(digest=sha256(bad)))
    with pytest.raises(ClusterRefused) as caught:
        state_of(folder)
    assert caught.value.reason == "policy_invalid"


def break_query(folder: Path) -> None:
    """The graph moves on, and a stored query of the applied revision no longer compiles."""
    from omnigraph.cluster.declarations import GraphDeclaration
    from omnigraph.cluster.graph_work import change_schema
    from omnigraph.settings.models import Settings
    from omnigraph.syntax.source_text import SourceText

    change_schema(
        str(folder / "graphs" / "people.omni"),
        SourceText("node Human {\n  name: String @key\n}\n", "x.pg"),
        GraphDeclaration("people", "x.pg"),
        Settings(),
        actor=None,
        lossy=True,
    )


def pending(folder: Path) -> None:
    made = ClusterIntent("op", "now", "schema_apply", "people", "uri", "digest")
    open_root(str(folder)).write_intent(made)


def unparsable_query(folder: Path) -> None:
    """A text that another program wrote into the catalog; its digest is right."""
    text = b"query by_name("
    open_root(str(folder)).put_payload("query.people.by_name", text)
    edit(folder, lambda r: r["query.people.by_name"].update(digest=sha256(text)))


QUARANTINES: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "cluster_recovery_pending": (pending, KEY),
    "not_found": (lambda f: shutil.rmtree(f / "graphs" / "people.omni"), KEY),
    "query_typecheck_error": (break_query, KEY),
    "embedding_secret_missing": (lambda f: None, {"EMBEDDING_KEY": ""}),
    "query_typecheck_error of a text": (unparsable_query, KEY),
}


@pytest.mark.parametrize("code", QUARANTINES)
def test_what_is_wrong_with_a_graph_sets_it_aside(folder: Path, code: str) -> None:
    harm, environment = QUARANTINES[code]
    harm(folder)
    state = state_of(folder, environment)
    open_graphs(state)
    found = {name: each.code for name, each in state.graphs.quarantined.items()}
    assert found == {"people": code.partition(" ")[0]}
    assert [served.graph_id for served in state.graphs] == ["docs"]
    state.graphs.close()
    strict = state_of(folder, environment, require_all_graphs=True)
    with pytest.raises(InvalidArgument, match="people"):
        open_graphs(strict)
    strict.graphs.close()


def test_an_id_that_no_route_can_have_is_set_aside(folder: Path) -> None:
    """As a ledger of another program may hold it."""

    def rename(resources: dict[str, Any]) -> None:
        for kind in ("graph", "schema"):
            resources[f"{kind}.my_docs"] = resources.pop(f"{kind}.docs")
        resources["policy.devs"]["applies_to"] = ["graph.people", "graph.my_docs"]

    edit(folder, rename)
    state = state_of(folder)
    open_graphs(state)
    assert [(name, each.code) for name, each in state.graphs.quarantined.items()] == [
        ("my_docs", "invalid_graph_id")
    ]
    state.graphs.close()


def test_no_healthy_graph_refuses_the_start(folder: Path) -> None:
    shutil.rmtree(folder / "graphs")
    with pytest.raises(ClusterRefused) as caught:
        open_graphs(state_of(folder))
    assert caught.value.reason == "cluster_no_healthy_graphs"


def test_a_held_lock_and_several_bundles_are_no_errors(folder: Path) -> None:
    double_rule(folder)
    with ClusterLock(open_root(str(folder)).files, "apply", SYSTEM_CLOCK):
        revision = read_revision(open_root(str(folder)), KEY)
    assert len(revision.graph_bundles["people"]) == 2
    assert revision.graphs["people"].profile == {"kind": "openai", "api_key": "${EMBEDDING_KEY}"}
    entries = open_root(str(folder)).read_ledger().ledger.resources
    assert revision.digest == digest_of({k: v.to_dict() for k, v in sorted(entries.items())})


def test_a_quarantined_graph_heals_with_growing_pauses(folder: Path) -> None:
    pending(folder)
    state = state_of(folder)
    clock = FakeClock()
    state.graphs._clock = clock
    open_graphs(state)
    for pause in (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0):
        clock.seconds += pause - 0.5
        look_after_graphs(state)
        attempts = state.graphs.quarantined["people"].attempts
        clock.seconds += 0.5
        look_after_graphs(state)
        assert state.graphs.quarantined["people"].attempts == attempts + 1, pause
    open_root(str(folder)).retire_intent("op")
    clock.seconds += 299
    look_after_graphs(state)
    assert "people" in state.graphs.quarantined
    clock.seconds += 1
    look_after_graphs(state)
    assert not state.graphs.quarantined
    assert state.graphs.find("people").graph_id == "people"
    state.graphs.close()


def test_a_server_follows_the_applied_revision(folder: Path) -> None:
    """Tokens, policies, stored queries, new and removed graphs, while requests run."""
    declare(folder, "graphs:\n  people: {schema: people.pg, queries: people.gq}", POLICIES.replace(
        "[people, docs]", "[people]"
    ))  # fmt: skip
    from omnigraph.cluster import commands
    from omnigraph_testing.cluster_kit import call

    assert commands.approve(call(folder, "bob"), "graph.docs").ok
    assert apply(folder).body["converged"]
    asked = {"query": "match { $p: Person } return { count($p) as n }"}
    with (
        ThreadServer({}, tokens=TOKENS, cluster=str(folder)) as server,
        server.graph_client("people", "t-ada") as ada,
        server.graph_client("people", "t-eve") as eve,
        server.client("t-grace") as grace,
    ):
        ready = grace.get("/readyz").json()
        assert ready["state_revision"] == 2
        assert ready["state_cas"].startswith("sha256:")
        assert len(ready["booted_serving_digest"]) == 64
        assert ada.post("/query", json=asked).status_code == 200
        assert eve.post("/query", json=asked).status_code == 403
        assert [each["name"] for each in ada.get("/queries").json()["queries"]] == ["by_name"]
        # The config directory does not count before an apply.
        write(folder, people_gq=BY_NAME.replace("by_name", "named"), devs_yaml=DEVS.replace(
            "[ada]", "[ada, eve]"
        ))  # fmt: skip
        declare(
            folder,
            "graphs:\n  people: {schema: people.pg, queries: people.gq}\n  docs: {schema: docs.pg}",
            POLICIES,
        )
        look_after_graphs(server.state)
        assert eve.post("/query", json=asked).status_code == 403
        assert apply(folder).body["converged"]
        stop, statuses = threading.Event(), []

        def ask() -> None:
            with server.graph_client("people", "t-ada") as http:
                while not stop.is_set():
                    statuses.append(http.post("/query", json=asked).status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: len(statuses) > 2)
        told = grace.post("/admin/reload").json()
        again = reload_state(server.state)
        seen = len(statuses)
        wait_until(lambda: len(statuses) > seen + 2)
        stop.set()
        thread.join()
        assert set(statuses) == {200}, "no request is dropped"
        assert told["state_revision"] == 3
        assert told["graphs"]["added"] == ["docs"]
        assert told["graphs"]["changed"] == ["people"]
        assert again["graphs"]["changed"] == []
        assert eve.post("/query", json=asked).status_code == 200
        assert [each["name"] for each in ada.get("/queries").json()["queries"]] == ["named"]
        listed = grace.get("/graphs").json()
        assert [each["graph_id"] for each in listed["graphs"]] == ["docs", "people"]
        assert grace.get("/readyz").json()["state_revision"] == 3
        # A graph that is being changed is set aside, with the reason, and comes back.
        pending(folder)
        reload_state(server.state)
        refused = ada.post("/query", json=asked)
        assert refused.status_code == 503
        assert refused.json()["unavailable"]["reason"] == "quarantined"
        assert "retry-after" in refused.headers
        aside = grace.get("/graphs").json()["quarantined"]
        assert [(each["graph_id"], each["code"]) for each in aside] == [
            ("people", "cluster_recovery_pending")
        ]
        open_root(str(folder)).retire_intent("op")
        assert reload_state(server.state)["graphs"]["added"] == []
        assert ada.post("/query", json=asked).status_code == 200
        # A revision that cannot be served leaves the old one in force.
        payload(folder, "policy").write_text("other")
        assert not reload_state(server.state)["reloaded"]
        assert ada.post("/query", json=asked).status_code == 200


def test_a_process_follows_at_sighup(folder: Path, tmp_path: Path) -> None:
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": TOKENS, **KEY}
    arguments = ("--cluster", str(folder), "--require-all-graphs")
    log = tmp_path / "log"
    with (
        ProcessServer(*arguments, environment=environment, log=log) as server,
        server.client("t-grace") as grace,
    ):
        assert grace.get("/readyz").json()["state_revision"] == 1
        write(folder, people_gq=BY_NAME.replace("by_name", "named"))
        assert apply(folder).body["converged"]
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: grace.get("/readyz").json()["state_revision"] == 2)
    (folder / "__cluster" / "state.json").unlink()
    # A process, because the log of a server stays configured in the process that began it.
    command = [sys.executable, "-m", "omnigraph.cli", "serve", *arguments]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "no ledger" in refused.stderr
    mixed = CliRunner().invoke(app, ["serve", "people.omni", *arguments])
    assert mixed.exit_code == 2


class Load:
    """Requests without a pause, over several connections, because each stays with one worker."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.statuses: list[int] = []
        self.failures: list[httpx.HTTPError] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(6)]

    def _ask(self) -> None:
        try:
            with client_of(f"{self.url}/graphs/people", "t-ada") as http:
                while not self._stop.is_set():
                    self.statuses.append(http.post("/query", json=ASKED).status_code)
                    self.statuses.append(http.get("/queries").status_code)
        except httpx.HTTPError as error:
            self.failures.append(error)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self) -> None:
        seen = len(self.statuses)
        wait_until(lambda: len(self.statuses) > seen + 12 or self.failures, 60)


def revisions(url: str) -> set[int]:
    """Of all workers: every connection is a new one, and each worker takes some."""
    found = set()
    for _ in range(12):
        with client_of(url, "t-grace") as http:
            found.add(http.get("/readyz").json()["state_revision"])
    return found


@pytest.mark.slow
def test_two_workers_change_the_revision_under_load(folder: Path, tmp_path: Path) -> None:
    """By SIGHUP, by `POST /admin/reload` and by the watch; no request fails or is cut off."""
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": TOKENS, **KEY}
    arguments = ("--cluster", str(folder), "--workers", "2")
    with (
        ProcessServer(*arguments, environment=environment, log=tmp_path / "log") as server,
        Load(server.url) as load,
        server.client("t-grace") as grace,
    ):
        for number, way in enumerate(("signal", "route", "watch"), 2):
            write(folder, people_gq=BY_NAME.replace("by_name", f"named_{way}"))
            assert apply(folder).body["converged"]
            if way == "signal":
                assert server.process is not None
                server.process.send_signal(signal.SIGHUP)
            elif way == "route":
                assert grace.post("/admin/reload").json()["state_revision"] == number
            wait_until(lambda wanted=number: revisions(server.url) == {wanted}, 60)
            load.goes_on()
        with client_of(f"{server.url}/graphs/people", "t-ada") as http:
            assert [each["name"] for each in http.get("/queries").json()["queries"]] == [
                "named_watch"
            ]
    assert not load.failures
    assert set(load.statuses) == {200}


def test_open_graphs_get_and_lose_policies(folder: Path) -> None:
    """The graph stays open, and its handles ask the rules of the newest revision."""
    graphs = f"graphs:\n{PEOPLE_GRAPH}\n  docs: {{schema: docs.pg}}"
    declare(folder, PROVIDER, graphs, POLICIES.replace("[people, docs]", "[people]"))
    assert apply(folder).body["converged"]
    state = state_of(folder)
    open_graphs(state)

    def may(actor: str, action: str) -> bool:
        try:
            state.graphs.find("docs").as_actor(actor).require(action, "main")
        except PolicyDenied:
            return False
        return True

    assert (may("eve", "read"), may("eve", "change")) == (True, False), "without rules: reads only"
    declare(folder, PROVIDER, graphs, POLICIES)
    assert apply(folder).body["converged"]
    look_after_graphs(state)
    assert (may("eve", "read"), may("ada", "read")) == (False, True)
    declare(folder, PROVIDER, graphs, POLICIES.replace("[people, docs]", "[people]"))
    assert apply(folder).body["converged"]
    look_after_graphs(state)
    assert (may("eve", "read"), may("eve", "change")) == (True, False)
    state.graphs.close()


SAFE, OURS = "https://pictures.example.com/a", "s3://inner/pictures"


def test_a_cluster_says_which_external_blobs_its_graphs_allow(tmp_path: Path) -> None:
    """A server allows what is server-safe, seed data may name all, and other graphs nothing."""
    folder = tmp_path / "config"
    schema = "node Person { name: String @key  photo: Blob? }"
    seed = json.dumps({"type": "Person", "data": {"name": "seed", "photo": f"{OURS}/x"}})
    write(folder, people_pg=schema, docs_pg=schema)
    (folder / "seed.ndjson").write_text(seed)
    allow = f"[{{base: '{SAFE}', scope: server_safe}}, {{base: '{OURS}', scope: embedded_only}}]"
    declare(
        folder,
        "graphs:",
        f"  people: {{schema: people.pg, external_blobs: {{allow: {allow}}}, "
        "data: {seed: [seed.ndjson]}}",
        "  docs: {schema: docs.pg}",
    )
    assert apply(folder).body["converged"]
    put = "query put($p: Blob) { insert Person { name: 'new', photo: $p } }".replace("'", '"')
    place = {"entity": "node", "type": "Person", "property": "photo"}
    with ThreadServer({}, cluster=str(folder)) as server:
        with server.graph_client("people") as http:
            for uri, status in ((f"{SAFE}/1", 200), (f"{OURS}/1", 400), (f"{SAFE}x/1", 400)):
                found = http.post("/mutate", json={"query": put, "params": {"p": uri}})
                assert found.status_code == status, found.text
            sent = http.get("/blob", params={**place, "id": "new"})
            assert (sent.status_code, sent.headers["location"]) == (302, f"{SAFE}/1")
            assert http.get("/blob", params={**place, "id": "seed"}).status_code == 424
        with server.graph_client("docs") as http:
            found = http.post("/mutate", json={"query": put, "params": {"p": f"{SAFE}/1"}})
            assert found.status_code == 400
