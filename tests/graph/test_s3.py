"""What only S3 shows: endpoint variables, lost answers, and how many requests a commit takes."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from omnigraph.errors import StorageFailure
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph_testing import workloads
from omnigraph_testing.graph_helpers import together
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.s3_server import Request, S3Server, kind_of

pytestmark = pytest.mark.s3

LEASE = 0.6


@pytest.fixture
def graph(s3_uri: str) -> Graph:
    return workloads.create_small_graph(s3_uri, lease=LEASE)


def one_row(number: int | str) -> dict[str, object]:
    return {"Note": {"insert": [{"id": f"row-{number}", "text": "x"}]}}


def ids(graph: Graph) -> set[str]:
    return set(graph.read("Note", columns=["id"]).column("id").to_pylist())


# --- environment --------------------------------------------------------------------------------

VARIABLES = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"]


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_endpoint_variable_is_honoured(
    s3: S3Server, s3_uri: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv(variable, s3.endpoint)
    with s3.recorded() as requests:
        graph = init(s3_uri, workloads.small_catalog())
        graph.apply(one_row(1))
    assert ids(graph) == {"row-1"}
    places = {kind_of(r).split(" ", 1)[1] for r in requests}
    assert {"intents", "schema", "manifest version", "table data"} <= places, (
        "datasets and control files both went to the endpoint"
    )


def test_the_service_endpoint_wins(
    s3: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    assert init(s3_uri, workloads.small_catalog()).apply(one_row(1)).commit is not None


def test_a_session_token_is_sent(
    s3: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-1")
    with s3.recorded() as requests:
        init(s3_uri, workloads.small_catalog())
    assert {r.session_token for r in requests} == {"token-1"}


def test_plain_http_needs_to_be_allowed(
    s3: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with s3.recorded() as requests, pytest.raises(StorageFailure):
        init(s3_uri, workloads.small_catalog())
    assert requests == []


def test_a_missing_bucket_is_a_clear_error(s3: S3Server) -> None:
    with pytest.raises(StorageFailure) as caught:
        init("s3://no-such-bucket/g", workloads.small_catalog())
    assert "no-such-bucket" in str(caught.value) or "NoSuchBucket" in str(caught.value)


def test_two_graphs_in_one_bucket(s3: S3Server, s3_uri: str) -> None:
    """One prefix is the beginning of the other's name."""
    first = init(s3_uri, workloads.small_catalog())
    second = init(f"{s3_uri}-2", workloads.small_catalog())
    first.branches.create("only-first")
    second.apply(one_row(2))
    assert ids(first) == set()
    assert [b.name for b in second.branches.list()] == ["main"]


# --- lost answers -------------------------------------------------------------------------------


def is_version_of(folder: str):
    return lambda r: r.conditional and folder in r.key and "_versions/" in r.key


def is_intent(request: Request) -> bool:
    return request.conditional and request.key.endswith(".json") and "__recovery" in request.key


@pytest.mark.parametrize(
    "matches",
    [is_version_of("nodes/"), is_version_of("__manifest/"), is_intent],
    ids=["advance", "publish", "arm"],
)
def test_a_write_whose_answer_is_lost_is_recognised(graph: Graph, s3: S3Server, matches) -> None:
    """The client's own retry is answered with 412: that was us, not another writer."""
    with s3.answers_lost(matches) as lost:
        receipt = graph.apply(one_row(1))
    assert [r.status for r in lost] == [200]
    assert receipt.commit is not None
    assert graph.commits.list()[0] == receipt.commit
    assert ids(graph) == {"n0", "row-1"}
    assert graph.recoveries() == []
    assert_at_rest(graph)


@pytest.mark.parametrize("folder", [pytest.param("nodes/", marks=pytest.mark.slow), "__manifest/"])
def test_no_answer_at_all_is_looked_up(graph: Graph, s3: S3Server, folder: str) -> None:
    """Every retry of the conditional put is lost too; the listing still tells the truth."""
    with s3.answers_lost(is_version_of(folder), times=1000) as lost:
        receipt = graph.apply(one_row(1))
    assert len(lost) > 1
    assert receipt.commit is not None
    assert len(graph.commits.list()) == 3
    assert ids(graph) == {"n0", "row-1"}
    assert_at_rest(graph)


def test_an_intent_that_cannot_be_put_leaves_nothing(graph: Graph, s3: S3Server) -> None:
    with s3.refused(is_intent), pytest.raises(StorageFailure, match="not allowed"):
        graph.apply(one_row(1))
    assert ids(graph) == {"n0"}
    assert_at_rest(graph)
    assert graph.apply(one_row(1)).commit is not None


@pytest.mark.parametrize("folder", ["__manifest/_refs/", "/_refs/branches/b.json"])
def test_branch_creation_whose_answer_is_lost(graph: Graph, s3: S3Server, folder: str) -> None:
    with s3.answers_lost(lambda r: r.conditional and folder in r.key) as lost:
        graph.branches.create("b")
    assert len(lost) == 1
    assert [b.name for b in graph.branches.list()] == ["main", "b"]
    assert graph.apply(one_row(1), "b").commit is not None
    assert_at_rest(graph)


def test_a_listing_that_fails_is_loud(graph: Graph, s3_uri: str, s3: S3Server) -> None:
    def is_intent_listing(request: Request) -> bool:
        return request.method == "LIST" and "__recovery" in request.key

    with s3.refused(is_intent_listing):
        with pytest.raises(StorageFailure, match="listing __recovery"):
            graph.apply(one_row(1))
        with pytest.raises(StorageFailure, match="listing __recovery"):
            open_graph(s3_uri)
        assert ids(open_graph(s3_uri, read_only=True)) == {"n0"}
    assert graph.apply(one_row(1)).commit is not None
    assert_at_rest(graph)


# --- requests per commit ------------------------------------------------------------------------

# What a commit of one row to one table takes on a warm handle; docs/s3.md says what for.
ONE_ROW_COMMIT = {
    "LIST manifest version": 3,
    "PUT table data": 1,
    "PUT intents": 1,
    "LIST intents": 1,
    "LIST table version": 1,
    "PUT table transaction": 1,
    "PUT table version": 1,
    "PUT manifest version": 1,
    "DELETE intents": 1,
}
MOST_REQUESTS = sum(ONE_ROW_COMMIT.values())
ROW_OF_A_GROUP = sum(n for kind, n in ONE_ROW_COMMIT.items() if " table " in kind)


def requests_of_one_commit(graph: Graph, s3: S3Server, number: int) -> Counter[str]:
    # Two tables in turn: moto renders every version of a table for each listing.
    edits = one_row(number) if number % 2 else {"Person": {"insert": [{"name": f"p{number}"}]}}
    with s3.recorded() as requests:
        graph.apply(edits)
    assert {r.status for r in requests} <= {200, 206}, "no request is wasted on something absent"
    return Counter(kind_of(r) for r in requests)


@pytest.mark.parametrize("commits", [150, pytest.param(400, marks=pytest.mark.slow)])
def test_requests_per_commit_are_few_and_flat(graph: Graph, s3: S3Server, commits: int) -> None:
    first = requests_of_one_commit(graph, s3, 1)
    assert sum(first.values()) <= MOST_REQUESTS + 1, "one lookup until the ids are known"
    for number in range(2, 11):
        requests_of_one_commit(graph, s3, number)
    warm = requests_of_one_commit(graph, s3, 11)
    for kind, count in warm.items():
        assert count <= ONE_ROW_COMMIT.get(kind, 0), f"{kind}: {warm}"
    later = [sum(requests_of_one_commit(graph, s3, n).values()) for n in range(12, commits)]
    # Packing a history segment is one more put; every 64th version trims the manifest.
    packs = [count for count in later if count == MOST_REQUESTS + 1]
    trims = [count for count in later if count > MOST_REQUESTS + 1]
    assert len(packs) <= commits / 30, "packing is rare"
    assert len(trims) <= commits / 64, "trimming is rare"
    assert sum(later) / len(later) <= MOST_REQUESTS + 6, "both cost little per commit"
    assert max(later[-5:]) <= MOST_REQUESTS + 1


def test_a_group_takes_the_requests_of_one_commit_and_of_its_rows(
    s3: S3Server, s3_uri: str
) -> None:
    graph = workloads.create_small_graph(s3_uri, lease=60)  # no intent is renewed
    for number in range(5):
        graph.apply(one_row(number))  # until the ids are known
    with s3.recorded() as requests:
        writes = [partial(graph.apply, one_row(f"g{n}")) for n in range(8)]
        outcomes = together(graph, *writes)
    assert len({o.commit.graph_manifest_version for o in outcomes}) == 1
    assert ids(graph) >= {f"row-g{n}" for n in range(8)}
    found = Counter(kind_of(r) for r in requests)
    assert sum(found.values()) <= 8 * ROW_OF_A_GROUP + MOST_REQUESTS, found
    assert_at_rest(graph)


def test_load_and_export(graph: Graph, s3_uri: str, tmp_path: Path) -> None:
    path = tmp_path / "in.ndjson"
    path.write_text("".join(f'{{"type":"Person","data":{{"name":"p{i}"}}}}\n' for i in range(1500)))
    receipt = graph.load(path, "merge", engine="local")
    assert receipt.commit is not None
    assert receipt.commit.changes[0].file is not None, "long lists of ids go to a file"
    graph.export(tmp_path / "out.ndjson", types=["Person"])
    assert (tmp_path / "out.ndjson").read_text().count("\n") == 1502
