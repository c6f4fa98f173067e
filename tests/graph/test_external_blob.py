"""External blobs of an embedded graph: denied at every door, allowed below a base."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph import Graph, Settings
from omnigraph.errors import (
    ExternalBlobDenied,
    ExternalBlobUnavailable,
    InvalidArgument,
    MergeConflicts,
    OmnigraphError,
    ValidationFailed,
)
from omnigraph.settings.models import ExternalBlobSettings, external_bases
from omnigraph.values.external_blobs import external_cell
from omnigraph_testing.workloads import settings

SCHEMA = "node Person { name: String @key  photo: Blob?  age: I32? }"
BASE = "s3://pictures/people"
URI = f"{BASE}/ada.jpg"
OTHER = f"{BASE}/bob.jpg"
OUTSIDE = "s3://pictures/people-evil/ada.jpg"
INSERT = "query put($n: String, $p: Blob) { insert Person { name: $n, photo: $p } }"


def allowing(*bases: str) -> Settings:
    return settings().allowing(bases)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, settings=allowing(BASE))


def again(graph: Graph, **options: Any) -> Graph:
    return omnigraph.open(graph.uri, settings=settings(), **options)


def photos(graph: Graph, branch: str = "main") -> dict[str, Any]:
    lines = [json.loads(line) for line in exported(graph, branch).splitlines()]
    return {line["data"]["name"]: line["data"].get("photo") for line in lines}


def exported(graph: Graph, branch: str = "main") -> bytes:
    import io

    stream = io.BytesIO()
    graph.export(stream, branch)
    return stream.getvalue()


def load_csv(graph: Graph, uri: str, folder: Path) -> None:
    (folder / "Person.csv").write_text(f"name,photo\nada,{uri}\n")
    graph.load(folder / "Person.csv", "merge")


def load_parquet(graph: Graph, uri: str, folder: Path) -> None:
    table = pa.table({"name": ["ada"], "photo": pa.array([external_cell(uri)], pa.binary())})
    pq.write_table(table, folder / "Person.parquet")
    graph.load(folder / "Person.parquet", "merge")


def load_text_column(graph: Graph, uri: str, folder: Path) -> None:
    graph.load(pa.table({"name": ["ada"], "photo": [uri]}), "merge", type="Person")


def load_json_array(graph: Graph, uri: str, folder: Path) -> None:
    (folder / "rows.json").write_text(json.dumps([{"name": "ada", "photo": uri}]))
    graph.load(folder / "rows.json", "merge", type="Person")


def load_lines(graph: Graph, uri: str, folder: Path) -> None:
    line = {"type": "Person", "data": {"name": "ada", "photo": uri}}
    (folder / "people.ndjson").write_text(json.dumps(line) + "\n")
    graph.load(folder / "people.ndjson", "merge")


def load_patch(graph: Graph, uri: str, folder: Path) -> None:
    graph.load([{"name": "ada", "photo": uri}], "patch", type="Person")


def load_rows_of_bytes(graph: Graph, uri: str, folder: Path) -> None:
    graph.load([{"name": "ada", "photo": external_cell(uri)}], "merge", type="Person")


def apply_text(graph: Graph, uri: str, folder: Path) -> None:
    graph.apply({"Person": {"upsert": [{"name": "ada", "photo": uri}]}})


def apply_cell(graph: Graph, uri: str, folder: Path) -> None:
    graph.apply({"Person": {"upsert": [{"name": "ada", "photo": external_cell(uri)}]}})


def apply_table(graph: Graph, uri: str, folder: Path) -> None:
    for column in (pa.array([uri]), pa.array([external_cell(uri)], pa.large_binary())):
        graph.apply({"Person": {"upsert": pa.table({"name": ["ada"], "photo": column})}})


def insert(graph: Graph, uri: str, folder: Path) -> None:
    graph.mutate(f'insert Person {{ name: "ada", photo: "{uri}" }}')


def insert_parameter(graph: Graph, uri: str, folder: Path) -> None:
    graph.mutate(INSERT, params={"n": "ada", "p": uri})


def update(graph: Graph, uri: str, folder: Path) -> None:
    graph.mutate('insert Person { name: "ada", age: 1 }')
    graph.mutate(f'update Person set {{ photo: "{uri}" }} where name = "ada"')


def resolve(graph: Graph, uri: str, folder: Path) -> None:
    """A conflict that is decided by a value."""
    graph.mutate('insert Person { name: "ada", photo: "base64:YQ==" }')
    graph.branches.create("b")
    for branch, text in (("main", "base64:Yg=="), ("b", "base64:Yw==")):
        graph.mutate(f'update Person set {{ photo: "{text}" }} where name = "ada"', branch=branch)
    chosen = {"type_name": "Person", "entity_id": "ada", "property": "photo", "value": uri}
    graph.merge("b", resolutions=[chosen])


DOORS: list[Callable[[Graph, str, Path], None]] = [
    load_csv,
    load_parquet,
    load_text_column,
    load_json_array,
    load_lines,
    load_patch,
    load_rows_of_bytes,
    apply_text,
    apply_cell,
    apply_table,
    insert,
    insert_parameter,
    update,
    resolve,
]


@pytest.mark.parametrize("door", DOORS)
def test_every_door_allows_what_the_graph_allows(
    graph: Graph, door: Callable[[Graph, str, Path], None], tmp_path: Path
) -> None:
    if door is load_patch:
        graph.mutate('insert Person { name: "ada", age: 1 }')
    door(graph, URI, tmp_path)
    assert photos(graph) == {"ada": URI}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("bases", [(), (BASE,)])
def test_every_door_denies_the_rest(
    graph: Graph, door: Callable[[Graph, str, Path], None], bases: tuple[str, ...], tmp_path: Path
) -> None:
    handle = again(graph, external_blobs=bases)
    handle.mutate('insert Person { name: "ada", age: 1 }')
    with pytest.raises((InvalidArgument, ValidationFailed), match="does not allow"):
        door(handle, OUTSIDE if bases else URI, tmp_path)
    assert URI not in exported(graph).decode()
    assert OUTSIDE not in exported(graph).decode()


def test_a_denied_mutation_says_where_and_why(graph: Graph) -> None:
    with pytest.raises(ExternalBlobDenied) as caught:
        insert(graph, OUTSIDE, Path())
    error = caught.value
    assert (error.type, error.property, error.uri) == ("Person", "photo", OUTSIDE)
    assert "no allowed base" in (error.reason or "")


def test_a_backfill_names_no_external_blob(graph: Graph) -> None:
    graph.mutate('insert Person { name: "ada" }')
    changed = SCHEMA.replace("age: I32?", "age: I32?  scan: Blob")
    with pytest.raises(OmnigraphError, match="does not allow"):
        graph.schema.apply(changed, backfill={"Person.scan": f'"{URI}"'})
    graph.schema.apply(changed, backfill={"Person.scan": '"base64:YQ=="'})
    assert graph.blob("node", "Person", "ada", "scan").read() == b"a"


def test_an_update_of_another_property_keeps_a_blob_that_is_denied_now(graph: Graph) -> None:
    insert(graph, URI, Path())
    strict = again(graph)
    strict.mutate('update Person set { age: 3 } where name = "ada"')
    strict.load([{"name": "ada", "age": 4}], "patch", type="Person")
    assert photos(strict) == {"ada": URI}


def test_the_blob_is_a_reference(graph: Graph) -> None:
    insert(graph, URI, Path())
    found = graph.blob("node", "Person", "ada", "photo")
    assert isinstance(found, omnigraph.ExternalBlob)
    assert found.uri == URI
    assert found.to_dict() == {"uri": URI}
    assert found.graph_commit_id == graph.snapshot().graph_commit_id
    graph.mutate('insert Person { name: "bob", photo: "base64:YQ==" }')
    assert graph.blob("node", "Person", "bob", "photo").uri is None


def test_a_graph_without_the_base_gives_the_address_and_reads_nothing(
    graph: Graph, tmp_path: Path
) -> None:
    base = tmp_path / "files"
    base.mkdir()
    (base / "a b").write_bytes(b"hello")
    writer = again(graph, external_blobs=[f"file://{base}"])
    insert(writer, f"file://{base}/a%20b", Path())
    found = writer.blob("node", "Person", "ada", "photo")
    assert (found.size, found.read(), found.read(1, 3), found.read(9)) == (5, b"hello", b"ell", b"")
    denied = again(graph).blob("node", "Person", "ada", "photo")
    assert denied.uri == f"file://{base}/a%20b"
    for ask in (lambda: denied.size, denied.read):
        with pytest.raises(ExternalBlobUnavailable, match="external_blobs=") as caught:
            ask()
        assert caught.value.reason == "not_allowed"
    with pytest.raises(InvalidArgument, match="begins at 0"):
        found.read(-1)


def test_targets_that_cannot_be_read(graph: Graph, tmp_path: Path) -> None:
    base = tmp_path / "files"
    base.mkdir()
    (base / "folder").mkdir()
    writer = again(graph, external_blobs=[f"file://{base}", "http://127.0.0.1:9"])
    for name, uri, reason in (
        ("a", f"file://{base}/nothing", "not_found"),
        ("b", f"file://{base}/folder", "not_readable"),
        ("c", "http://127.0.0.1:9/x", "not_readable"),
    ):
        writer.mutate(INSERT, params={"n": name, "p": uri})
        with pytest.raises(ExternalBlobUnavailable) as caught:
            writer.blob("node", "Person", name, "photo").read()
        assert (caught.value.uri, caught.value.reason) == (uri, reason)


def test_a_link_that_appears_later_is_not_followed(graph: Graph, tmp_path: Path) -> None:
    base = tmp_path / "files"
    base.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    writer = again(graph, external_blobs=[f"file://{base}"])
    insert(writer, f"file://{base}/x", Path())
    (base / "x").symlink_to(tmp_path / "secret")
    with pytest.raises(ExternalBlobUnavailable, match="symbolic link"):
        writer.blob("node", "Person", "ada", "photo").read()


@pytest.mark.s3
def test_an_object_of_a_bucket_is_read(graph: Graph, s3_uri: str) -> None:
    import os

    from omnigraph.lance_store.objects.control_files import open_control_files
    from omnigraph.lance_store.objects.storage_location import parse_location

    files = open_control_files(parse_location(s3_uri, os.environ))
    files.put("pictures/a b.bin", b"0123456789")
    writer = again(graph, external_blobs=[f"{s3_uri}/pictures"])
    insert(writer, f"{s3_uri}/pictures/a%20b.bin", Path())
    found = writer.blob("node", "Person", "ada", "photo")
    assert (found.size, found.read(), found.read(3, 4)) == (10, b"0123456789", b"3456")
    writer.mutate(INSERT, params={"n": "bob", "p": f"{s3_uri}/pictures/none"})
    with pytest.raises(ExternalBlobUnavailable) as caught:
        _ = writer.blob("node", "Person", "bob", "photo").size
    assert caught.value.reason == "not_found"


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_exports_are_loaded_back(graph: Graph, form: str, tmp_path: Path) -> None:
    rows = [{"name": "ada", "photo": URI}, {"name": "bob", "photo": b"\x00b"}, {"name": "cy"}]
    graph.apply({"Person": {"insert": rows}})
    target = tmp_path / ("out.ndjson" if form == "ndjson" else "out")
    graph.export(target, format=form)
    copy = omnigraph.init(str(tmp_path / "copy.omni"), SCHEMA, settings=allowing(BASE))
    copy.load(target)
    assert exported(copy) == exported(graph)
    denied = omnigraph.init(str(tmp_path / "denied.omni"), SCHEMA, settings=settings())
    with pytest.raises(ValidationFailed, match="does not allow") as caught:
        denied.load(target)
    assert caught.value.total == 1


def test_rejected_rows_name_the_blob(graph: Graph, tmp_path: Path) -> None:
    rows = [{"name": "ada", "photo": URI}, {"name": "bob", "photo": OUTSIDE}]
    graph.load(rows, type="Person", on_error="skip", rejects=tmp_path / "bad.ndjson")
    assert photos(graph) == {"ada": URI}
    assert OUTSIDE in (tmp_path / "bad.ndjson").read_text()


def test_diffs_feeds_and_reverts_show_the_address(graph: Graph) -> None:
    insert(graph, "base64:YQ==", Path())
    graph.branches.create("b")
    graph.mutate(f'update Person set {{ photo: "{URI}" }} where name = "ada"', branch="b")
    (change,) = graph.diff("main", "b")
    assert change.before is not None
    assert change.after is not None
    assert (change.before["photo"], change.after["photo"]) == (b"a", URI)
    assert change.to_dict()["after"]["photo"] == URI
    done = graph.merge("b")
    assert photos(graph) == {"ada": URI}
    assert done.commit is not None
    (fed,) = graph.commits.changes(done.commit.graph_commit_id)
    assert fed.after is not None
    assert fed.after["photo"] == URI
    before = graph.blob("node", "Person", "ada", "photo", at=done.commit.parent_commit_id)
    assert (before.uri, before.read()) == (None, b"a")
    strict = again(graph)
    strict.revert(done.commit.graph_commit_id)
    assert graph.blob("node", "Person", "ada", "photo").read() == b"a"


def test_a_merge_does_not_judge_rows_that_stand(graph: Graph) -> None:
    graph.branches.create("b")
    graph.mutate(INSERT, params={"n": "ada", "p": URI}, branch="b")
    graph.mutate(INSERT, params={"n": "bob", "p": OTHER})
    strict = again(graph)
    strict.merge("b")
    assert photos(strict) == {"ada": URI, "bob": OTHER}


def test_a_conflict_shows_the_addresses(graph: Graph) -> None:
    insert(graph, URI, Path())
    graph.branches.create("b")
    for branch, uri in (("main", OTHER), ("b", f"{BASE}/cy.jpg")):
        graph.mutate(f'update Person set {{ photo: "{uri}" }} where name = "ada"', branch=branch)
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("b")
    (conflict,) = caught.value.conflicts
    assert (conflict.base, conflict.ours, conflict.theirs) == (URI, OTHER, f"{BASE}/cy.jpg")
    assert conflict.to_dict()["ours"] == OTHER
    graph.merge("b", strategy="theirs")
    assert photos(graph) == {"ada": f"{BASE}/cy.jpg"}


def test_upkeep_and_backups_keep_the_address(graph: Graph, tmp_path: Path) -> None:
    for number in range(3):
        graph.mutate(INSERT, params={"n": f"p{number}", "p": f"{BASE}/{number}"})
    wanted = exported(graph)
    graph.optimize()
    assert exported(graph) == wanted
    graph.backup(str(tmp_path / "backup"))
    copy = omnigraph.restore(str(tmp_path / "backup"), str(tmp_path / "back.omni"))
    assert copy is not None
    assert exported(omnigraph.open(str(tmp_path / "back.omni"))) == wanted


def test_a_folder_is_never_safe_for_servers() -> None:
    wrong = ExternalBlobSettings(server_safe=("file:///data",))
    with pytest.raises(InvalidArgument, match="never server-safe"):
        external_bases(wrong)


def test_a_wrong_base_is_refused_when_the_graph_is_opened(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="credentials"):
        again(graph, external_blobs=["https://user:pw@host/a"])
    assert again(graph, external_blobs=BASE) is not None
