"""Old versions of the manifest go as we write; what branches were made from stays readable."""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.settings.models import HistorySettings
from omnigraph_testing.graph_helpers import meanwhile, rival_of, together
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.s3_server import S3Server
from omnigraph_testing.workloads import create_small_graph, settings

KEPT = 4
SETTINGS = replace(settings(), history=HistorySettings(kept_manifest_versions=KEPT))


def write(graph: Graph, numbers: range, branch: str = "main") -> None:
    for number in numbers:
        graph.apply({"Note": {"insert": [{"id": f"{branch}{number}", "text": "x"}]}}, branch)


def files(uri: str, folder: str) -> list[Path]:
    return [p for p in (Path(uri) / "__manifest" / folder).glob("*") if p.suffix != ".json"]


def test_nothing_grows_with_the_commits(graph: Graph, uri: str) -> None:
    tended = open_graph(uri, settings=SETTINGS)
    write(tended, range(30))
    assert KEPT <= len(files(uri, "_versions")) <= 2 * KEPT + 1
    for folder in ("_transactions", "data"):
        assert files(uri, folder) == [], "the schema metadata of a version holds the state"
    assert len(content(open_graph(uri))["Note"]) == 31
    assert_at_rest(tended)


def test_a_branch_nobody_wrote_to_outlives_the_version_it_was_made_from(
    graph: Graph, uri: str
) -> None:
    tended = open_graph(uri, settings=SETTINGS)
    write(tended, range(2))
    tended.branches.create("lazy")
    wanted = content(tended, "lazy")
    write(tended, range(2, 30))
    fresh = open_graph(uri, settings=SETTINGS)
    assert content(fresh, "lazy") == wanted
    write(fresh, range(20), "lazy")
    fresh.branches.create("child", "lazy")
    write(fresh, range(20, 40), "lazy")
    again = open_graph(uri, settings=SETTINGS)
    assert len(content(again, "child")["Note"]) == len(wanted["Note"]) + 20
    assert again.verify().ok
    again.branches.delete("lazy")
    assert len(content(open_graph(uri), "child")["Note"]) == len(wanted["Note"]) + 20


def test_two_processes_trim_what_the_other_wrote(graph: Graph, uri: str) -> None:
    both = [open_graph(uri, settings=SETTINGS) for _ in range(2)]
    for number in range(30):
        write(both[number % 2], range(number, number + 1))
    assert len(files(uri, "_versions")) <= 2 * KEPT + 1
    assert_at_rest(both[0])


@pytest.mark.parametrize("rivals", [1, 5 * KEPT], ids=["one version", "so many that some went"])
@pytest.mark.parametrize("writers", [1, 3], ids=["alone", "group"])
def test_no_write_is_lost_when_others_publish_before_its_swap(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, rivals: int, writers: int
) -> None:
    """The number of a version that was trimmed is free again, so a late swap would succeed."""
    tended = open_graph(graph.uri, settings=SETTINGS)
    rival = rival_of(tended)
    meanwhile(
        monkeypatch,
        "publish.after_stage",
        lambda: [rival.apply({"Person": {"upsert": [{"name": f"r{n}"}]}}) for n in range(rivals)],
    )
    mine = [
        partial(tended.apply, {"Note": {"insert": [{"id": f"late{n}", "text": "x"}]}})
        for n in range(writers)
    ]
    receipts = together(tended, *mine)
    fresh = open_graph(graph.uri)
    found = content(fresh)
    assert {f"late{n}" for n in range(writers)} <= set(found["Note"])
    assert {f"r{n}" for n in range(rivals)} <= set(found["Person"])
    listed = [commit.graph_commit_id for commit in fresh.commits.list(limit=None)]
    assert {r.commit.graph_commit_id for r in receipts} <= set(listed)
    assert_at_rest(tended)


def test_a_compaction_is_not_lost_when_others_publish_before_its_swap(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    tended = open_graph(graph.uri, settings=SETTINGS)
    write(tended, range(5))
    rival = rival_of(tended)
    meanwhile(
        monkeypatch,
        "publish.after_stage",
        lambda: [rival.apply({"Person": {"upsert": [{"name": f"r{n}"}]}}) for n in range(20)],
    )
    tended.optimize()
    fresh = open_graph(graph.uri)
    assert len(content(fresh)["Note"]) == 6
    store, pins = fresh.engine.store, fresh.snapshot().tables.values()
    tags = [tag for pin in pins for tag in store.open_head(pin.location, None).tags.list()]
    assert tags == [], "the compacted rows were published, so no writer took them for an orphan"
    assert_at_rest(fresh)


@pytest.mark.s3
def test_it_takes_a_handful_of_requests(s3: S3Server) -> None:
    bucket = f"b{uuid.uuid4()}"
    s3.create_bucket(bucket)
    create_small_graph(f"s3://{bucket}/graph")
    tended = open_graph(f"s3://{bucket}/graph", settings=SETTINGS)
    tended.branches.create("b")
    write(tended, range(3))
    counts = []
    for number in range(3, 3 + 3 * KEPT):
        with s3.recorded() as requests:
            write(tended, range(number, number + 1))
        counts.append(len(requests))
    usual = sorted(counts)[len(counts) // 2]
    assert max(counts) - usual <= 10
    assert len(tended.engine.store.files.list("__manifest/_versions")) <= 2 * KEPT + 2
