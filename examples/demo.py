"""`make demo`: a graph on disk, its branches, its history, and a writer that gets killed."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import omnigraph
from omnigraph import Edit
from omnigraph.testing.crash import start

SCHEMA = """
node Person { name: String @key  age: I32? }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
"""
BEST_KNOWN = """
query best_known() {
  match { $p: Person  $p knows $f }
  return { $f.name, count($p) as known_by }
  order { known_by desc }  limit 3
}
"""
REACH = """
query reach($name: String) {
  match { $p: Person { name: $name }  $p knows{1,3} $f }
  return { count($f) as n }
}
"""
PEOPLE, FRIENDSHIPS = 100_000, 300_000


@contextmanager
def step(title: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"  {title}: {(time.perf_counter() - began) * 1000:,.0f} ms")


def people() -> pa.Table:
    chance = random.Random(1)
    names = [f"person-{n}" for n in range(PEOPLE)]
    return pa.table({"name": names, "age": [chance.randrange(90) for _ in names]})


def friendships() -> pa.Table:
    chance = random.Random(2)
    ends = [[f"person-{chance.randrange(PEOPLE)}" for _ in range(FRIENDSHIPS)] for _ in range(2)]
    ids = [f"knows-{n}" for n in range(FRIENDSHIPS)]
    return pa.table({"id": ids, "from": ends[0], "to": ends[1]})


def main() -> None:
    uri = str(Path(tempfile.mkdtemp(prefix="omnigraph-demo-")) / "people.omni")
    print(f"A graph at {uri}")
    graph = omnigraph.init(uri, SCHEMA, actor="demo")
    loaded = load(graph)
    ask(graph)
    branch(graph)
    look_back(graph, loaded)
    survive_a_crash(graph, uri)
    print("\nThe last commits of main")
    for commit in graph.commits.list(limit=4):
        print(
            f"    {commit.graph_commit_id}  {commit.operation:9} "
            f"{commit.actor_id or '-':18} {commit.message or ''}"
        )
    print("\nThe graph stays where it is; look around: ls", uri)


def load(graph: omnigraph.Graph) -> str:
    edits = {"Person": Edit(insert=people()), "Knows": Edit(insert=friendships())}
    with step(f"one commit with {PEOPLE:,} people and {FRIENDSHIPS:,} friendships"):
        receipt = graph.apply(edits, message="first load")
    assert receipt.commit is not None
    return receipt.commit.graph_commit_id


def ask(graph: omnigraph.Graph) -> None:
    print("\nQueries: the best known people, and how far one of them reaches")
    for again in ("", ", again"):
        with step(f"count friends of everybody{again}"):
            best = graph.query(BEST_KNOWN).to_pylist()
    print(f"    {[(row['f.name'], row['known_by']) for row in best]}")
    name = best[0]["f.name"]
    with step("reach within three hops"):
        reach = graph.query(REACH, params={"name": name}).to_pylist()[0]["n"]
    print(f"    {name} reaches {reach} people")


def branch(graph: omnigraph.Graph) -> None:
    print("\nA branch for review; main does not move")
    with step("create branch review/ages (no data is copied)"):
        graph.branches.create("review/ages")
    with step("change two people on it"):
        birthday = [{"name": "person-1", "age": 91}, {"name": "person-2", "age": 92}]
        graph.apply({"Person": Edit(upsert=birthday)}, "review/ages", message="birthdays")
    with step("read both"):
        for name in ("main", "review/ages"):
            rows = graph.read("Person", name, ids=["person-1", "person-2"]).to_pylist()
            print(f"    {name:12} {[(r['name'], r['age']) for r in rows]}")


def look_back(graph: omnigraph.Graph, loaded: str) -> None:
    print("\nHistory: delete somebody on main, then read the past")
    with step("delete person-3"):
        graph.apply({"Person": Edit(delete=["person-3"])}, message="goodbye")
    now = graph.read("Person", ids=["person-3"]).num_rows
    then = graph.read("Person", at=loaded, ids=["person-3"]).num_rows
    print(f"    person-3 now: {now} row, at commit {loaded}: {then} row")


def survive_a_crash(graph: omnigraph.Graph, uri: str) -> None:
    print("\nA writer process is killed between two tables; the next writer repairs and goes on")
    child = start(
        "omnigraph.testing.workloads:endless_writer",
        {"uri": uri, "name": "victim", "seed": 1},
        failpoints="commit.after_advance_first=kill@20",
    )
    code, reports, _ = child.finish()
    assert code == -signal.SIGKILL
    print(f"    killed after {len(reports) - 1} acknowledged commits")
    with step("next write, recovery included"):
        graph.apply({"Note": Edit(insert=[{"text": "still here"}])}, message="after the crash")
    for audit in graph.recoveries():
        print(f"    recovery: {audit.recovery_kind} {dict(audit.tables)}")
    acknowledged = {marker for marker, *_ in reports[1:]}
    present = set(graph.read("Note").column("id").to_pylist())
    print(f"    acknowledged notes lost: {len(acknowledged - present)}")


if __name__ == "__main__":
    main()
