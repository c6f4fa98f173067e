"""The change feed from outside."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import FeedGap, InvalidArgument, NotFound
from omnigraph.feed import FeedPage
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph, restore_graph
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph_testing.workloads import create_small_graph, small_catalog


def drain(graph: Graph, page: FeedPage, **filters: Any) -> list[FeedPage]:
    pages = [page]
    while pages[-1].has_more:
        pages.append(graph.changes(page.graph_branch, pages[-1].cursor, **filters))
    return pages


def replayed(pages: list[FeedPage]) -> dict:
    content: dict = {}
    for page in pages:
        for block in page.blocks:
            for change in block.changes:
                entity = (change.type.name, change.id)
                assert content.pop(entity, None) == change.before
                if change.after is not None:
                    content[entity] = change.after
    return content


def held(graph: Graph, branch: str = "main") -> dict:
    found = {}
    for name in ("Person", "Note", "Knows"):
        for row in graph.read(name, branch).to_pylist():
            image = {{"src": "from", "dst": "to"}.get(k, k): v for k, v in row.items()}
            found[name, row["id"]] = image
    return found


def test_now_beginning_and_after(graph: Graph) -> None:
    page = graph.changes()
    assert (page.blocks, page.has_more) == ((), False)
    first = graph.branches.show("main").head_commit_id
    commit = graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}}, message="hi").commit
    for found in (graph.changes(cursor=page.cursor), graph.changes(start=f"after:{first}")):
        (block,) = found.blocks
        assert block.commit == commit
        assert block.schema_version == commit.schema_id
        assert [(c.op, c.id) for c in block.changes] == [("insert", "n1")]
        assert found.to_dict()["blocks"][0]["commit"]["message"] == "hi"
        assert graph.changes(cursor=found.cursor).blocks == ()
    assert replayed(drain(graph, graph.changes(start="beginning"))) == held(graph)
    with pytest.raises(NotFound, match="no commit, tag or branch 'x'"):
        graph.changes(start="after:x")
    with pytest.raises(InvalidArgument, match="beginning"):
        graph.changes(start="yesterday")


def test_pages_are_bounded_and_split_large_commits(graph: Graph) -> None:
    notes = [{"id": f"m{i:03}", "text": "x"} for i in range(50)]
    graph.apply({"Note": {"insert": notes}})
    pages = drain(graph, graph.changes(start="beginning", limit=7), limit=7)
    assert all(sum(len(b.changes) for b in page.blocks) <= 7 for page in pages)
    assert replayed(pages) == held(graph)
    assert not pages[1].blocks[-1].complete
    assert pages[-1].blocks[-1].complete


def test_pages_are_bounded_in_bytes(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.feed._BYTES_PER_PAGE", 5000)
    notes = [{"id": f"m{i:03}", "text": "x" * (9000 if i == 3 else 900)} for i in range(20)]
    graph.apply({"Note": {"insert": notes}})
    pages = drain(graph, graph.changes(start="beginning"))
    sizes = [[change.size for block in page.blocks for change in block.changes] for page in pages]
    assert len(pages) > 4
    assert all(sum(page[:-1]) < 5000 for page in sizes), "the last change may cross the limit"
    assert replayed(pages) == held(graph)


def test_every_block_has_the_cursor_behind_it(graph: Graph) -> None:
    for number in range(3):
        graph.apply({"Note": {"insert": [{"id": f"b{number}", "text": "x"}]}})
    page = graph.changes(start="beginning")
    for place, block in enumerate(page.blocks):
        rest = graph.changes(cursor=block.cursor)
        assert rest.blocks == page.blocks[place + 1 :]
        assert rest.cursor == page.cursor


def test_baseline_hands_over_without_a_gap(graph: Graph) -> None:
    page = graph.baseline(limit=2)
    assert page.blocks[0].baseline
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}], "delete": ["n0"]}})
    pages = drain(graph, page, limit=2)
    assert replayed(pages) == held(graph)
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 44}]}})
    pages += drain(graph, graph.changes(cursor=pages[-1].cursor))
    assert replayed(pages) == held(graph)


def test_a_baseline_of_some_kinds(graph: Graph) -> None:
    def kinds(page: FeedPage) -> set[str]:
        return {change.kind for block in page.blocks for change in block.changes}

    assert kinds(graph.baseline()) == {"node", "edge"}
    edges = graph.baseline(kinds=["edge"])
    assert kinds(edges) == {"edge"}
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}})
    assert graph.changes(cursor=edges.cursor, kinds=["edge"]).blocks == ()
    with pytest.raises(InvalidArgument, match="another filter"):
        graph.changes(cursor=edges.cursor)


def test_a_cursor_of_commits_that_a_restore_took_back(graph: Graph, tmp_path: Path) -> None:
    graph.backup(tmp_path / "backup")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}})
    ahead = graph.changes().cursor
    restore_graph(tmp_path / "backup", tmp_path / "restored")
    restored = open_graph(tmp_path / "restored")
    with pytest.raises(FeedGap, match=r"^commit \w+ is not in the history") as caught:
        restored.changes(cursor=ahead)
    assert caught.value.commit == graph.branches.show("main").head_commit_id


def test_filters_bind_the_cursor(graph: Graph) -> None:
    page = graph.changes(start="beginning", types=["Note"], ops=["insert"])
    assert [c.id for b in page.blocks for c in b.changes] == ["n0"]
    with pytest.raises(InvalidArgument, match="another filter"):
        graph.changes(cursor=page.cursor)
    with pytest.raises(NotFound, match="Nope"):
        graph.changes(types=["Nope"])
    for rubbish in ("", "x", "e30"):
        with pytest.raises(InvalidArgument, match=r"^change cursor rejected: "):
            graph.changes(cursor=rubbish)


def test_cursors_know_their_graph_and_incarnation(graph: Graph, tmp_path: Path) -> None:
    other = create_small_graph(str(tmp_path / "other.omni"))
    with pytest.raises(InvalidArgument, match="another graph"):
        other.changes(cursor=graph.changes().cursor)
    graph.branches.create("r")
    cursor = graph.changes("r").cursor
    graph.branches.delete("r")
    graph.branches.create("r")
    with pytest.raises(FeedGap, match=r"^change cursor rejected: .*baseline") as caught:
        graph.changes("r", cursor)
    assert caught.value.commit is None, "no history is missing"
    assert FeedGap.code == "feed_gap"


def test_a_merge_shows_on_the_target_as_one_block(graph: Graph) -> None:
    graph.branches.create("r")
    cursor = graph.changes().cursor
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 5}]}}, "r")
    graph.apply({"Person": {"upsert": [{"name": "zed", "age": 5}]}}, "r")
    merge = graph.merge("r").commit
    (block,) = graph.changes(cursor=cursor).blocks
    assert block.commit == merge
    assert [(c.op, c.id) for c in block.changes] == [("update", "ada"), ("insert", "zed")]


STEP = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 2), min_size=1)
SMALL = Settings(history=HistorySettings(window_low=1, window_high=2, fan_out=2, inline_ids=1))


@settings(max_examples=10)
@given(st.lists(st.tuples(st.sampled_from(("main", "x")), STEP) | st.none(), max_size=10))
def test_replayed_from_the_beginning_it_is_the_head(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = init(Path(folder) / "g", small_catalog(), settings=SMALL)
        graph.branches.create("x")
        for step in steps:
            if step is None:
                graph.merge("x", strategy="theirs")
                continue
            branch, rows = step
            there = {r["id"] for r in graph.read("Person", branch).to_pylist()}
            upserts = [{"name": n, "age": a} for n, a in rows.items() if a is not None]
            deletes = [n for n, a in rows.items() if a is None and n in there]
            graph.apply({"Person": {"upsert": upserts, "delete": deletes}}, branch)
        for branch in ("main", "x"):
            page = graph.changes(branch, start="beginning", limit=3)
            assert replayed(drain(graph, page, limit=3)) == held(graph, branch)
