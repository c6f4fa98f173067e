"""Reads and writes other than queries stay in the scope of their actor, one operation at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Edit
from omnigraph.catalog.model import Catalog
from omnigraph.errors import FeedGap, InvalidArgument, NotFound, PolicyDenied, ValidationFailed
from omnigraph.export import sorted_rows
from omnigraph.graph.handle import Graph
from omnigraph.ir.data_scope import DataScope
from omnigraph.policy.policy import Policy
from omnigraph_testing.scoped_gate import ScopedGate, data_scope

SCHEMA = """
node Person {
  name: String @key
  dept: String
  salary: I64?
  email: String? @unique
  photo: Blob?
}
node Secret { name: String @key }
edge Knows: Person -> Person { since: I64? }
edge Guards: Person -> Secret
"""

RULES = {"Person": (["salary"], 'dept = "a"'), "Knows": ([], None)}


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Graph]:
    with omnigraph.init(tmp_path / "g", schema=SCHEMA, actor="root") as graph:
        rows = [
            {"name": "ada", "dept": "a", "salary": 1, "email": "ada@a", "photo": b"ada's"},
            {"name": "abe", "dept": "a", "salary": 2},
            {"name": "bob", "dept": "b", "salary": 3, "email": "bob@b", "photo": b"bob's"},
        ]
        graph.apply(
            {
                "Person": Edit(insert=rows),
                "Secret": Edit(insert=[{"name": "plan"}]),
                "Knows": Edit(
                    insert=[
                        {"id": "k1", "from": "ada", "to": "abe", "since": 1},
                        {"id": "k2", "from": "ada", "to": "bob", "since": 2},
                    ]
                ),
                "Guards": Edit(insert=[{"from": "bob", "to": "plan"}]),
            }
        )
        yield graph


@pytest.fixture
def part(whole: Graph) -> Graph:
    return whole.as_actor("reader", gate=ScopedGate(RULES))


def test_entities_of_a_type_are_those_in_scope_without_hidden_properties(part: Graph) -> None:
    rows = part.read("Person", columns=["name", "dept"]).to_pylist()
    assert rows == [{"name": "ada", "dept": "a"}, {"name": "abe", "dept": "a"}]
    assert part.read("Person").column_names == ["id", "name", "dept", "email", "photo"]
    assert part.read("Person", ids=["ada", "bob"]).column("id").to_pylist() == ["ada"]
    assert part.read("Knows").column("id").to_pylist() == ["k1"]
    with pytest.raises(NotFound) as hidden:
        part.read("Secret")
    with pytest.raises(NotFound) as unknown:
        part.read("Sekret")
    assert str(hidden.value) == str(unknown.value).replace("Sekret", "Secret")
    with pytest.raises(InvalidArgument) as column:
        part.read("Person", columns=["salary"])
    assert "it has: id, name, dept, email, photo" in str(column.value)


def test_a_blob_out_of_scope_is_like_one_that_does_not_exist(part: Graph) -> None:
    assert part.blob("node", "Person", "ada", "photo").read() == b"ada's"
    with pytest.raises(NotFound) as hidden:
        part.blob("node", "Person", "bob", "photo")
    with pytest.raises(NotFound) as absent:
        part.blob("node", "Person", "zoe", "photo")
    assert str(hidden.value) == str(absent.value).replace("zoe", "bob")


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_an_export_has_only_what_is_in_scope(part: Graph, tmp_path: Path, form: str) -> None:
    target = tmp_path / "out"
    receipt = part.export(target, format=form)
    assert {t.type_name: t.entity_count for t in receipt.types} == {"Person": 2, "Knows": 1}
    if form == "ndjson":
        lines = [json.loads(line) for line in target.read_text().splitlines()]
        assert [line["data"].get("name") for line in lines] == ["abe", "ada", None]
        assert all("salary" not in line["data"] for line in lines)
    else:
        assert sorted(p.stem for p in target.iterdir()) == ["Knows", "Person"]
        loaded = omnigraph.init(tmp_path / "again", schema=part.schema.show().source)
        loaded.load(target)
        assert loaded.read("Person", columns=["name"]).column("name").to_pylist() == ["abe", "ada"]


def test_a_stream_gets_only_what_is_in_scope(part: Graph) -> None:
    stream = io.BytesIO()
    part.export(stream)
    assert b"bob" not in stream.getvalue()
    assert b"plan" not in stream.getvalue()


def test_a_difference_is_that_of_the_visible_graphs(whole: Graph, part: Graph) -> None:
    before = whole.snapshot().graph_commit_id
    whole.mutate(
        """query change() {
             update Person set { dept: "b" } where name = "abe"
             update Person set { dept: "a" } where name = "bob"
             update Person set { salary: 9 } where name = "ada"
           }"""
    )
    after = whole.snapshot().graph_commit_id
    for page in (part.diff(before, after), part.commits.changes(after)):
        found = [(c.op, c.id) for c in page]
        assert found == [("delete", "abe"), ("insert", "bob"), ("delete", "k1"), ("insert", "k2")]
        assert all("salary" not in image for c in page for image in (c.before, c.after) if image)


def test_a_feed_shows_what_its_reader_may_see(whole: Graph, part: Graph) -> None:
    page = part.baseline()
    assert [c.id for block in page.blocks for c in block.changes] == ["abe", "ada", "k1"]
    whole.mutate('update Person set { salary: 5 } where name = "ada"')
    whole.mutate('insert Secret { name: "other" }')
    quiet = part.changes(cursor=page.cursor)
    assert quiet.blocks == ()
    whole.mutate('update Person set { dept: "z" } where name = "abe"')
    (block,) = part.changes(cursor=quiet.cursor).blocks
    assert [(c.op, c.id) for c in block.changes] == [("delete", "abe"), ("delete", "k1")]
    assert block.commit.changes == ()
    with pytest.raises(FeedGap, match="change cursor rejected: it was made under other rules"):
        part.changes(cursor=whole.baseline().cursor)
    with pytest.raises(FeedGap, match="change cursor rejected"):
        whole.changes(cursor=quiet.cursor)


def test_a_page_of_a_difference_belongs_to_the_rules_that_made_it(
    whole: Graph, part: Graph
) -> None:
    first, last = whole.commits.list()[-1], whole.commits.list()[0]
    commits = first.graph_commit_id, last.graph_commit_id
    cursor = whole.diff(*commits, limit=1).next_cursor
    with pytest.raises(InvalidArgument, match="change cursor rejected: it was made under other"):
        part.diff(cursor=cursor)


def test_records_tell_only_about_types_that_are_seen_whole(whole: Graph, part: Graph) -> None:
    whole.tags.create("v1")
    commit = part.commits.show("HEAD")
    assert [c.key.type_name for c in commit.changes] == []
    assert [c.key.type_name for c in part.commits.list()[0].changes] == []
    assert [pin.key.type_name for pin in part.tags.list()[0].tables] == []
    assert {d.type_name: d.entity_count for d in part.snapshot().datasets} == {
        "Person": None,
        "Knows": None,
    }
    assert {index.type_name for index in part.index_status()} <= {"Person", "Knows"}
    assert "Secret" not in part.schema.show().source
    assert "salary" not in part.schema.show().source


def test_a_schema_change_of_something_hidden_is_not_told(whole: Graph, part: Graph) -> None:
    before = whole.snapshot().graph_commit_id
    cursor = part.changes().cursor
    whole.schema.apply(SCHEMA.replace("salary: I64?", "salary: I64?\n  bonus: I64?"))
    rules = {**RULES, "Person": (["salary", "bonus"], 'dept = "a"')}
    narrow = whole.as_actor("reader", gate=ScopedGate(rules))
    assert len(whole.schema.diff(before, "main").steps) == 1
    assert narrow.schema.diff(before, "main").steps == ()
    assert len(whole.schema.history()) == 2
    assert len(narrow.schema.history()) == 1
    assert narrow.commits.schema_steps("main") == ()
    assert part.changes(cursor=cursor).blocks[0].schema_steps
    with pytest.raises(PolicyDenied):
        part.schema.plan(SCHEMA)
    with pytest.raises(PolicyDenied):
        part.schema.apply(SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        'insert Person { name: "zoe", dept: "b" }',
        'update Person set { dept: "b" } where name = "ada"',
        'insert Person { name: "bob", dept: "a" }',
        'insert Knows { from: "ada", to: "bob" }',
        'delete Person where name = "ada"',
    ],
)
def test_a_mutation_that_leaves_its_scope_is_refused_as_a_whole(
    whole: Graph, part: Graph, text: str
) -> None:
    head = whole.snapshot().graph_commit_id
    with pytest.raises(PolicyDenied) as refused:
        part.mutate(f"query m() {{ {text} }}")
    assert refused.value.action == "change"
    assert "bob" not in str(refused.value)
    assert whole.snapshot().graph_commit_id == head


def test_statements_see_only_rows_in_scope(whole: Graph, part: Graph) -> None:
    assert part.mutate('update Person set { dept: "a" } where name = "bob"').affected_nodes == 0
    assert part.mutate('delete Person where name = "bob"').affected_nodes == 0
    assert part.mutate('update Person set { email: "x" } where dept != "q" and name = "ada"')
    # The division by zero fails on a hidden row, so it would tell about it.
    whole.mutate('insert Person { name: "cid", dept: "" }')
    assert part.mutate("delete Person where 1 / length(dept) > 1").affected_nodes == 0
    for hidden, unknown in (
        ('update Person set { salary: 1 } where name = "ada"', "salary"),
        ("delete Person where salary = 3", "salary"),
        ('insert Secret { name: "x" }', "Secret"),
    ):
        with pytest.raises(omnigraph.OmnigraphError) as refused:
            part.mutate(hidden)
        with pytest.raises(omnigraph.OmnigraphError) as same:
            part.mutate(hidden.replace(unknown, unknown[:-1] + "q"))
        assert type(refused.value) is type(same.value)
        shown = str(same.value).replace(unknown[:-1] + "q", unknown)
        assert str(refused.value) == shown


def test_rows_of_scope_can_be_written_by_every_method(whole: Graph, part: Graph) -> None:
    part.mutate('insert Person { name: "eve", dept: "a" }')
    part.apply({"Person": Edit(upsert=[{"name": "una", "dept": "a"}])})
    part.load([{"type": "Person", "data": {"name": "ulf", "dept": "a"}}])
    part.load([{"type": "Person", "data": {"name": "ada", "email": "new@a"}}], mode="patch")
    ada = whole.read("Person", ids=["ada"]).to_pylist()[0]
    assert (ada["email"], ada["salary"]) == ("new@a", 1)
    part.mutate("delete Knows where since = 1")
    assert whole.read("Knows").column("id").to_pylist() == ["k2"]


@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("append", {"name": "zoe", "dept": "b"}),
        ("merge", {"name": "bob", "dept": "a"}),
        ("merge", {"name": "ada", "dept": "a"}),
        ("patch", {"name": "bob", "dept": "a"}),
        ("overwrite", {"name": "zoe", "dept": "a"}),
        ("mirror", {"name": "zoe", "dept": "a"}),
    ],
)
def test_a_load_that_leaves_its_scope_is_refused(
    whole: Graph, part: Graph, mode: str, row: dict[str, str]
) -> None:
    head = whole.snapshot().graph_commit_id
    with pytest.raises(PolicyDenied):
        part.load([{"type": "Person", "data": row}], mode=mode)
    assert whole.snapshot().graph_commit_id == head


def test_messages_tell_nothing_about_hidden_entities(
    whole: Graph, part: Graph, tmp_path: Path
) -> None:
    with pytest.raises(ValidationFailed) as clash:
        part.mutate('insert Person { name: "eve", dept: "a", email: "bob@b" }')
    assert "'bob'" not in str(clash.value)
    assert "'bob'" not in json.dumps(clash.value.to_dict())
    rejects = tmp_path / "rejects.ndjson"
    row = {"type": "Person", "data": {"name": "eve", "dept": "a", "email": "bob@b"}}
    part.load([row], on_error="skip", rejects=rejects)
    assert "'bob'" not in rejects.read_text()
    with pytest.raises(ValidationFailed) as forked:
        part.load([row], branch="new", from_branch="main")
    assert "'bob'" not in str(forked.value)
    with pytest.raises(ValidationFailed) as named:
        part.load([{"type": "Person", "data": {"name": "eve", "dept": "a", "sallary": 1}}])
    assert "salary" not in str(named.value)
    with pytest.raises(ValidationFailed) as other:
        part.load([{"type": "Secre", "data": {"name": "eve"}}])
    assert "Secret" not in str(other.value)


def test_merges_reverts_and_picks_need_the_whole_type(whole: Graph, part: Graph) -> None:
    whole.branches.create("side")
    commit = whole.mutate(
        'update Person set { dept: "side" } where name = "bob"', branch="side"
    ).commit
    assert commit is not None
    whole.mutate('update Person set { dept: "main" } where name = "bob"')
    for write in (
        lambda: part.merge("side"),
        lambda: part.cherry_pick(commit.graph_commit_id),
        lambda: part.revert("HEAD"),
    ):
        with pytest.raises(PolicyDenied) as refused:
            write()
        assert "bob" not in str(refused.value)
    preview = part.preview_merge("side")
    assert preview.conflicts == []
    assert list(preview.changes) == []
    assert whole.preview_merge("side").conflicts


def test_a_merge_of_types_that_may_be_changed_whole_is_made(whole: Graph) -> None:
    rules = {"Secret": ([], None), "Person": (["salary"], 'dept = "a"')}
    part = whole.as_actor("keeper", gate=ScopedGate(rules))
    whole.branches.create("side")
    commit = whole.mutate('insert Secret { name: "second" }', branch="side").commit
    assert commit is not None
    assert [c.id for c in part.preview_merge("side").changes] == ["second"]
    merged = part.merge("side").commit
    assert merged is not None
    assert part.read("Secret").column("id").to_pylist() == ["plan", "second"]
    assert part.revert(merged.graph_commit_id).commit is not None
    assert part.cherry_pick(commit.graph_commit_id).commit is not None


@pytest.fixture
def disputed(whole: Graph) -> str:
    """Two branches that changed the same edge, whose end `bob` is hidden; a commit of one."""
    whole.branches.create("side")
    done = whole.mutate("update Knows set { since: 7001 } where since = 2", branch="side")
    whole.mutate("update Knows set { since: 7002 } where since = 2")
    assert done.commit is not None
    return done.commit.graph_commit_id


def conflicting_writes(graph: Graph, commit: str, **more: Any) -> list[Callable[[], object]]:
    last = graph.commits.list()[1].graph_commit_id  # the commit that `main` changed since then
    return [
        lambda: graph.merge("side", **more),
        lambda: graph.preview_merge("side", **more),
        lambda: graph.cherry_pick(commit, **more),
        lambda: graph.revert(last, **more),
    ]


def test_conflicts_of_edges_with_a_hidden_end_are_not_told(
    whole: Graph, part: Graph, disputed: str
) -> None:
    """The rules about Knows show every edge; those about Person hide the end of this one."""
    whole.mutate("update Knows set { since: 7003 } where since = 7002")
    assert len(whole.preview_merge("side")) == 1
    for write in conflicting_writes(part, disputed):
        try:
            told = repr(write())
        except PolicyDenied as refused:
            told = f"{refused} {refused.to_dict()}"
        assert not any(value in told for value in ("k2", "7001", "7002", "7003")), told


def test_a_resolution_does_not_find_out_what_is_in_conflict(part: Graph, disputed: str) -> None:
    for name, known, unknown in (("Knows", "k2", "k9"), ("Person", "bob", "rob")):
        for entity in (known, unknown):
            entry = {"type_name": name, "entity_id": entity, "take": "ours"}
            for write in conflicting_writes(part, disputed, resolutions=[entry]):
                with pytest.raises(InvalidArgument, match=f"no conflict for .*{entity}"):
                    write()


def test_conflicts_show_nothing_of_a_branch_that_is_closed(
    whole: Graph, disputed: str, tmp_path: Path
) -> None:
    """Without a rule about data: the actor may merge into main, and may not read it."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        """
version: 1
rules:
  - id: side
    allow: {actors: {actor: merger}, actions: [read], branches: [side]}
  - id: write
    allow: {actors: {actor: merger}, actions: [branch_merge, change]}
"""
    )
    merger = whole.as_actor("merger", gate=Policy.load(file))
    for write in (lambda: merger.merge("side"), lambda: merger.cherry_pick(disputed)):
        with pytest.raises(PolicyDenied) as refused:
            write()
        assert "7002" not in f"{refused.value} {refused.value.to_dict()}"
    with pytest.raises(InvalidArgument, match="no conflict for"):
        merger.merge(
            "side", resolutions=[{"type_name": "Knows", "entity_id": "k2", "take": "ours"}]
        )


def test_the_limit_of_a_preview_counts_what_is_shown(
    whole: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.merge.operation.MOST_CHANGES", 1)
    monkeypatch.setattr("omnigraph.merge.output.MOST_CONFLICTS", 1)
    whole.mutate('insert Secret { name: "third" }')
    whole.branches.create("side")
    for branch, text in (("side", "s"), ("main", "m")):
        whole.mutate(f'update Person set {{ email: "{text}" }} where name = "ada"', branch=branch)
        whole.mutate(f'update Person set {{ dept: "{text}" }} where name = "bob"', branch=branch)
    whole.mutate('update Person set { salary: 70 } where name = "abe"', branch="side")
    whole.mutate('insert Secret { name: "fourth" }', branch="side")
    part = whole.as_actor("keeper", gate=ScopedGate({"Secret": ([], None)}))
    preview = part.preview_merge("side")
    assert ([c.id for c in preview.changes], preview.more_changes) == (["fourth"], False)
    assert (len(preview), preview.conflict_count) == (0, 0)
    assert whole.preview_merge("side").more_changes


def test_a_merge_that_brings_a_type_needs_rules_about_it(whole: Graph) -> None:
    whole.branches.create("side")
    whole.schema.apply(SCHEMA + "node Extra { name: String @key }", branch="side")
    whole.mutate('insert Extra { name: "x" }', branch="side")
    keeper = whole.as_actor("keeper", gate=ScopedGate({"Secret": ([], None)}))
    with pytest.raises(PolicyDenied, match="of a type out of its scope"):
        keeper.merge("side")
    assert "Extra" not in whole.schema.show().source


def test_an_actor_that_only_writes_addresses_what_it_may_change(
    whole: Graph, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        """
version: 1
groups: {writers: [writer]}
rules:
  - id: write
    allow:
      actors: {group: writers}
      actions: [change]
      types: [Person]
      where: {Person: 'dept = "a"'}
"""
    )
    part = whole.as_actor("writer", gate=Policy.load(file))
    with pytest.raises(PolicyDenied):
        part.read("Person")
    assert part.mutate('update Person set { salary: 9 } where name = "ada"').affected_nodes == 1
    assert part.mutate('update Person set { salary: 9 } where name = "bob"').affected_nodes == 0
    # Its edges go with the node, and it may not change edges.
    with pytest.raises(PolicyDenied, match="of a type out of its scope"):
        part.mutate('delete Person where name = "ada"')


def test_an_export_that_is_sorted_on_disk_has_only_what_is_in_scope(
    part: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_rows, "_SORTED_IN_MEMORY", 0)
    stream = io.BytesIO()
    part.export(stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["data"].get("name") for line in lines] == ["abe", "ada", None]


class RenamingGate(ScopedGate):
    """Rules that follow a renamed property."""

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        name = next(p.name for p in catalog.node_types["Person"].properties if p.name != "name")
        return data_scope({"Person": (["salary"], f'{name} = "a"'), "Knows": ([], None)}, catalog)


def test_a_rule_whose_property_was_renamed_shows_the_same_entities(whole: Graph) -> None:
    part = whole.as_actor("reader", gate=RenamingGate(RULES))
    before = whole.snapshot().graph_commit_id
    cursor = part.changes().cursor
    whole.schema.apply(SCHEMA.replace("dept: String", 'unit: String @rename_from("dept")'))
    assert list(part.diff(before, "main")) == []
    whole.mutate('update Person set { unit: "a" } where name = "bob"')
    found = [(c.op, c.id) for c in part.diff(before, "main")]
    assert found == [("insert", "bob"), ("insert", "k2")]
    page = part.changes(cursor=cursor)
    assert [(c.op, c.id) for block in page.blocks for c in block.changes] == found


def test_the_schema_is_shown_when_one_type_hides_a_property_of_its_interface(
    tmp_path: Path,
) -> None:
    """The other type then has its properties in another order than the text of the schema."""
    nodes = "node One implements Named {}\nnode Two implements Named {}"
    text = f"interface Named {{ a: I32?  b: I32? }}\n{nodes}"
    with omnigraph.init(tmp_path / "g", schema=text) as graph:
        part = graph.as_actor("reader", gate=ScopedGate({"One": ([], None), "Two": (["a"], None)}))
        assert part.schema.show().source.splitlines() == [
            "interface Named {",
            "  b: I32?",
            "}",
            "",
            "node One implements Named {",
            "  a: I32?",
            "}",
            "",
            "node Two implements Named {}",
        ]
