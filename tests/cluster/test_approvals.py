"""Approvals: bound to digests, used once, and by enough different people."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from omnigraph.cluster import commands
from omnigraph.cluster.session import ApplyTerms
from omnigraph_testing.cluster_kit import PEOPLE, apply, call, codes, declare, plan, write

KEEP = "graphs:\n  people: {schema: people.pg}"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("approvals") / "config"
    write(folder, people_pg=PEOPLE)
    declare(folder, f"{KEEP}\n  old: {{schema: people.pg}}")
    assert apply(folder).body["converged"]
    declare(folder, KEEP)
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "config"))


def approve(folder: Path, actor: str | None = "bob") -> str:
    report = commands.approve(call(folder, actor), "graph.old")
    assert report.ok, codes(report)
    return report.body["approval_id"]


def test_an_approval_needs_a_name(folder: Path) -> None:
    assert codes(commands.approve(call(folder, None), "graph.old")) == ["approval_actor_missing"]
    assert codes(commands.approve(call(folder), "graph.people")) == ["approval_not_required"]


def test_any_movement_ends_an_approval(folder: Path) -> None:
    approve(folder)
    assert plan(folder).body["approvals_required"][0]["satisfied"]
    write(folder, people_pg=f"// other\n{PEOPLE}")
    report = apply(folder)
    assert "approval_stale" in codes(report)
    assert not report.body["converged"]
    assert (folder / "graphs" / "old.omni").exists()
    write(folder, people_pg=PEOPLE)
    assert "approval_stale" not in codes(plan(folder)), "the same digests, the same approval"


def test_it_is_used_once_even_if_the_ledger_or_the_file_is_lost(folder: Path) -> None:
    approval_id = approve(folder)
    file = folder / "__cluster" / "approvals" / f"{approval_id}.json"
    unused = file.read_text()
    assert apply(folder).body["converged"]
    assert json.loads(file.read_text())["consumed_at"]
    # The graph comes back as it was, and so does the need for an approval.
    declare(folder, f"{KEEP}\n  old: {{schema: people.pg}}")
    assert apply(folder).body["converged"]
    declare(folder, KEEP)
    assert not apply(folder).body["converged"], "the file says that it was used"
    file.write_text(unused)
    assert not apply(folder).body["converged"], "the ledger says that it was used"
    assert json.loads(file.read_text())["consumed_at"], "and repairs the file"


def test_enough_different_people(folder: Path) -> None:
    rule = "approvals: {required: 2, distinct: true}"
    declare(folder, KEEP, rule)
    approve(folder, "bob")
    approve(folder, "bob")
    assert not apply(folder, actor="carl").body["converged"], "one person is not two"
    approve(folder, "ada")
    assert not apply(folder, actor="ada").body["converged"], "who applies does not count"
    assert apply(folder, actor="carl").body["converged"]
    state = json.loads((folder / "__cluster" / "state.json").read_text())
    assert len(state["approval_records"]) == 3


def test_more_approvals_by_flag(folder: Path) -> None:
    approve(folder)
    two = commands.apply(call(folder), ApplyTerms(min_approvals=2))
    assert not two.body["converged"]
    assert apply(folder).body["converged"]
