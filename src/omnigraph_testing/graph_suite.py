"""The public behaviour of `Graph` as cases that run on a graph in a store and on one on a server.

A case gets an open graph, the name of its own branch, and an empty folder. It returns what a
caller would see. Both graphs must give the same: records, rows, and errors with their fields. Ids
and times differ between two graphs, so `Observer` numbers ids in the order of appearance.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from omnigraph.errors import OmnigraphError
from omnigraph.execute.query_types import QueryResult
from omnigraph.graph.handle import Graph
from omnigraph.manifest.records import Commit
from omnigraph.writes.shape import Edit

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  born: Date?
  seen: DateTime?
  photo: Blob?
  scores: [F64]?
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1)
"""
LINES = """
{"type": "Person", "data": {"name": "Ada", "age": 36, "born": "1815-12-10"}}
{"type": "Person", "data": {"name": "Bob", "age": 20, "seen": "2026-01-02T03:04:05Z"}}
{"type": "Person", "data": {"name": "Cleo", "scores": [1.5, 2.0], "photo": "base64:AAECAwQ="}}
{"type": "Company", "data": {"name": "Engines"}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "k1", "since": "2020-05-01"}}
{"edge": "WorksAt", "from": "Ada", "to": "Engines", "data": {"id": "w1"}}
""".strip()
EXTERNAL = "https://pictures.example.com/people"
"""A base of external blobs that the graphs of the suite allow."""
NAMES = "match { $p: Person } return { $p.name as name } order { $p.name asc }"
QUERIES = """
query by_name($name: String) {
  match { $p: Person  $p.name = $name }
  return { $p.name as name, $p.age as age, $p.born as born, $p.seen as seen, $p.scores as scores }
}
query grow($name: String, $by: I64) {
  update Person set { age: $by } where name = $name
}
"""
STORED = """
query ages($least: I64?) @description("People and ages.") @mcp(tool_name: "list_ages") {
  match { $p: Person } return { $p.name as name, $p.age as age } order { name }
}
query older($name: String, $age: I64) @instruction("One person.") {
  update Person set { age: $age } where name = $name
}
query scored($scores: [F64], $born: Date?) {
  match { $p: Person  $p.scores is not null } return { $p.name as name, $scores as scores }
}
query of_company($name: String) {
  match { $p: Person  $p worksAt $c  $c.name = $name } return { $p.name as name }
}
"""
"""Stored queries of both graphs."""

Case = Callable[[Graph, str, Path], Any]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def raised(call: Callable[[], Any]) -> Any:
    """The error of a call, as a part of what a case returns."""
    try:
        return {"no error, but": call()}
    except OmnigraphError as error:
        return error


class Observer:
    """Turns what a case returned into JSON that is equal on two graphs."""

    _ID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")
    _OWN = ("created_at", "commit_created_at", "seconds", "bytes", "graph_manifest_version")
    _OF_A_STORE = (
        "pins",
        "owner",
        "actor_id",
        "idempotency_key",
        "uri",
        "path",
        "details",
        "engine_reason",
    )

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def see(self, value: Any) -> Any:
        match value:
            case OmnigraphError():
                told = {"code": value.code, "message": self._text(value.message)}
                return {"error": type(value).__name__, **told, "fields": self.see(value.fields)}
            case QueryResult() | pa.Table() | Commit():
                return self._whole(value)
            case str():
                return self._text(value)
            case Mapping():
                return self._mapping(value)
            case list() | tuple():
                seen = [self.see(item) for item in value]
                own = getattr(value, "__dict__", {})
                return {"items": seen, **self._mapping(own)} if own else seen
            case bytes():
                return value.hex()
            case dt.date():
                return f"{type(value).__name__} {value.isoformat()}"
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
                return {"record": type(value).__name__, **self._mapping(fields)}
            case _:
                return value

    def _whole(self, value: QueryResult | pa.Table | Commit) -> Any:
        if isinstance(value, QueryResult):
            return {**self.see(value.heading()), "rows": self.see(value.to_arrow())}
        if isinstance(value, Commit):
            # The versions of datasets and the lists of ids stay on the server.
            changed = [(str(c.key), c.inserted, c.updated, c.deleted) for c in value.changes]
            return {**self._mapping(value.to_dict()), "changed": changed}
        schema = [f"{field.name}: {field.type}" for field in value.schema]
        return {"schema": schema, "rows": self.see(value.to_pylist())}

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        return {
            str(name): self.see(item)
            for name, item in value.items()
            if name not in self._OWN
            and name not in self._OF_A_STORE
            and not str(name).startswith(("_", "created_at"))
        }

    def _text(self, text: str) -> str:
        return self._ID.sub(self._number, text)

    def _number(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"<id {len(self._ids) + 1}>")


def observed(run: Case, graph: Graph, branch: str, folder: Path) -> Any:
    """What a case shows on one graph: its result, or the error that ended it."""
    try:
        found = run(graph, branch, folder)
    except OmnigraphError as error:
        found = error
    return json.loads(json.dumps(Observer().see(found), default=str))


# Reading


@case
def rows_of_a_query(graph: Graph, branch: str, _: Path) -> Any:
    found = graph.query(QUERIES, "by_name", {"name": "Ada"}, branch)
    return [found, found.target, len(found), list(found), found[0], graph.query(NAMES)]


@case
def rows_of_a_query_without_an_answer(graph: Graph, branch: str, _: Path) -> Any:
    found = graph.query(QUERIES, "by_name", {"name": "Zoe"}, branch)
    return [found, len(found), list(found), next(found.batches()).num_rows]


@case
def queries_of_the_past(graph: Graph, branch: str, _: Path) -> Any:
    before = graph.commits.list(branch, 1)[0].graph_commit_id
    graph.mutate('insert Person { name: "Dora" }', branch=branch)
    tag = graph.tags.create(f"{branch}-v1", before)
    found = [graph.query(NAMES, branch=branch, at=at) for at in (before, tag.name, "HEAD~1")]
    now = graph.query(NAMES, branch=branch, at=dt.datetime.now(dt.UTC))
    return [[[len(result), result.target] for result in found], len(now)]


@case
def a_query_file(graph: Graph, branch: str, folder: Path) -> Any:
    good, bad = folder / "good.gq", folder / "bad.gq"
    good.write_text(QUERIES)
    bad.write_text("query x() { match { $p: Persn } return { $p.name } }")
    error = raised(lambda: graph.query(bad, branch=branch))
    error.message = error.message.replace(str(bad), "bad.gq")
    return [
        graph.query(good, "by_name", {"name": "Bob"}, branch),
        type(error).__name__,
        error.message,
        [d["file"] == str(bad) for d in error.diagnostics],
    ]


@case
def wrong_queries(graph: Graph, branch: str, _: Path) -> Any:
    return [
        raised(lambda: graph.query("match { $p Person }", branch=branch)),
        raised(lambda: graph.query("match { $p: Person } return { $p.nme }", branch=branch)),
        raised(lambda: graph.query(QUERIES, "nobody", branch=branch)),
        raised(lambda: graph.query(QUERIES, "by_name", {"name": 3}, branch)),
        raised(lambda: graph.query(NAMES, branch="no-such-branch")),
        raised(lambda: graph.query(NAMES, at="no-such-tag")),
        raised(lambda: graph.query('insert Person { name: "x" }', branch=branch)),
        raised(lambda: graph.query(NAMES, engine="quantum")),
    ]


@case
def plans(graph: Graph, branch: str, _: Path) -> Any:
    plan = graph.explain(QUERIES, "by_name", {"name": "Ada"}, branch)
    profile = graph.profile(QUERIES, "by_name", {"name": "Ada"}, branch)
    rows = [op.actual_rows for op in profile.operators]
    return [plan, str(plan), profile.query_name, rows, profile.actual_rows]


@case
def entities_of_a_type(graph: Graph, branch: str, _: Path) -> Any:
    return [
        graph.read("Person", branch).sort_by("id"),
        graph.read("Knows", branch, columns=["src", "dst"]),
        graph.read("Person", branch, ids=["Bob", "nobody"], columns=["id", "age"]),
        raised(lambda: graph.read("Person", branch, columns=["ag"])),
        raised(lambda: graph.read("Persn", branch)),
        raised(lambda: graph.read("Person", branch, ids="Bob")),
    ]


@case
def blobs(graph: Graph, branch: str, _: Path) -> Any:
    found = graph.blob("node", "Person", "Cleo", "photo", branch)
    return [
        found.size,
        found.to_dict(),
        [found.read(), found.read(1, 2), found.read(3, 100), found.read(9), found.read(0, 0)],
        raised(lambda: found.read(-1)),
        raised(lambda: graph.blob("node", "Person", "Ada", "photo", branch)),
        raised(lambda: graph.blob("node", "Person", "Ada", "age", branch)),
        raised(lambda: graph.blob("edge", "Person", "Ada", "photo", branch)),
    ]


@case
def external_blobs(graph: Graph, branch: str, folder: Path) -> Any:
    """Both graphs allow this base. Here neither of them may follow it."""
    uri, outside = f"{EXTERNAL}/dora.jpg", f"{EXTERNAL}-evil/dora.jpg"
    put = 'query put($p: Blob) { insert Person { name: "Dora", photo: $p } }'
    denied = [
        raised(lambda: graph.mutate(put, params={"p": outside}, branch=branch)),
        raised(lambda: graph.load([{"name": "Dora", "photo": outside}], type="Person")),
        raised(lambda: graph.apply({"Person": {"insert": [{"name": "Dora", "photo": outside}]}})),
    ]
    graph.mutate(put, params={"p": uri}, branch=branch)
    rows = [{"name": "Eve", "photo": f"{EXTERNAL}/eve.jpg"}]
    graph.load(rows, branch=branch, type="Person")
    graph.apply({"Person": {"insert": [{"name": "Fay", "photo": uri}]}}, branch)
    graph.export(folder / "out.ndjson", branch, types=["Person"])
    found = graph.blob("node", "Person", "Dora", "photo", branch)
    changes = {c.id: c.after for c in graph.diff("main", branch)}
    return [
        denied,
        type(found).__name__,
        found.uri,
        found.to_dict(),
        [graph.blob("node", "Person", n, "photo", branch).uri for n in ("Cleo", "Eve", "Fay")],
        {name: after and after["photo"] for name, after in sorted(changes.items())},
        (folder / "out.ndjson").read_text(),
    ]


@case
def snapshots(graph: Graph, branch: str, _: Path) -> Any:
    found = graph.snapshot(branch)
    same = graph.snapshot(at=found.graph_commit_id)
    counts = {dataset.type_name: dataset.entity_count for dataset in same.datasets}
    return [
        found.graph_branch,
        counts,
        found.catalog == graph.snapshot("main").catalog,
        found.internal_schema_version == graph.format_version,
        raised(lambda: graph.snapshot("no-such-branch")),
    ]


@case
def exports(graph: Graph, branch: str, folder: Path) -> Any:
    sink = io.BytesIO()
    receipts = [
        graph.export(sink, branch),
        graph.export(folder / "all.ndjson", branch, types=["Person"]),
        graph.export(folder / "csv", branch, format="csv"),
        graph.export(folder / "parquet", branch, format="parquet", types=["Knows"]),
    ]
    files = sorted(path for path in folder.rglob("*.*") if path.suffix != ".parquet")
    return [
        receipts,
        sink.getvalue().decode(),
        {str(path.relative_to(folder)): path.read_text() for path in files if path.is_file()},
        pa.parquet.read_table(folder / "parquet" / "Knows.parquet"),
        raised(lambda: graph.export(sink, branch, types=["Persn"])),
        raised(lambda: graph.export(folder / "csv", branch, format="csv")),
        raised(lambda: graph.export(sink, branch, format="xml")),
    ]


# Writing


@case
def mutations(graph: Graph, branch: str, _: Path) -> Any:
    grown = graph.mutate(QUERIES, "grow", {"name": "Ada", "by": 40}, branch, message="birthday")
    nothing = graph.mutate(QUERIES, "grow", {"name": "nobody", "by": 1}, branch)
    found = graph.query(QUERIES, "by_name", {"name": "Ada"}, branch)
    return [grown, nothing, found, graph.commits.list(branch, 1)]


@case
def refused_mutations(graph: Graph, branch: str, _: Path) -> Any:
    head = graph.branches.show(branch).head_commit_id
    graph.mutate('insert Person { name: "Eve" }', branch=branch, if_commit=head)
    return [
        raised(lambda: graph.mutate('insert Person { nme: "Ada" }', branch=branch)),
        raised(lambda: graph.mutate('insert Knows { from: "x", to: "Ada" }', branch=branch)),
        raised(lambda: graph.mutate('insert Person { name: "F" }', branch=branch, if_commit=head)),
        raised(lambda: graph.mutate(NAMES, branch=branch)),
        raised(lambda: graph.mutate('insert Person { name: "F" }', branch="no-such-branch")),
    ]


@case
def a_mutation_with_a_key_happens_once(graph: Graph, branch: str, _: Path) -> Any:
    text = 'insert Person { name: "Key" }'
    first = graph.mutate(text, branch=branch, idempotency_key=f"{branch}-k1")
    again = graph.mutate(text, branch=branch, idempotency_key=f"{branch}-k1")
    return [
        first.repeated,
        again.repeated,
        first.commit == again.commit,
        again.affected_nodes,
        len(graph.query(NAMES, branch=branch)),
    ]


@case
def edits(graph: Graph, branch: str, _: Path) -> Any:
    people = [
        {"name": "Ada", "born": dt.date(1815, 12, 10), "photo": b"\x00\x01"},
        {"name": "Gil", "seen": dt.datetime(2026, 2, 3, tzinfo=dt.UTC)},
    ]
    table = pa.table({"name": ["Works", "More"]})
    found = graph.apply(
        {"Person": Edit(upsert=people, delete=["Bob"]), "Company": {"insert": table}},
        branch,
        message="several",
    )
    return [
        found,
        graph.read("Person", branch).sort_by("id"),
        raised(lambda: graph.apply({"Person": {"inser": []}}, branch)),
        raised(lambda: graph.apply({"Person": {"insert": [{"name": "Gil"}]}}, branch)),
        raised(lambda: graph.apply({"Persn": {"insert": [{"name": "x"}]}}, branch)),
    ]


@case
def loads_of_every_kind(graph: Graph, branch: str, folder: Path) -> Any:
    lines = folder / "more.ndjson"
    lines.write_text('{"type": "Person", "data": {"name": "L1"}}\n')
    packed = folder / "packed.ndjson.zst"
    with pa.CompressedOutputStream(str(packed), "zstd") as sink:
        sink.write(b'{"type": "Person", "data": {"name": "L2"}}\n')
    table = pa.table({"name": ["L3"], "age": pa.array([3], pa.int64())})
    pa.parquet.write_table(table.set_column(0, "name", [["L4"]]), folder / "Person.parquet")
    (folder / "Company.csv").write_text("name\nCsv\n")
    (folder / "Knows.csv").write_text("from,to,since\nL1,L2,2026-01-01\n")
    stream = io.BufferedReader(io.BytesIO(b'{"type": "Person", "data": {"name": "L6"}}\n'))
    receipts = [
        graph.load(lines, branch=branch, message="lines"),
        graph.load(packed, branch=branch),
        graph.load(table, branch=branch, type="Person"),
        graph.load(folder / "Person.parquet", branch=branch),
        graph.load([{"type": "Person", "data": {"name": "L5"}}], branch=branch),
        graph.load([{"name": "L7", "born": dt.date(2000, 1, 1)}], branch=branch, type="Person"),
        graph.load(stream, branch=branch),
        graph.load([folder / "Company.csv", folder / "Knows.csv"], branch=branch),
        graph.load(
            {"Person": [{"name": "L8"}], "Company": pa.table({"name": ["T"]})}, branch=branch
        ),
        graph.load(lines, "merge", branch=branch),
        graph.load(lines, "merge", branch=branch, dry_run=True),
        graph.load([{"full": "L9"}], branch=branch, type="Person", map={"full": "name"}),
        graph.load(lines, branch=f"{branch}-new", from_branch="main"),
    ]
    return [receipts, graph.query(NAMES, branch=branch), graph.branches.show(f"{branch}-new").name]


@case
def loads_with_a_mode_for_each_type(graph: Graph, branch: str, _: Path) -> Any:
    data = {"Person": [{"name": "Ada", "age": 37}], "Company": [{"name": "New"}]}
    modes = {"Person": "mirror", "Company": "append"}
    details = {"import": {"run": 3}}
    receipt = graph.load(data, modes, branch, scope={"Person": "age > 10"}, details=details)
    assert receipt.commit is not None
    return [
        receipt,
        receipt.commit.details["import"],
        graph.query(NAMES, branch=branch),
        raised(lambda: graph.load(data, {"Person": "merge"}, branch)),
        raised(lambda: graph.load(data, "mirror", branch, scope="age > 1")),
        raised(lambda: graph.load(data, modes, branch, scope={"Person": "agee > 1"})),
    ]


@case
def refused_loads(graph: Graph, branch: str, folder: Path) -> Any:
    bad = folder / "bad.ndjson"
    bad.write_text(
        '{"type": "Person", "data": {"name": "Ok"}}\n'
        '{"type": "Person", "data": {"name": "Old", "age": "x"}}\n'
        '{"edge": "Knows", "from": "Ada", "to": "nobody"}\n'
    )
    there = [{"type": "Person", "data": {"name": "Ada"}}]
    errors = [
        raised(lambda: graph.load(bad, branch=branch)),
        raised(lambda: graph.load(there, branch=branch)),
        raised(lambda: graph.load(folder / "missing.ndjson", branch=branch)),
        raised(lambda: graph.load(there, "replace", branch=branch)),
        raised(lambda: graph.load(there, branch="no-such-branch")),
        raised(lambda: graph.load(pa.table({"name": ["x"]}), branch=branch)),
    ]
    seen = json.dumps(Observer().see(errors))
    return json.loads(seen.replace(str(folder), "FOLDER"))


@case
def loads_that_skip(graph: Graph, branch: str, folder: Path) -> Any:
    bad = folder / "bad.ndjson"
    bad.write_text('{"type": "Person", "data": {"name": "Ok"}}\n{"type": "Person", "data": {}}\n')
    rejects, all_of_them = folder / "rejects.ndjson", folder / "all.ndjson"
    receipt = graph.load(bad, branch=branch, on_error="skip", rejects=rejects)
    raised(lambda: graph.load(bad, "merge", branch=branch, rejects=all_of_them))
    kept = [json.loads(line) for line in rejects.read_text().splitlines()]
    return [receipt, [(row["line"], row["rule"]) for row in kept], all_of_them.exists()]


@case
def a_load_that_the_caller_stops(graph: Graph, branch: str, _: Path) -> Any:
    planned: list[Any] = []

    def stop(receipt: Any) -> None:
        planned.append(receipt)
        raise InterruptedError

    try:
        graph.load([{"name": "Stopped"}], branch=branch, type="Person", before_commit=stop)
    except InterruptedError:
        planned.append("stopped")
    return [
        [r if isinstance(r, str) else (r.nodes, r.commit) for r in planned],
        len(graph.query(NAMES, branch=branch)),
    ]


# Branches, tags, commits


@case
def branches(graph: Graph, branch: str, _: Path) -> Any:
    made = graph.branches.create(f"{branch}/a", source=branch)
    renamed = graph.branches.rename(f"{branch}/a", f"{branch}/b")
    listed = [found.name for found in graph.branches.list() if found.name.startswith(branch)]
    shown = graph.branches.show(f"{branch}/b")
    graph.branches.delete(f"{branch}/b")
    return [
        *(made, renamed, listed, shown == renamed),
        raised(lambda: graph.branches.show(f"{branch}/b")),
        raised(lambda: graph.branches.delete(f"{branch}/b")),
        raised(lambda: graph.branches.create(branch)),
        raised(lambda: graph.branches.create("a//b")),
        raised(lambda: graph.branches.create("x", source="no-such-branch")),
        raised(lambda: graph.branches.delete("main")),
    ]


@case
def tags(graph: Graph, branch: str, _: Path) -> Any:
    made = graph.tags.create(f"{branch}-t", branch)
    listed = [tag for tag in graph.tags.list() if tag.name == made.name]
    graph.tags.delete(made.name)
    return [
        *(made.name, listed == [made]),
        raised(lambda: graph.tags.delete(made.name)),
        raised(lambda: graph.tags.create("bad", "no-such-commit")),
    ]


@case
def commits(graph: Graph, branch: str, _: Path) -> Any:
    for name in ("C1", "C2"):
        graph.mutate(f'insert Person {{ name: "{name}" }}', branch=branch, message=name)
    found = graph.commits.list(branch, 2)
    whole = graph.commits.list(branch, None, first_parent=True)
    changed = graph.commits.changes(found[0].graph_commit_id)
    return [
        [commit.to_dict() for commit in found],
        [(c.key.type_name, c.inserted, c.updated, c.deleted) for c in found[0].changes],
        len(whole) >= 3,
        graph.commits.show(found[1].graph_commit_id[:20], branch) == found[1],
        graph.commits.show("HEAD~1", branch) == found[1],
        graph.commits.graph(branch, 2),
        changed,
        graph.commits.schema_steps(found[0].graph_commit_id, branch),
        raised(lambda: graph.commits.show("no-such-commit")),
        raised(lambda: graph.commits.list("no-such-branch")),
        raised(lambda: graph.commits.changes(found[0].graph_commit_id, types=["Persn"])),
    ]


@case
def reverts_and_picks(graph: Graph, branch: str, _: Path) -> Any:
    other = f"{branch}-other"
    graph.branches.create(other, source=branch)
    made = graph.mutate('insert Person { name: "R" }', branch=branch).commit
    assert made is not None
    picked = graph.cherry_pick(made.graph_commit_id, onto=other, message="again")
    undone = graph.revert(made.graph_commit_id, branch)
    nothing = graph.revert(made.graph_commit_id, branch)
    return [
        picked,
        undone,
        nothing,
        len(graph.query(NAMES, branch=branch)),
        raised(lambda: graph.revert("no-such-commit", branch)),
    ]


# Merges, diffs, feeds


def _forked(graph: Graph, branch: str) -> str:
    other = f"{branch}-side"
    graph.branches.create(other, source=branch)
    graph.mutate(QUERIES, "grow", {"name": "Ada", "by": 50}, branch)
    graph.mutate(QUERIES, "grow", {"name": "Ada", "by": 60}, other)
    graph.mutate('insert Person { name: "Side", born: date("2001-02-03") }', branch=other)
    return other


@case
def merges_with_conflicts(graph: Graph, branch: str, _: Path) -> Any:
    other = _forked(graph, branch)
    preview = graph.merge(other, branch, preview=True)
    decided = [{"type_name": "Person", "entity_id": "Ada", "property": "age", "value": 55}]
    return [
        preview,
        graph.preview_merge(other, branch) == preview,
        raised(lambda: graph.merge(other, branch)),
        raised(lambda: graph.merge(other, branch, strategy="best")),
        raised(lambda: graph.merge(other, branch, resolutions=[{"type_name": "Person"}])),
        graph.merge(other, branch, resolutions=decided, delete_branch=True, message="decided"),
        graph.query(QUERIES, "by_name", {"name": "Ada"}, branch).to_pylist(),
        raised(lambda: graph.branches.show(other)),
    ]


@case
def merges_by_strategy(graph: Graph, branch: str, folder: Path) -> Any:
    other = _forked(graph, branch)
    file = folder / "decisions.yaml"
    file.write_text("- {type_name: Person, entity_id: Ada, take: theirs}\n")
    merged = graph.merge(other, branch, resolutions=file)
    again = graph.merge(other, branch, strategy="theirs")
    return [
        merged,
        again,
        graph.query(QUERIES, "by_name", {"name": "Ada"}, branch),
        raised(lambda: graph.merge("no-such-branch", branch)),
    ]


@case
def diffs(graph: Graph, branch: str, _: Path) -> Any:
    other = _forked(graph, branch)
    whole = graph.diff(branch, other)
    first = graph.diff(branch, other, limit=1)
    rest = graph.diff(branch, other, limit=5, cursor=first.next_cursor)
    return [
        whole,
        first.next_cursor is not None,
        [*first, *rest] == whole,
        graph.diff(base=branch, branch=other),
        graph.diff(branch, other, types=["Knows"], kinds=["edge"], ops=["delete"]),
        raised(lambda: graph.diff(branch)),
        raised(lambda: graph.diff(branch, other, types=["Persn"])),
        raised(lambda: graph.diff(branch, other, kinds=["vertex"])),
        raised(lambda: graph.diff(branch, other, limit=0)),
    ]


@case
def feeds(graph: Graph, branch: str, _: Path) -> Any:
    now = graph.changes(branch)
    graph.mutate(
        'insert Person { name: "F1", seen: datetime("2026-01-01T00:00:00Z") }', branch=branch
    )
    graph.mutate('delete Person where name = "Bob"', branch=branch)
    page = graph.changes(branch, now.cursor)
    small = graph.changes(branch, now.cursor, limit=1)
    rest = graph.changes(branch, small.cursor)
    filtered = graph.changes(branch, start="beginning", types=["Knows"])
    return [
        [now.blocks, now.has_more],
        [
            [block.commit.operation, block.complete, block.baseline, block.changes]
            for block in page.blocks
        ],
        [small.has_more, [len(block.changes) for block in (*small.blocks, *rest.blocks)]],
        [[change.id for change in block.changes] for block in filtered.blocks],
        graph.changes(branch, page.cursor).blocks,
        raised(lambda: graph.changes(branch, "no-cursor")),
        raised(lambda: graph.changes(branch, page.cursor, types=["Knows"])),
        raised(lambda: graph.changes(branch, start="soon")),
        raised(lambda: graph.changes("main", page.cursor)),
    ]


@case
def baselines(graph: Graph, branch: str, _: Path) -> Any:
    page = graph.baseline(branch, types=["Person"], limit=2)
    seen = [change.id for block in page.blocks for change in block.changes]
    rest = graph.changes(branch, page.cursor, types=["Person"])
    more = [change.id for block in rest.blocks for change in block.changes]
    return [page.has_more, seen, more, [block.baseline for block in (*page.blocks, *rest.blocks)]]


# Schema


@case
def schemas(graph: Graph, branch: str, folder: Path) -> Any:
    wider = SCHEMA.replace("age: I64?", "age: I64?\n  city: String?")
    file = folder / "people.pg"
    file.write_text(wider)
    before = graph.branches.show(branch).head_commit_id
    plan = graph.schema.plan(file, branch=branch, queries=[QUERIES])
    result = graph.schema.apply(file, branch=branch, message="cities")
    again = graph.schema.apply(wider, branch=branch)
    history = graph.schema.history(branch, 1)
    return [
        [plan.steps, plan.supported, str(plan), plan.cost, plan.granted],
        [result.applied, result.commit, result.plan.steps, again.applied],
        graph.schema.show(branch).source == wider,
        graph.schema.show(branch, at=before).source == SCHEMA,
        [version.steps for version in history],
        graph.schema.diff(before, branch).steps,
        len(graph.commits.schema_steps(branch, branch)),
    ]


@case
def refused_schemas(graph: Graph, branch: str, folder: Path) -> Any:
    file = folder / "broken.pg"
    file.write_text("node Person { name: Strin }")
    narrower = SCHEMA.replace("  age: I64?\n", "")
    saved = graph.schema.plan(narrower, branch=branch, allow_data_loss=True)
    broken = raised(lambda: graph.schema.apply(file, branch=branch))
    return [
        raised(lambda: graph.schema.apply(narrower, branch=branch)),
        [type(broken).__name__, [d["file"] == str(file) for d in broken.diagnostics]],
        raised(lambda: graph.schema.apply(branch=branch)),
        raised(lambda: graph.schema.plan(SCHEMA, branch=branch, severity={"OG-XX-1": "off"})),
        raised(lambda: graph.schema.apply(plan=saved, branch="main")),
        graph.schema.apply(plan=saved, branch=branch).applied,
        raised(lambda: graph.schema.show("no-such-branch")),
    ]


# Upkeep


@case
def upkeep(graph: Graph, branch: str, _: Path) -> Any:
    indexes = graph.index_status(branch)
    status = next(found for found in graph.status().branches if found.name == branch)
    report = graph.cleanup(keep=1_000_000)
    return [
        [(index.type_name, index.property, index.kind) for index in indexes],
        [(table.type_name, table.entity_count) for table in status.tables],
        [report.confirmed, type(report.removals).__name__],
        graph.optimize(branch, ["Person"]),
        graph.ensure_indices(branch),
        graph.verify(1).ok,
        [type(audit).__name__ for audit in graph.recoveries()],
        raised(lambda: graph.cleanup(keep=-1)),
        raised(lambda: graph.cleanup(older_than="soon")),
        raised(lambda: graph.optimize("no-such-branch")),
    ]


@case
def stored_queries_are_listed_and_run(graph: Graph, branch: str, _: Path) -> Any:
    run = graph.queries.run
    return [
        graph.queries.list(),
        graph.queries.list(branch),
        graph.queries.validate(branch),
        run("ages", branch=branch),
        run("ages", {"least": "9007199254740993"}, branch, at="HEAD", timeout=20),
        run("older", {"name": "Bob", "age": 21}, branch, message="birthday"),
        run("older", {"name": "Nobody", "age": 1}, branch, expect_mutation=True),
        run("ages", {}, branch, at="HEAD~1", expect_mutation=False),
        run("scored", {"scores": [1.5, 2.0], "born": dt.date(2020, 1, 1)}, branch),
    ]


@case
def stored_queries_refuse_what_does_not_fit(graph: Graph, branch: str, _: Path) -> Any:
    run = graph.queries.run
    head = graph.branches.show(branch).head_commit_id
    wrong: list[Callable[[], Any]] = [
        lambda: run("absent"),
        lambda: run("ages", branch="absent"),
        lambda: run("ages", {"more": 1}),
        lambda: run("older", {"name": "Bob"}),
        lambda: run("older", {"name": "Bob", "age": "old"}),
        lambda: run("older", {"name": "Bob", "age": 1}, branch, at=head),
        lambda: run("ages", branch=branch, if_commit=head),
        lambda: run("ages", branch=branch, message="hm"),
        lambda: run("ages", branch=branch, expect_mutation=True),
        lambda: run("older", {"name": "Bob", "age": 1}, branch, expect_mutation=False),
        lambda: run(
            "older", {"name": "Bob", "age": 1}, branch, if_commit="01J00000000000000000000000"
        ),
    ]
    return [raised(call) for call in wrong] + [graph.branches.show(branch).head_commit_id == head]


@case
def a_stored_mutation_with_a_key_is_made_once(graph: Graph, branch: str, _: Path) -> Any:
    head = graph.branches.show(branch).head_commit_id
    bob = {"name": "Bob", "age": 33}
    first = graph.queries.run("older", bob, branch, if_commit=head, idempotency_key="k-33")
    again = graph.queries.run("older", bob, branch, if_commit=head, idempotency_key="k-33")
    other = {"name": "Bob", "age": 34}
    taken = raised(lambda: graph.queries.run("older", other, branch, idempotency_key="k-33"))
    return [first, again, taken, len(graph.commits.list(branch))]


@case
def a_schema_plan_names_stored_queries_that_break(graph: Graph, branch: str, _: Path) -> Any:
    without = SCHEMA.replace("node Company { name: String @key }\n", "")
    without = without.replace("edge WorksAt: Person -> Company @card(0..1)\n", "")
    plan = graph.schema.plan(without, branch=branch, allow_data_loss=True)
    return [(query.name, query.line, query.message) for query in plan.stored_queries]


@case
def a_stored_query_that_the_schema_left_behind_says_so(graph: Graph, branch: str, _: Path) -> Any:
    without = SCHEMA.replace("  scores: [F64]?\n", "")
    graph.schema.apply(without, branch=branch, allow_data_loss=True)
    return [
        [query.name for query in graph.queries.list(branch)],
        [query.name for query in graph.queries.list()],
        [(b.query, b.line, b.message) for b in graph.queries.validate(branch).breakages],
        raised(lambda: graph.queries.run("scored", {"scores": [1.5]}, branch)),
    ]
