"""The shared cases on the local engine, with looked-up and with joined checks."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import InvalidArgument, NotFound, OmnigraphError, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.load import key_index
from omnigraph_testing.crash import start
from omnigraph_testing.graph_helpers import exported, with_parts
from omnigraph_testing.load_suite import (
    BAD_GRAPHS,
    BAD_INPUTS,
    GOOD_INPUTS,
    BadInput,
    GoodInput,
    base_graph,
    check_bad,
    check_good,
    told,
)
from omnigraph_testing.rejected_loads import (
    SKIPPED_INPUTS,
    SkippedInput,
    check_everything_at_once,
    check_limit,
    check_skipped,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Refused loads change nothing, so they can share a graph."""
    return base_graph(tmp_path_factory.mktemp("shared"))


def joining(graph: Graph) -> Graph:
    """The same graph with the checks for large inputs."""
    return with_parts(graph, loader=replace(graph.engine.loader, small_input=-1))


def streaming(graph: Graph) -> Graph:
    """The same graph, in which every load in mode append writes its rows before the checks."""
    loader = replace(graph.engine.loader, small_input=-1, most_prepared=-1)
    return with_parts(graph, loader=loader)


def ways(graph: Graph) -> dict[str, Graph]:
    """The same graph, with loads that take each way through the checks."""
    joined = joining(graph)
    return {
        "looked up": graph,
        "proven or joined": joined,
        "joined": joined,
        "streamed": streaming(graph),
    }


def data_files(graph: Graph) -> list[str]:
    """The data files of all tables."""
    files = graph.engine.store.files
    return sorted(
        f.path for kind in ("nodes", "edges") for f in files.walk(kind) if "/data/" in f.path
    )


@pytest.mark.parametrize("case", [*BAD_INPUTS, *BAD_GRAPHS], ids=lambda case: case.name[:40])
def test_bad_when_streamed(shared: Graph, tmp_path: Path, case: BadInput) -> None:
    before = data_files(shared)
    check_bad(streaming(shared), tmp_path, case, "local")
    assert data_files(shared) == before, "a refused load leaves no fragment"


@pytest.mark.parametrize("case", BAD_INPUTS, ids=lambda case: case.name[:40])
def test_bad(shared: Graph, tmp_path: Path, case: BadInput) -> None:
    check_bad(shared, tmp_path, case, "local")


@pytest.mark.parametrize("case", BAD_GRAPHS, ids=lambda case: case.name)
def test_bad_when_joined(shared: Graph, tmp_path: Path, case: BadInput) -> None:
    check_bad(joining(shared), tmp_path, case, "local")


@pytest.mark.parametrize("case", GOOD_INPUTS, ids=lambda case: case.name)
@pytest.mark.parametrize("way", ["looked up", "proven or joined", "joined", "streamed"])
def test_good(tmp_path: Path, case: GoodInput, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = base_graph(tmp_path)
    if way in ("joined", "streamed"):
        nothing_stays_in_memory(monkeypatch)
    check_good(ways(graph)[way], tmp_path, case, "local")


WAYS = ["looked up", "joined", "streamed"]


@pytest.mark.parametrize("case", SKIPPED_INPUTS, ids=lambda case: case.name)
@pytest.mark.parametrize("way", WAYS)
def test_bad_rows_are_skipped(tmp_path: Path, case: SkippedInput, way: str) -> None:
    graph = base_graph(tmp_path)
    check_skipped(ways(graph)[way], tmp_path, case, "local")


@pytest.mark.parametrize("case", SKIPPED_INPUTS[:2], ids=lambda case: case.name)
def test_more_bad_rows_than_allowed(shared: Graph, tmp_path: Path, case: SkippedInput) -> None:
    check_limit(shared, tmp_path, case, "local")


@pytest.mark.parametrize("way", WAYS)
def test_everything_is_reported_at_once(shared: Graph, tmp_path: Path, way: str) -> None:
    check_everything_at_once(ways(shared)[way], tmp_path, "local")


def nothing_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every block were larger than memory allows: rows are read again or in DuckDB."""
    monkeypatch.setattr(key_index, "_HELD_ROWS", 0)
    monkeypatch.setattr(key_index, "MANY_ROWS", 0)
    monkeypatch.setattr(key_index, "_HELD_SHARE", 1 << 60)


def refused(
    graph: Graph, data: object, error: type[OmnigraphError], place: str, **more: object
) -> None:
    before = exported(graph)
    with pytest.raises(error) as caught:
        graph.load(data, **more)  # type: ignore[arg-type]
    assert place in told(caught.value)
    assert exported(graph) == before


def test_missing_files_and_strange_arguments(shared: Graph, tmp_path: Path) -> None:
    refused(shared, tmp_path / "none.ndjson", NotFound, "none.ndjson")
    refused(shared, str(tmp_path / "*.ndjson"), NotFound, "*.ndjson")
    refused(shared, tmp_path, InvalidArgument, "holds no data file")
    refused(shared, [], InvalidArgument, "empty")
    refused(shared, 7, InvalidArgument, "int")
    refused(shared, "https://x.org/a.ndjson", InvalidArgument, "only local files")
    refused(shared, pa.table({"name": ["x"]}), InvalidArgument, "type=")
    refused(shared, pa.table({"nme": ["x"]}), InvalidArgument, "'nme'", type="Person")
    refused(shared, pa.table({"name": ["x"]}), InvalidArgument, "Nobody", type="Nobody")
    refused(shared, tmp_path, InvalidArgument, "mode", mode="upsert")
    refused(shared, tmp_path, InvalidArgument, "engine", engine="hadoop")
    (tmp_path / "in.ndjson").write_text("")
    refused(shared, tmp_path, NotFound, "no branch", branch="none")


def test_no_permission() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)  # pytest's own folders are closed to other users
        path = folder / "in.ndjson"
        path.write_text('{"type":"Person","data":{"name":"x"}}')
        path.chmod(0)
        given = {
            "uri": str(folder / "graph.omni"),
            "schema": "node Person { name: String @key }",
            "data": str(path),
        }
        code, reports, stderr = start(
            "omnigraph_testing.workloads:load_unprivileged", given
        ).finish()
    assert code == 0, stderr
    refused, left = reports
    assert refused["code"] == "invalid_argument"
    assert f"{path}: cannot be read: Permission denied" in refused["error"]
    assert left == {}


def test_parquet(shared: Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person.parquet"
    pq.write_table(pa.table({"name": ["x", "y"], "age": [1, 900]}), path)
    refused(shared, path, ValidationFailed, f"{path}:2: Person 'y': 'age'")
    pq.write_table(pa.table({"name": ["x", "y"], "age": ["1", "2"]}), path)
    refused(shared, path, ValidationFailed, f"{path}:1: Person: 'age'")
    pq.write_table(pa.table({"name": ["x", "y"], "rank": [1.0, float("nan")]}), path)
    refused(shared, path, ValidationFailed, f"{path}:2: Person")
    pq.write_table(pa.table({"name": ["x", None]}), path)
    refused(shared, path, ValidationFailed, f"{path}:2: Person")
    path.write_bytes(path.read_bytes()[:-20])
    refused(shared, path, InvalidArgument, str(path))


def test_violations_are_counted_and_in_order(shared: Graph, tmp_path: Path) -> None:
    path = tmp_path / "in.ndjson"
    lines = [f'{{"type":"Person","data":{{"name":"p{i}","age":{i - 50}}}}}' for i in range(100)]
    lines[70] = "rubbish"
    path.write_text("\n".join(lines))
    with pytest.raises(ValidationFailed) as caught:
        shared.load(path)
    assert caught.value.total == 100
    # Each of the other 49 people has no home.
    assert caught.value.counts == {"range": 50, "syntax": 1, "cardinality": 49}
    found = [v["line"] for v in caught.value.violations]
    assert found == sorted(found)
    assert caught.value.violations[0]["file"] == str(path)
