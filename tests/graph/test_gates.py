"""Every public operation of a graph asks the policy before it does anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph, NotFound, PolicyDenied
from omnigraph.catalog.model import Catalog
from omnigraph.graph.collections import Branches, Commits, Schema, Tags
from omnigraph.graph.stored_queries import Queries
from omnigraph.ir.data_scope import DataScope
from omnigraph.policy.actions import ALL_ACTIONS
from omnigraph_testing.workloads import create_small_graph

QUERY = "match { $n: Note } return { $n.text }"
ANYWHERE = "*"


class RecordingGate:
    """Refuses everything, or some actions only, and notes what it was asked."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[tuple[str, str | None, str | None]] = []

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        assert action in ALL_ACTIONS
        self.asked.append((action, branch, target or query))
        if not self.allows(actor, action, branch, target, query):
            raise PolicyDenied("no", action=action)

    def allows(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None = None,
        query: str | None = None,
    ) -> bool:
        return bool(self.refused) and action not in self.refused

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        return None


Gate = tuple[str, str | None, str | None]
READ_MAIN: Gate = ("read", "main", None)
READ_SOME: Gate = ("read", ANYWHERE, None)
CHANGE_MAIN: Gate = ("change", "main", None)
ADMIN: Gate = ("admin", None, None)

GATED: dict[str, tuple[Callable[[Graph], Any], list[Gate]]] = {
    "Graph.snapshot": (lambda g: g.snapshot(), [READ_MAIN]),
    "Graph.state": (lambda g: g.state("export"), [("export", "main", None)]),
    "Graph.read": (lambda g: g.read("Note"), [READ_MAIN]),
    "Graph.blob": (lambda g: g.blob("node", "Note", "n1", "x"), [READ_MAIN]),
    "Graph.query": (lambda g: g.query(QUERY), [READ_MAIN]),
    "Graph.kept_answer": (lambda g: g.kept_answer(QUERY), [READ_MAIN]),
    "Graph.explain": (lambda g: g.explain(QUERY), [READ_MAIN]),
    "Graph.profile": (lambda g: g.profile(QUERY), [READ_MAIN]),
    "Graph.export": (lambda g: g.export("/nowhere/x"), [("export", "main", None)]),
    "Graph.mutate": (lambda g: g.mutate('delete Note where text = "x"'), [CHANGE_MAIN]),
    "Graph.apply": (lambda g: g.apply({"Note": {"delete": ["n1"]}}), [CHANGE_MAIN]),
    "Graph.load": (lambda g: g.load([], type="Note"), [CHANGE_MAIN]),
    "Graph.load_options": (
        lambda g: g.load_options(SimpleNamespace(branch="main")),
        [CHANGE_MAIN],
    ),
    "Graph.embed": (lambda g: g.embed(), [CHANGE_MAIN]),
    "Graph.merge": (
        lambda g: g.merge("review", delete_branch=True),
        [("read", "review", None), ("branch_merge", "review", "main")],
    ),
    "Graph.preview_merge": (
        lambda g: g.preview_merge("review"),
        [READ_MAIN, ("read", "review", None)],
    ),
    "Graph.revert": (lambda g: g.revert("HEAD"), [CHANGE_MAIN]),
    "Graph.cherry_pick": (lambda g: g.cherry_pick("HEAD"), [CHANGE_MAIN]),
    "Graph.diff": (lambda g: g.diff("main", "review"), [READ_SOME]),
    "Graph.changes": (lambda g: g.changes(), [READ_MAIN]),
    "Graph.baseline": (lambda g: g.baseline(), [("export", "main", None)]),
    "Graph.optimize": (lambda g: g.optimize(), [ADMIN]),
    "Graph.ensure_indices": (lambda g: g.ensure_indices(), [ADMIN]),
    "Graph.index_status": (lambda g: g.index_status(), [READ_MAIN]),
    "Graph.status": (lambda g: g.status(), [ADMIN]),
    "Graph.cleanup": (lambda g: g.cleanup(), [ADMIN]),
    "Graph.verify": (lambda g: g.verify(), [ADMIN]),
    "Graph.repair": (lambda g: g.repair(), [ADMIN]),
    "Graph.for_repair": (lambda g: g.for_repair(), [ADMIN]),
    "Graph.backup": (lambda g: g.backup("/nowhere/backup"), [ADMIN]),
    "Graph.refresh": (lambda g: g.refresh(), [ADMIN]),
    "Graph.recoveries": (lambda g: g.recoveries(), [ADMIN]),
    "Graph.require": (lambda g: g.require("read", "main"), [READ_MAIN]),
    "Branches.create": (
        lambda g: g.branches.create("b"),
        [READ_MAIN, ("branch_create", "main", "b")],
    ),
    "Branches.list": (lambda g: g.branches.list(), [READ_SOME]),
    "Branches.show": (lambda g: g.branches.show("review"), [("read", "review", None)]),
    "Branches.rename": (
        lambda g: g.branches.rename("review", "b"),
        [
            ("branch_delete", None, "review"),
            ("read", "review", None),
            ("branch_create", "review", "b"),
        ],
    ),
    "Branches.delete": (
        lambda g: g.branches.delete("review"),
        [("branch_delete", None, "review")],
    ),
    "Tags.create": (lambda g: g.tags.create("v2"), [("branch_create", None, "v2")]),
    "Tags.list": (lambda g: g.tags.list(), [READ_SOME]),
    "Tags.delete": (lambda g: g.tags.delete("v1"), [("branch_delete", None, "v1")]),
    "Commits.list": (lambda g: g.commits.list(), [READ_MAIN]),
    "Commits.by_key": (lambda g: g.commits.by_key("k"), [READ_SOME]),
    "Commits.show": (lambda g: g.commits.show("HEAD"), [READ_SOME]),
    "Commits.schema_steps": (lambda g: g.commits.schema_steps("HEAD"), [READ_SOME]),
    "Commits.graph": (lambda g: g.commits.graph(), [READ_MAIN]),
    "Commits.changes": (lambda g: g.commits.changes("HEAD"), [READ_SOME]),
    "Schema.show": (lambda g: g.schema.show(), [("schema_read", ANYWHERE, None)]),
    "Schema.plan": (lambda g: g.schema.plan("node A { x: String }"), [READ_MAIN]),
    "Schema.apply": (
        lambda g: g.schema.apply("node A { x: String }"),
        [("schema_apply", None, "main")],
    ),
    "Schema.diff": (lambda g: g.schema.diff("main", "review"), [READ_SOME]),
    "Schema.history": (lambda g: g.schema.history(), [READ_MAIN]),
    "Queries.list": (lambda g: g.queries.list(), [READ_MAIN]),
    "Queries.reload": (lambda g: g.queries.reload(), [ADMIN]),
    "Queries.validate": (lambda g: g.queries.validate(), [READ_MAIN]),
}
"""Method -> a call of it, and what it asks first."""

UNGATED = {
    "Graph.as_actor": "the process that has the graph open chooses the names of its handles",
    "Graph.close": "gives up what the handle has",
    "Graph.seen": "narrows a snapshot that the caller has",
    "Queries.run": "looks a name up; the query or mutation behind it is gated, and tested as such",
}
PROPERTIES = {
    "access": "the gate itself",
    "actor": "the caller's own name",
    "engine": "not for callers: no policy holds below the operations, and it says so",
    "format_version": "a number of the file format",
    "read_only": "how the handle was opened",
    "uri": "how the handle was opened",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = create_small_graph(tmp_path_factory.mktemp("gates") / "graph.omni")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}})
    graph.branches.create("review")
    graph.tags.create("v1")
    return graph


def test_every_public_method_is_declared() -> None:
    for kind in (Graph, Branches, Tags, Commits, Schema, Queries):
        for name, member in inspect.getmembers(kind):
            if name.startswith("_"):
                continue
            full = f"{kind.__name__}.{name}"
            if isinstance(member, property):
                assert name in PROPERTIES, full
            else:
                assert (full in GATED) + (full in UNGATED) == 1, full


@pytest.mark.parametrize("name", GATED)
def test_the_policy_is_asked_first(graph: Graph, name: str) -> None:
    call, asked = GATED[name]
    gate = RecordingGate()
    before = graph.commits.list()
    with pytest.raises(PolicyDenied):
        call(graph.as_actor("ada", gate=gate))
    assert gate.asked == asked[:1]
    assert graph.commits.list() == before


@pytest.mark.parametrize("name", [name for name, (_, asked) in GATED.items() if len(asked) > 1])
def test_every_part_of_an_operation_is_asked_for(graph: Graph, name: str) -> None:
    call, asked = GATED[name]
    for number, (action, branch, target) in enumerate(asked):

        class Refusing(RecordingGate):
            def allows(self, actor, action, branch, target=None, query=None):  # type: ignore[no-untyped-def]
                return (action, branch, target or query) != self.refused

        gate = Refusing()
        gate.refused = (action, branch, target)  # type: ignore[assignment]
        with pytest.raises(PolicyDenied):
            call(graph.as_actor("ada", gate=gate))
        assert gate.asked == asked[: number + 1]


@pytest.mark.parametrize(
    "spelled", ["*", "**", " main", "main ", "\tmain", "main\n", "ｍａｉｎ ", "main/"]
)
def test_another_spelling_of_a_branch_does_not_pass(graph: Graph, spelled: str) -> None:
    gate = RecordingGate("nothing")
    for call in (
        lambda g: g.query(QUERY, branch=spelled),
        lambda g: g.mutate('delete Note where text = "zzz"', branch=spelled),
        lambda g: g.merge("review", into=spelled),
        lambda g: g.branches.delete(spelled),
        lambda g: g.export("/nowhere/x", branch=spelled),
    ):
        with pytest.raises(omnigraph.InvalidName):
            call(graph.as_actor("ada", gate=gate))
    assert [each for each in gate.asked if each[1] == spelled or each[2] == spelled] == []


POLICY = """
version: 1
groups: {readers: [ada], writers: [ben]}
rules:
  - id: read-open
    allow: {actors: {group: readers}, actions: [read, export, change], branches: [main, open]}
  - id: fork
    allow: {actors: {group: readers}, actions: [branch_create, branch_merge, branch_delete]}
  - id: all
    allow:
      actors: {group: writers}
      actions: [read, change, export, branch_create, branch_merge, branch_delete]
"""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a branch that `ada` may not read, and its policy beside it."""
    folder = tmp_path_factory.mktemp("closed")
    graph = create_small_graph(folder / "graph.omni")
    for name in ("open", "secret-branch"):
        graph.branches.create(name)
        graph.apply({"Note": {"insert": [{"id": name, "text": name}]}}, branch=name)
    graph.tags.create("secret-tag", "secret-branch")
    graph.close()
    (folder / "policy.yaml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def ada(closed: Path) -> Graph:
    return omnigraph.open(closed / "graph.omni", actor="ada", policy=closed / "policy.yaml")


def test_listings_have_only_what_may_be_read(ada: Graph) -> None:
    assert [branch.name for branch in ada.branches.list()] == ["main", "open"]
    assert ada.tags.list() == []
    assert len(ada.as_actor("ben").branches.list()) == 3


def test_a_closed_branch_cannot_be_told_from_an_unknown_one(ada: Graph) -> None:
    secret = ada.as_actor("ben").branches.show("secret-branch").head_commit_id
    unknown = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    calls: list[Callable[[str], Any]] = [
        lambda name: ada.snapshot(at=name),
        lambda name: ada.query(QUERY, at=name),
        lambda name: ada.commits.show(name),
        lambda name: ada.commits.changes(name),
        lambda name: ada.diff("main", name),
        lambda name: ada.cherry_pick(name),
        lambda name: ada.revert(name),
        lambda name: ada.tags.create("mine", name),
        lambda name: ada.schema.show(at=name),
    ]
    for call in calls:
        for known, other in (
            (secret, unknown),
            ("secret-tag", "secret-tug"),
            ("secret-branch", "secret-brunch"),
            (secret[:20], unknown[:19] + ("0" if unknown[19] != "0" else "1")),
        ):
            with pytest.raises(NotFound) as denied:
                call(known)
            with pytest.raises(NotFound) as missing:
                call(other)
            told = denied.value.message.replace(known, "X")
            assert told == missing.value.message.replace(other, "X")
            assert "secret" not in told.lower()


def test_there_is_no_way_round_by_forks_merges_and_renames(ada: Graph) -> None:
    for call in (
        lambda: ada.branches.create("mine", "secret-branch"),
        lambda: ada.merge("secret-branch", into="open"),
        lambda: ada.branches.rename("secret-branch", "open2"),
        lambda: ada.load([], type="Note", branch="main2", from_branch="secret-branch"),
        lambda: ada.query(QUERY, branch="secret-branch"),
        lambda: ada.changes("secret-branch"),
        lambda: ada.baseline("secret-branch"),
        lambda: ada.diff(base="main", branch="open") and ada.commits.list("secret-branch"),
    ):
        with pytest.raises(PolicyDenied):
            call()


def test_hints_name_only_readable_branches(ada: Graph) -> None:
    with pytest.raises(PolicyDenied) as denied:
        ada.query(QUERY, branch="secret-branhc")
    assert "secret-branch'" not in denied.value.message
    ben = ada.as_actor("ben")
    with pytest.raises(NotFound, match="did you mean 'secret-branch'"):
        ben.query(QUERY, branch="secret-branhc")
    with pytest.raises(NotFound) as missing:
        ada.query(QUERY, at="secret-branhc")
    assert "secret-branch'" not in missing.value.message


def test_commits_that_a_merge_brought_from_a_closed_branch_stay_closed(ada: Graph) -> None:
    ben = ada.as_actor("ben")
    ben.branches.create("secret-work")
    ben.apply({"Note": {"insert": [{"id": "w", "text": "w"}]}}, branch="secret-work")
    secret = ben.branches.show("secret-work").head_commit_id
    ben.apply({"Note": {"insert": [{"id": "m", "text": "m"}]}})
    assert ben.merge("secret-work").outcome == "merged"
    ben.branches.delete("secret-work")
    assert secret in {commit.graph_commit_id for commit in ben.commits.list()}
    listed = ada.commits.list()
    assert secret not in {commit.graph_commit_id for commit in listed}
    assert listed[0].operation == "merge"
    assert not any(secret in line for line in ada.commits.graph())
    for call in (
        lambda: ada.commits.show(secret),
        lambda: ada.snapshot(at=secret),
        lambda: ada.commits.changes(secret),
        lambda: ada.cherry_pick(secret, onto="open"),
    ):
        with pytest.raises(NotFound):
            call()
    assert {"w", "m"} <= {row["n.text"] for row in ada.query(QUERY).to_pylist()}
