"""`g.diff` and `g.commits.changes` from outside."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph.handle import Graph
from omnigraph.values.temporal import write_micros


def described(changes: list) -> list[tuple]:
    return [(c.type.name, c.op, c.id) for c in changes]


def head(graph: Graph, branch: str = "main") -> str:
    return graph.branches.show(branch).head_commit_id


@pytest.fixture
def review(graph: Graph) -> Graph:
    graph.branches.create("review")
    graph.apply(
        {
            "Person": {"upsert": [{"name": "ada", "age": 5}, {"name": "zed"}]},
            "Note": {"delete": ["n0"]},
            "Knows": {"insert": [{"id": "k1", "from": "bob", "to": "zed", "since": 3}]},
        },
        "review",
        message="review",
    )
    return graph


def test_images_are_whole_entities_in_both_directions(review: Graph) -> None:
    changes = review.diff("main", "review")
    assert described(changes) == [
        ("Note", "delete", "n0"),
        ("Person", "update", "ada"),
        ("Person", "insert", "zed"),
        ("Knows", "insert", "k1"),
    ]
    assert changes[1].before == {"id": "ada", "name": "ada", "age": 1}
    assert changes[1].after == {"id": "ada", "name": "ada", "age": 5}
    assert changes[1].changed_properties == ("age",)
    assert changes[3].after == {"id": "k1", "from": "bob", "to": "zed", "since": 3}
    assert changes[3].to_dict()["kind"] == "edge"
    assert "before" not in changes[3].to_dict()
    back = review.diff("review", "main")
    assert [(c.before, c.after) for c in back] == [(c.after, c.before) for c in changes]


def test_any_two_of_branch_commit_tag_and_moment(review: Graph) -> None:
    wanted = review.diff("main", "review")
    review.tags.create("then", "review")
    at = write_micros(review.commits.show(head(review)).created_at)
    assert review.diff(head(review), "then") == wanted
    assert review.diff(at, head(review, "review")) == wanted
    assert review.commits.changes(head(review, "review")) == wanted


def test_filters(review: Graph) -> None:
    assert described(review.diff("main", "review", types=["Person"], ops=["insert"])) == [
        ("Person", "insert", "zed")
    ]
    assert described(review.diff("main", "review", kinds=["edge"])) == [("Knows", "insert", "k1")]
    with pytest.raises(NotFound, match="Persona"):
        review.diff("main", "review", types=["Persona"])
    with pytest.raises(InvalidArgument, match="insert, update, delete"):
        review.diff("main", "review", ops=["upsert"])


def test_pages_stay_on_their_commits_while_branches_move(review: Graph) -> None:
    wanted = review.diff("main", "review")
    page = review.diff("main", "review", limit=1)
    found = list(page)
    while page.next_cursor is not None:
        review.apply({"Note": {"insert": [{"text": "moving"}]}}, "review")
        page = review.diff("main", "review", limit=1, cursor=page.next_cursor)
        found += page
    assert found == wanted


def test_cursors_are_bound_and_checked(review: Graph) -> None:
    cursor = review.diff("main", "review", limit=1).next_cursor
    with pytest.raises(InvalidArgument, match="another filter"):
        review.diff("main", "review", types=["Note"], cursor=cursor)
    for rubbish in ("", "nonsense", "e30", "ü", 7):
        with pytest.raises(InvalidArgument, match="cursor"):
            review.diff("main", "review", cursor=rubbish)
    with pytest.raises(InvalidArgument, match="limit"):
        review.diff("main", "review", limit=0)


def test_what_changes_nothing_never_shows(graph: Graph) -> None:
    before = head(graph)
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 7}]}})
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 1}]}})
    graph.optimize()
    graph.ensure_indices()
    assert graph.diff(before, "main") == []


def test_types_that_exist_on_one_side_only(graph: Graph) -> None:
    from omnigraph.catalog.model import Catalog, NodeType, Property
    from omnigraph.values.scalars import ScalarKind, ScalarType

    graph.branches.create("wider")
    catalog = graph.snapshot().catalog
    city = NodeType("City", (Property("name", ScalarType(ScalarKind.STRING)),))
    wider = Catalog(nodes=(*catalog.nodes, city), edges=catalog.edges)
    graph.schema.apply(wider, branch="wider")
    graph.apply({"City": {"insert": [{"id": "c", "name": "Bern"}]}}, "wider")
    assert described(graph.diff("main", "wider")) == [("City", "insert", "c")]
    assert described(graph.diff("wider", "main", types=["City"])) == [("City", "delete", "c")]


def test_unknown_names_are_named(graph: Graph) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        graph.diff("main", "nowhere")
    with pytest.raises(NotFound, match="nowhere"):
        graph.commits.changes("nowhere")


def test_many_changes_use_a_change_list_and_a_range_read(graph: Graph) -> None:
    people = [{"name": f"p{i:05}", "age": i} for i in range(5000)]
    graph.apply({"Person": {"insert": people}})
    graph.branches.create("review")
    moved = [{**p, "age": p["age"] + 1} for p in people[::2]]
    graph.apply({"Person": {"upsert": moved}}, "review")
    changes = graph.diff("main", "review")
    assert [c.id for c in changes] == [p["name"] for p in moved]
    assert {c.after["age"] - c.before["age"] for c in changes} == {1}
