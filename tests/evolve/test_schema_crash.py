"""Kill -9 at every point of a schema change: old or new entirely, and rolled forward as it was."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

pytestmark = pytest.mark.crash

W = "omnigraph_testing.workloads:"
POINTS = failpoints.SCHEMA_POINTS + failpoints.COMMIT_POINTS + failpoints.PUBLISH_POINTS

PERSON = "node Person { name: String @key  age: I64? }\n"
NOTE = "node Note { text: String }\n"
KNOWS = "edge Knows: Person -> Person { since: I64? }\n"


@dataclass(frozen=True)
class Evolution:
    """A change of the small graph, and the points that it does not pass."""

    schema: str
    backfill: dict[str, Any] = field(default_factory=dict)
    not_passed: frozenset[str] = frozenset()


NO_VALUES = frozenset({"schema_apply.after_backfill_batch", "schema_apply.after_table"})
EVOLUTIONS = {
    "add nullable": Evolution(
        PERSON.replace("}", "city: String? }") + NOTE.replace("}", "lang: String? }") + KNOWS,
        not_passed=NO_VALUES,
    ),
    "backfill": Evolution(
        PERSON.replace("}", "level: I64 }") + NOTE.replace("}", "size: I64 }") + KNOWS,
        {"Person.level": 7, "Note.size": 8},
    ),
    "rename": Evolution(
        'node Human @rename_from("Person") { name: String @key  '
        'years: I64? @rename_from("age") }\n'
        'node Memo @rename_from("Note") { words: String @rename_from("text") }\n'
        "edge Knows: Human -> Human { since: I64? }\n",
        not_passed=NO_VALUES,
    ),
    "cast": Evolution(
        PERSON.replace("I64?", "String?") + NOTE + KNOWS.replace("I64?", "F64?"),
    ),
}

NOTHING = {
    "schema_apply.before_validate",
    "schema_apply.before_effects",
    "schema_apply.after_backfill_batch",
    "commit.after_fork_branch",
    "commit.after_fork_publish",
    "commit.after_stage",
    "commit.before_arm",
}
ROLLED_BACK = {
    "commit.after_arm",
    "commit.after_revalidate",
    "commit.after_advance_first",
    "schema_apply.after_table",
}
ROLLED_FORWARD = {
    "commit.after_advance",
    "commit.before_publish",
    "publish.after_history",
    "publish.after_stage",
}
FINISHED = {"publish.after_swap", "commit.after_publish", "commit.after_disarm"}
ON_A_FORKED_BRANCH_ONLY = {"commit.after_fork_branch", "commit.after_fork_publish"}


def test_every_point_has_an_expectation() -> None:
    assert set(POINTS) == NOTHING | ROLLED_BACK | ROLLED_FORWARD | FINISHED


def evolved(graph: Graph, folder: Path, change: Evolution) -> dict[str, Any]:
    """The content of a copy of the graph after the change."""
    shutil.copytree(graph.uri, folder)
    copy = open_graph(folder, settings=workloads.settings())
    copy.schema.apply(change.schema, backfill=change.backfill)
    return content(copy)


def is_rare(name: str, point: str) -> bool:
    """A cast commits as a backfill does, and points that a change does not pass kill nothing."""
    other = name == "cast" and point not in failpoints.SCHEMA_POINTS
    return other or point in EVOLUTIONS[name].not_passed


@pytest.mark.parametrize(
    ("name", "point"),
    [
        pytest.param(
            name,
            point,
            id=f"{name}-{point}",
            marks=[pytest.mark.slow] if is_rare(name, point) else [],
        )
        for name in EVOLUTIONS
        for point in POINTS
    ],
)
def test_old_or_new_entirely(graph: Graph, uri: str, tmp_path: Path, name: str, point: str) -> None:
    change = EVOLUTIONS[name]
    branch = "review" if point in ON_A_FORKED_BRANCH_ONLY else "main"
    if branch != "main":
        graph.branches.create(branch)
    before, after = content(graph), evolved(graph, tmp_path / "copy", change)
    old = graph.schema.show().catalog
    arguments = {
        "uri": uri,
        "schema": change.schema,
        "branch": branch,
        "backfill": change.backfill,
    }
    child = start(W + "apply_schema", arguments, failpoints=f"{point}=kill")
    code, reports, stderr = child.finish()
    passed = point not in change.not_passed
    assert code == (-signal.SIGKILL if passed else 0), f"{point}: exit {code}, {stderr}"

    reopened = open_graph(uri, settings=workloads.settings())

    audits, head = reopened.recoveries(), reopened.commits.list(branch)[0]
    if point in ROLLED_FORWARD | FINISHED or not passed:
        assert content(reopened, branch) == after
        assert reopened.schema.show(branch).source == change.schema
        assert (head.actor_id, head.message) == ("victim", "evolve")
        assert head.operation == "schema_apply"
    else:
        assert content(reopened, branch) == before
        assert reopened.schema.show(branch).catalog == old
    if passed and point in ROLLED_FORWARD:
        assert [audit.recovery_kind for audit in audits] == ["rolled_forward"]
        assert audits[0].graph_commit_id == head.graph_commit_id
        assert audits[0].recovery_for_actor == "victim"
    elif passed and point in ROLLED_BACK:
        assert [audit.recovery_kind for audit in audits] == ["rolled_back"]
    else:
        assert audits == []
    if not passed:
        assert reports[-1] == head.graph_commit_id
    assert_at_rest(reopened)
    assert_history_readable(reopened, branch)
    again = reopened.schema.apply(
        change.schema,
        branch=branch,
        backfill=change.backfill if content(reopened, branch) == before else None,
    )
    assert again.applied is (point not in ROLLED_FORWARD | FINISHED and passed)
    assert content(reopened, branch) == after
    report = reopened.verify()
    assert report.ok, report
    assert_at_rest(reopened)


@pytest.mark.parametrize(
    "name",
    [n if n == "backfill" else pytest.param(n, marks=pytest.mark.slow) for n in EVOLUTIONS],
)
@pytest.mark.parametrize("crash", ["schema_apply.after_table", "commit.after_advance"])
@pytest.mark.parametrize("point", failpoints.RECOVERY_POINTS)
def test_an_interrupted_recovery_converges(
    graph: Graph, uri: str, tmp_path: Path, name: str, crash: str, point: str
) -> None:
    change = EVOLUTIONS[name]
    if crash in change.not_passed:
        crash = "commit.after_arm"
    before, after = content(graph), evolved(graph, tmp_path / "copy", change)
    arguments = {"uri": uri, "schema": change.schema, "backfill": change.backfill}
    start(W + "apply_schema", arguments, failpoints=f"{crash}=kill").finish()
    start(W + "only_open", {"uri": uri}, failpoints=f"{point}=kill").finish()
    reopened = open_graph(uri, settings=workloads.settings())
    assert content(reopened) == (after if crash == "commit.after_advance" else before)
    assert len(reopened.recoveries()) == 1
    assert_at_rest(reopened)
    assert reopened.verify().ok
