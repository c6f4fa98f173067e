"""Declared retention: a cut waits for an approval, and cleanup keeps what was applied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import omnigraph
from omnigraph.cli.main import app
from omnigraph.cluster import commands
from omnigraph.cluster.graph_work import applied_settings
from omnigraph.cluster.serving import applied_graph
from omnigraph.errors import InvalidArgument
from omnigraph.maintain.garbage import Retention
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph_testing.cluster_kit import (
    BY_NAME,
    PEOPLE,
    apply,
    call,
    codes,
    declare,
    dispositions,
    plan,
    write,
)

CUT = ("blocked", "approval_required")


def declared(folder: Path, retention: str | None, queries: bool = False) -> None:
    rule = "" if retention is None else f", retention: {retention}"
    more = ", queries: people.gq" if queries else ""
    declare(folder, f"graphs:\n  people: {{schema: people.pg{rule}{more}}}")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("retention") / "config"
    write(folder, people_pg=PEOPLE, people_gq=BY_NAME)
    declared(folder, None)
    assert apply(folder).body["converged"]
    with omnigraph.open(folder / "graphs" / "people.omni") as graph:
        for name in "abcdef":
            graph.mutate(f'insert Person {{ name: "{name}" }}')
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "config"))


def accept(folder: Path) -> None:
    report = commands.approve(call(folder, "bob"), "retention.people")
    assert report.ok, codes(report)
    assert apply(folder).body["converged"]


def test_a_cut_waits_and_the_rest_is_applied(folder: Path) -> None:
    declared(folder, "{keep: 3, older_than: 1d}", queries=True)
    assert dispositions(plan(folder))["retention.people"] == ("create", *CUT)
    half = apply(folder)
    assert dispositions(half)["query.people.by_name"][1] == "applied"
    assert "retention.people" not in open_ledger(folder)["applied_revision"]["resources"]
    assert apply(folder).body["applied_count"] == 0
    assert not apply(folder).body["state_written"]
    accept(folder)
    state = open_ledger(folder)
    entry = state["applied_revision"]["resources"]["retention.people"]
    assert entry["retention"] == {"keep": 3, "older_than_seconds": 86400.0}
    assert len(state["approval_records"]) == 1, "it is used once"
    assert plan(folder).changes == []


def open_ledger(folder: Path) -> dict:
    return json.loads((folder / "__cluster" / "state.json").read_text())


def test_what_is_a_cut(folder: Path) -> None:
    declared(folder, "{keep: 10}")
    apply(folder)
    accept(folder)
    for rule, is_cut in (
        ("{keep: 11}", False),
        ("{keep: 11, older_than: 1d}", False),
        ("{keep: 11, older_than: 24h}", None),
        ("{keep: 10, older_than: 2d}", True),
        ("{keep: 11, older_than: 23h}", True),
        ("{older_than: 700d}", True),
        (None, False),
        ("{keep: 1000000}", True),
    ):
        declared(folder, rule)
        report = plan(folder)
        if is_cut is None:
            assert report.changes == [], "the same time, written otherwise"
            continue
        assert bool(report.gates) is is_cut, rule
        if not is_cut:
            assert apply(folder).body["converged"]
    declared(folder, None)
    assert apply(folder).body["converged"]


def test_a_graph_is_created_with_its_retention(folder: Path, tmp_path: Path) -> None:
    write(tmp_path, people_pg=PEOPLE)
    declared(tmp_path, "{keep: 5}")
    assert plan(tmp_path).gates == []
    assert apply(tmp_path).body["converged"]
    assert plan(tmp_path).changes == []


def test_an_adopted_graph_has_commits_to_lose(tmp_path: Path) -> None:
    write(tmp_path, people_pg=PEOPLE)
    declared(tmp_path, "{keep: 5}")
    omnigraph.init(tmp_path / "graphs" / "people.omni", PEOPLE).close()
    report = apply(tmp_path)
    assert dispositions(report)["retention.people"] == ("create", *CUT)


def test_cleanup_keeps_what_was_applied(folder: Path) -> None:
    declared(folder, "{keep: 3}")
    apply(folder)
    uri = folder / "graphs" / "people.omni"
    runner = CliRunner()
    words = ["cleanup", "--cluster", str(folder), "--graph", "people", "--json"]
    before = json.loads(runner.invoke(app, words).stdout)
    accept(folder)
    found = applied_graph(str(folder), "people", {})
    settings = applied_settings(Settings(), found.profile, found.retention)
    assert settings.maintenance.keep_commits == 3, "for the upkeep of servers"
    # However the graph is opened, and whatever the settings say.
    settings = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0, keep_commits=1))
    with omnigraph.open(uri, settings=settings) as graph:
        assert graph.cleanup() == graph.cleanup(3)
        assert graph.cleanup().files > graph.cleanup(6).files
        with pytest.raises(InvalidArgument, match="declares what stays readable"):
            graph.cleanup(2)
        graph.cleanup(confirm=True)
        commits = graph.commits.list()
        assert graph.query("match { $p: Person } return { $p.name }", at=commits[2].graph_commit_id)
        with pytest.raises(omnigraph.SnapshotReclaimed):
            graph.query("match { $p: Person } return { $p.name }", at=commits[4].graph_commit_id)
    refused = runner.invoke(app, [*words, "--keep", "1"])
    assert refused.exit_code == 1
    assert "declares what stays readable" in refused.output
    assert before["removals"] == []
    (folder / "__cluster" / "state.json").write_text("{")
    with omnigraph.open(uri) as graph, pytest.raises(omnigraph.ClusterRefused):
        graph.cleanup()


def test_the_order_of_rules() -> None:
    day = 86_400_000_000
    everything = Retention(None, None)
    assert not everything.cuts(Retention(1, None))
    assert Retention(10**9, 10**9 * day).cuts(everything)
    assert not Retention(3, day).cuts(Retention(3, None))
    assert Retention(3, None).cuts(Retention(3, day))
    assert Retention(None, day).cuts(Retention(1, None))


@pytest.mark.parametrize(
    "rule", ["{}", "{keep: 0}", "{keep: true}", "{older_than: soon}", "{days: 3}", "all"]
)
def test_wrong_rules(folder: Path, rule: str) -> None:
    declared(folder, rule)
    assert set(codes(plan(folder))) == {"invalid_cluster_yaml"}
