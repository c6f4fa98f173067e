"""Plan and apply on a directory: what is created, changed, deleted, refused and left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cluster import commands
from omnigraph.cluster.config_reader import read_config_directory
from omnigraph.cluster.graph_work import change_schema
from omnigraph.cluster.session import ApplyTerms
from omnigraph.errors import InvalidArgument
from omnigraph.settings.models import Settings
from omnigraph.syntax.source_text import SourceText
from omnigraph_testing.cluster_kit import (
    BY_NAME,
    PEOPLE,
    POLICY,
    apply,
    call,
    codes,
    declare,
    dispositions,
    plan,
    write,
)

PEOPLE_GRAPH = "  people: {schema: people.pg, queries: people.gq, data: {seed: [seed.ndjson]}}"
BINDING = "policies:\n  devs: {file: devs.yaml, applies_to: [people]}"
ADA = '{"type": "Person", "data": {"name": "Ada", "age": 36}}\n'


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster of two graphs that was applied once."""
    folder = tmp_path_factory.mktemp("cluster") / "config"
    write(folder, people_pg=PEOPLE, people_gq=BY_NAME, devs_yaml=POLICY, seed_ndjson=ADA)
    declare(folder, f"graphs:\n{PEOPLE_GRAPH}\n  old: {{schema: people.pg}}", BINDING)
    first = plan(folder)
    assert {each[0] for each in dispositions(first).values()} == {"create"}
    assert not (folder / "__cluster").exists(), "a plan writes nothing"
    done = apply(folder)
    assert done.ok
    assert done.body["converged"]
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "config"))


def ledger(folder: Path) -> dict:
    return json.loads((folder / "__cluster" / "state.json").read_text())


def names(folder: Path, graph_id: str = "people") -> list[str]:
    with omnigraph.open(folder / "graphs" / f"{graph_id}.omni", read_only=True) as graph:
        return [
            row["name"] for row in graph.query("match { $p: Person } return { $p.name as name }")
        ]


def schema_of(folder: Path, graph_id: str = "people") -> str:
    with omnigraph.open(folder / "graphs" / f"{graph_id}.omni", read_only=True) as graph:
        return graph.schema.show().source


def change_directly(folder: Path, text: str, graph_id: str = "people") -> None:
    """A schema change past the control plane."""
    declared = read_config_directory(folder, {}).config
    assert declared is not None
    uri = str(folder / "graphs" / f"{graph_id}.omni")
    source = SourceText(text, "direct.pg")
    change_schema(uri, source, declared.graphs[graph_id], Settings(), actor=None, lossy=True)


def test_a_second_apply_writes_nothing(folder: Path) -> None:
    before = (folder / "__cluster" / "state.json").read_bytes()
    again = apply(folder)
    assert again.body["converged"]
    assert not again.body["state_written"]
    assert (folder / "__cluster" / "state.json").read_bytes() == before
    assert plan(folder).changes == []
    assert not list((folder / "__cluster" / "recoveries").iterdir())
    assert not (folder / "__cluster" / "lock.json").exists()


def test_seed_data_is_loaded_once(folder: Path) -> None:
    assert names(folder) == ["Ada"]
    assert names(folder, "old") == []


def test_a_comment_converges(folder: Path) -> None:
    text = f"// a comment\n{PEOPLE}"
    write(folder, people_pg=text)
    assert dispositions(plan(folder))["schema.people"][:2] == ("update", "applied")
    assert apply(folder).body["converged"]
    assert schema_of(folder) == text
    assert commands.refresh(call(folder)).ok
    assert plan(folder).changes == []


def test_a_migration_is_planned_by_the_engine(folder: Path) -> None:
    wider = PEOPLE.replace("age", "email: String?\n  age")
    write(folder, people_pg=wider)
    change = next(each for each in plan(folder).changes if each.resource == "schema.people")
    assert change.migration is not None
    assert change.migration.supported
    assert any("email" in line for line in change.migration.lines)
    assert apply(folder).body["converged"]


def test_data_loss_waits_for_an_approval(folder: Path) -> None:
    write(folder, people_pg="node Person {\n  name: String @key\n}\n")
    report = plan(folder)
    assert dispositions(report)["schema.people"] == ("update", "blocked", "approval_required")
    assert dispositions(report)["schema.old"][1] == "applied", "an empty graph loses nothing"
    half = apply(folder)
    assert half.ok
    assert not half.body["converged"]
    assert "config_digest" not in ledger(folder)["applied_revision"]
    assert names(folder) == ["Ada"]
    assert "age" in schema_of(folder)
    assert commands.approve(call(folder, "bob"), "schema.people").ok
    assert apply(folder).body["converged"]
    assert "age" not in schema_of(folder)
    assert codes(commands.approve(call(folder, "bob"), "schema.people")) == [
        "approval_not_required"
    ]


def test_data_loss_that_is_never_allowed(folder: Path) -> None:
    write(folder, people_pg="node Person {\n  name: String @key\n}\n")
    never = PEOPLE_GRAPH.replace("}}", "}, schema_migration: {allow_data_loss: never}}")
    declare(folder, f"graphs:\n{never}\n  old: {{schema: people.pg}}", BINDING)
    assert not plan(folder).ok
    report = apply(folder)
    assert "schema_apply_failed" in codes(report)
    assert dispositions(report)["schema.people"][2] == "data_loss_forbidden"
    assert codes(commands.approve(call(folder), "schema.people")) == ["approval_not_required"]
    assert not list((folder / "__cluster" / "recoveries").iterdir())


def test_a_change_that_the_engine_refuses_leaves_no_intent(folder: Path) -> None:
    write(folder, people_pg=PEOPLE.replace("age: I64?", "age: I64?\n  must: String"))
    report = apply(folder)
    assert "schema_apply_failed" in codes(report)
    assert dispositions(report)["schema.people"][1] == "blocked"
    assert not list((folder / "__cluster" / "recoveries").iterdir())
    write(folder, people_pg=PEOPLE)
    assert apply(folder).body["converged"]


def test_a_backfill_from_the_config(folder: Path) -> None:
    write(folder, people_pg=PEOPLE.replace("age: I64?", "age: I64?\n  title: String"))
    filled = "schema: people.pg, schema_migration: {backfill: {Person.title: '\"Dr \" + name'}}"
    declare(
        folder,
        f"graphs:\n{PEOPLE_GRAPH.replace('schema: people.pg', filled)}\n  old: {{schema: old.pg}}",
        BINDING,
    )
    write(folder, old_pg=PEOPLE)
    assert apply(folder).body["converged"]


def test_a_graph_is_deleted_only_with_an_approval(folder: Path) -> None:
    declare(folder, f"graphs:\n{PEOPLE_GRAPH}", BINDING)
    assert dispositions(apply(folder))["graph.old"][1:] == ("blocked", "approval_required")
    assert names(folder, "old") == []
    assert commands.approve(call(folder, "bob"), "graph.old").ok
    done = apply(folder)
    assert done.body["converged"], codes(done)
    assert not (folder / "graphs" / "old.omni").exists()
    found = ledger(folder)
    assert found["observations"]["graph.old"]["kind"] == "tombstone"
    assert len(found["approval_records"]) == 1
    declare(folder, f"graphs:\n{PEOPLE_GRAPH}\n  old: {{schema: people.pg}}", BINDING)
    assert apply(folder).body["converged"]


def test_a_policy_stays_while_the_delete_of_its_graph_waits(folder: Path) -> None:
    declare(folder, "graphs:\n  old: {schema: people.pg}")
    report = apply(folder)
    assert dispositions(report)["policy.devs"][1:] == ("blocked", "dependency_not_applied")
    assert "policy.devs" in ledger(folder)["applied_revision"]["resources"]


def test_a_missing_root_is_never_replaced_silently(folder: Path) -> None:
    shutil.rmtree(folder / "graphs" / "people.omni")
    assert dispositions(plan(folder))["graph.people"][1:] == ("blocked", "approval_required")
    report = apply(folder)
    assert not report.body["converged"]
    assert not (folder / "graphs" / "people.omni").exists()
    assert codes(commands.refresh(call(folder))) == ["graph_missing"]
    assert commands.approve(call(folder), "graph.people").ok
    assert apply(folder).body["converged"]
    assert names(folder) == ["Ada"], "the seed data belongs to a creation"


def test_drift_is_shown_and_undone(folder: Path) -> None:
    change_directly(folder, PEOPLE.replace("age", "nick: String?\n  age"))
    refreshed = commands.refresh(call(folder))
    assert refreshed.body["resource_statuses"]["schema.people"]["status"] == "drifted"
    report = plan(folder)
    change = next(each for each in report.changes if each.resource == "schema.people")
    assert change.reason in ("drifted", "approval_required")
    assert any("nick" in line for line in change.migration.lines if change.migration)
    if change.reason == "approval_required":
        assert commands.approve(call(folder), "schema.people").ok
    assert apply(folder).body["converged"]
    assert schema_of(folder) == PEOPLE
    assert plan(folder).changes == []


def test_an_existing_graph_is_taken_over(tmp_path: Path) -> None:
    write(tmp_path, people_pg=PEOPLE)
    declare(tmp_path, "graphs:\n  people: {schema: people.pg}")
    with omnigraph.init(tmp_path / "graphs" / "people.omni", PEOPLE) as graph:
        graph.mutate('insert Person { name: "Eve" }')
    imported = commands.import_cluster(call(tmp_path))
    assert imported.ok
    assert imported.body["state_observations"]["state_revision"] == 1
    assert codes(commands.import_cluster(call(tmp_path))) == ["state_already_exists"]
    assert apply(tmp_path).body["converged"]
    shutil.rmtree(tmp_path / "__cluster")
    report = apply(tmp_path)
    assert report.body["converged"]
    assert dispositions(report)["graph.people"] == ("create", "applied", "adopted")
    assert names(tmp_path) == ["Eve"]


def test_init_and_schema_apply_are_refused_on_managed_roots(folder: Path) -> None:
    root = folder / "graphs"
    with pytest.raises(InvalidArgument, match="cluster apply"):
        omnigraph.init(root / "fresh.omni", PEOPLE)
    with (
        omnigraph.open(root / "people.omni") as graph,
        pytest.raises(InvalidArgument, match="cluster apply"),
    ):
        graph.schema.apply(f"// other\n{PEOPLE}")


def test_targets(folder: Path) -> None:
    write(folder, people_gq=BY_NAME.replace("by_name", "named"), devs_yaml=f"# other\n{POLICY}")
    report = apply(folder, "policy.devs")
    assert dispositions(report)["policy.devs"][1] == "applied"
    assert dispositions(report)["query.people.named"][1:] == ("deferred", "not_targeted")
    assert not report.body["converged"]
    assert codes(apply(folder, "policy.nothing")) == ["unknown_target"]
    assert not apply(folder, "query.people.named").body["converged"]
    assert apply(folder, "graph.people").body["converged"]


def test_a_saved_plan_holds_only_while_nothing_moves(folder: Path) -> None:
    write(folder, people_gq=BY_NAME.replace("by_name", "named"))
    saved = commands.saved_plan(plan(folder))
    write(folder, devs_yaml=f"# other\n{POLICY}")
    stale = commands.apply(call(folder), ApplyTerms(), saved)
    assert codes(stale) == ["saved_plan_stale"]
    saved = json.loads(json.dumps(commands.saved_plan(plan(folder))))
    assert commands.apply(call(folder), ApplyTerms(), saved).body["converged"]
    assert codes(commands.apply(call(folder), ApplyTerms(), saved)) == ["saved_plan_stale"]


def test_an_edited_ledger_is_detected(folder: Path) -> None:
    file = folder / "__cluster" / "state.json"
    text = file.read_text()
    body = json.loads(text)
    body["applied_revision"]["resources"]["schema.people"]["digest"] = "0" * 64
    file.write_text(json.dumps(body))
    for run in (apply, plan, lambda folder: commands.refresh(call(folder))):
        assert codes(run(folder)) == ["external_blob_policy_digest_mismatch"]
    file.write_text(text.replace('"version"', '"versio"', 1))
    assert codes(apply(folder)) == ["unsupported_state_version"]
    file.write_text(text[:-20])
    assert codes(apply(folder)) == ["invalid_state_json"]
    file.write_text(text.replace('"state_revision"', '"more": 1,\n  "state_revision"'))
    assert codes(apply(folder)) == ["invalid_state_json"]


def test_a_ledger_that_moves_under_an_apply(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.cluster import apply as module

    write(folder, people_gq=BY_NAME.replace("by_name", "named"))
    file = folder / "__cluster" / "state.json"

    def move(name: str) -> None:
        if name.endswith("before_state_write"):
            file.write_text(file.read_text() + " ")

    monkeypatch.setattr(module.failpoints, "hit", move)
    report = apply(folder)
    assert codes(report) == ["state_cas_mismatch"]
    assert "converged" not in report.body
    monkeypatch.undo()
    assert apply(folder).body["converged"]


def test_a_lost_text_of_the_catalog_is_seen_and_written_again(folder: Path) -> None:
    (file,) = (folder / "__cluster" / "resources" / "query" / "people" / "by_name").iterdir()
    file.write_text("other")
    assert codes(commands.status(call(folder))) == ["catalog_payload_digest_mismatch"]
    assert codes(commands.refresh(call(folder))) == ["catalog_payload_digest_mismatch"]
    assert apply(folder).body["converged"]
    assert commands.status(call(folder)).ok
    file.unlink()
    assert codes(commands.status(call(folder))) == ["catalog_payload_missing"]
    apply(folder)
    assert commands.status(call(folder)).ok


def test_the_first_failure_stops_further_work_on_graphs(folder: Path) -> None:
    (folder / "graphs" / "a.omni").mkdir()
    (folder / "graphs" / "a.omni" / "note.txt").write_text("not a graph")
    more = "  a: {schema: people.pg}\n  b: {schema: people.pg}\n  old: {schema: people.pg}"
    declare(folder, f"graphs:\n{PEOPLE_GRAPH}\n{more}", BINDING)
    report = apply(folder)
    found = dispositions(report)
    assert found["graph.a"][1:] == ("blocked", "graph_incomplete")
    assert found["graph.b"][1] == "applied"
    assert not report.ok
    shutil.rmtree(folder / "graphs" / "a.omni")
    assert apply(folder).body["converged"]
