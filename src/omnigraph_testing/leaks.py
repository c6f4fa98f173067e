"""Graphs full of canaries, random rules about them, and every operation that could tell a canary.

Every stored value is a canary: a text or number that occurs once. A canary that the rules show in
no state is *silent*: no answer, file or error may have it. The model here is made of dicts and
knows nothing of scopes in the product.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph
from omnigraph import Edit
from omnigraph.errors import ExternalBlobUnavailable, OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.values.blob_values import blob_value

_EXTERNAL = "s3://canaries"

SCHEMA = """
node Person {
  name: String @key
  dept: String
  salary: I64?
  email: String? @unique
  photo: Blob?
}
node Vault {
  serial: String @key
  dept: String
  worth: I64?
}
edge Knows: Person -> Person { met: I64?  memo: String? }
edge Guards: Person -> Vault { shift: String?  post: I64? }
"""
LATER_SCHEMA = SCHEMA.replace("worth: I64?", "worth: I64?\n  lock: String?")

NODES = ("Person", "Vault")
ENDS = {"Knows": ("Person", "Person"), "Guards": ("Person", "Vault")}
TYPES = (*NODES, *ENDS)
PROPERTIES = {
    "Person": ("name", "dept", "salary", "email", "photo"),
    "Vault": ("serial", "dept", "worth"),
    "Knows": ("met", "memo"),
    "Guards": ("shift", "post"),
}
MAY_HIDE = {
    "Person": ("salary", "email", "photo"),
    "Vault": ("worth",),
    "Knows": ("memo",),
    "Guards": ("shift",),
}
DEPARTMENTS = ("north", "south", "east")
READER = "reader"
_DEEPEST = 6

Row = Mapping[str, Any]
State = Mapping[str, Mapping[str, Row]]
"""Type -> id -> the whole row."""


@dataclass(frozen=True)
class LeakRules:
    """What an actor sees: types, hidden properties, and departments of nodes."""

    types: tuple[str, ...]
    hidden: Mapping[str, frozenset[str]]
    departments: Mapping[str, str]
    """Node type -> the only department whose entities are visible."""
    met_after: int | None = None
    """Only such edges of Knows are visible."""

    @staticmethod
    def random(chance: random.Random) -> LeakRules:
        nodes = ["Person", *(["Vault"] if chance.random() < 0.6 else [])]
        edges = [e for e, ends in ENDS.items() if {*ends} <= {*nodes} and chance.random() < 0.8]
        types = (*nodes, *edges)
        hidden = {
            name: frozenset(p for p in MAY_HIDE[name] if chance.random() < 0.4) for name in types
        }
        ruled = [name for name in nodes if chance.random() < 0.7]
        departments = {name: chance.choice(DEPARTMENTS) for name in ruled}
        met = 900_000_000 + chance.randrange(120) if chance.random() < 0.4 else None
        return LeakRules(types, hidden, departments, met if "Knows" in types else None)

    def yaml(self) -> str:
        """The rules as a policy file."""
        shown = {
            name: [p for p in PROPERTIES[name] if p not in self.hidden[name]]
            for name in self.types
            if self.hidden[name]
        }
        lines = [
            "version: 1",
            f"groups: {{readers: [{READER}]}}",
            "rules:",
            "  - id: part",
            "    allow:",
            "      actors: {group: readers}",
            "      actions: [read, export, change]",
            f"      types: [{', '.join(self.types)}]",
        ]
        if shown:
            listed = ", ".join(f"{name}: [{', '.join(names)}]" for name, names in shown.items())
            lines.append(f"      properties: {{{listed}}}")
        where = [f"{t}: 'dept = \"{d}\"'" for t, d in self.departments.items()]
        where += [] if self.met_after is None else [f"Knows: 'met > {self.met_after}'"]
        if where:
            lines.append(f"      where: {{{', '.join(where)}}}")
        lines += [
            "  - id: branches",
            "    allow:",
            "      actors: {group: readers}",
            "      actions: [branch_create, branch_delete, branch_merge, schema_apply]",
            "  - id: queries",
            "    allow: {actors: {group: readers}, actions: [invoke_query]}",
        ]
        return "\n".join(lines) + "\n"

    def shows_row(self, name: str, row: Row) -> bool:
        """Whether the rule about the rows of a type shows this one."""
        if name == "Knows" and self.met_after is not None:
            return row["met"] is not None and row["met"] > self.met_after
        wanted = self.departments.get(name)
        return wanted is None or row["dept"] == wanted

    def visible(self, state: State) -> dict[str, dict[str, dict[str, Any]]]:
        """The part of a state that the rules show, without hidden properties."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for name in (n for n in NODES if n in self.types):
            found[name] = {
                i: self._shown(name, row)
                for i, row in state[name].items()
                if self.shows_row(name, row)
            }
        for name in (n for n in ENDS if n in self.types):
            source, target = ENDS[name]
            found[name] = {
                i: self._shown(name, row)
                for i, row in state[name].items()
                if row["src"] in found[source] and row["dst"] in found[target]
                if self.shows_row(name, row)
            }
        return found

    def _shown(self, name: str, row: Row) -> dict[str, Any]:
        return {k: v for k, v in row.items() if k not in self.hidden[name]}

    @property
    def silent_names(self) -> set[str]:
        """Names of types and properties that the actor must not read."""
        hidden = {p for name in self.types for p in self.hidden[name]}
        other = {p for name in TYPES if name not in self.types for p in PROPERTIES[name]}
        told = {p for name in self.types for p in PROPERTIES[name] if p not in self.hidden[name]}
        return ({*TYPES} - {*self.types}) | ((hidden | other) - told)


def canaries(states: Iterable[State]) -> set[str]:
    """The texts and numbers of all rows, apart from departments, which many rows share."""
    found = set()
    for state in states:
        for rows in state.values():
            for row in rows.values():
                for value in row.values():
                    shown = blob_value(value) if isinstance(value, bytes) else value
                    text = shown.decode() if isinstance(shown, bytes) else str(shown)
                    text = text.removeprefix(f"{_EXTERNAL}/")
                    if re.fullmatch(r"q\d{6}z|9\d{8}", text):
                        found.add(text)
    return found


def without_new(row: Row) -> Row:
    """Without the property that the later schema adds, which has no values."""
    return {name: value for name, value in row.items() if name != "lock"}


def state_of(graph: Graph, branch: str = "main", at: str | None = None) -> State:
    """All rows of a state, read without rules."""
    known = {e.name for e in graph.snapshot(branch, at=at).catalog.entity_types()}
    return {
        name: {row["id"]: without_new(row) for row in graph.read(name, branch, at=at).to_pylist()}
        if name in known
        else {}
        for name in TYPES
    }


@dataclass
class CanaryGraph:
    """A graph with a history of random commits, and the state that each of them left."""

    whole: Graph
    chance: random.Random
    states: dict[str, State] = field(default_factory=dict)
    """Commit on main -> its state, in the order of the commits."""
    side: str = ""
    """A commit on the branch `side`, which is not merged; each of its changes is a conflict."""
    _next: int = 0

    @staticmethod
    def create(path: Path, chance: random.Random, commits: int = 5) -> CanaryGraph:
        settings = omnigraph.Settings().allowing([_EXTERNAL])
        whole = omnigraph.init(path, schema=SCHEMA, actor="root", settings=settings)
        graph = CanaryGraph(whole, chance)
        graph.note()
        for number in range(commits):
            graph.change()
            if number == commits // 2:
                graph.whole.schema.apply(LATER_SCHEMA)
                graph.note()
                graph.whole.tags.create("middle")
        whole.branches.create("side")
        name = chance.choice(sorted(graph.last["Person"]))
        vault, edge = (chance.choice(sorted(graph.last[t])) for t in ("Vault", "Knows"))

        def clash(branch: str) -> str:
            """A commit that changes the same properties on both branches."""
            commit = whole.mutate(
                f"""query clash() {{
                  update Person set {{ email: "{graph.text()}" }} where name = "{name}"
                  update Vault set {{ worth: {graph.number()} }} where serial = "{vault}"
                  update Knows set {{ memo: "{graph.text()}" }} where id = "{edge}"
                }}""",
                branch=branch,
            ).commit
            assert commit is not None
            return commit.graph_commit_id

        graph.side = clash("side")
        clash("main")
        graph.note()
        return graph

    @property
    def last(self) -> State:
        return [*self.states.values()][-1]

    @property
    def all_states(self) -> list[State]:
        return [*self.states.values(), state_of(self.whole, "side")]

    def text(self) -> str:
        self._next += 1
        return f"q{self._next:06d}z"

    def number(self) -> int:
        self._next += 1
        return 900_000_000 + self._next

    def note(self) -> None:
        commit = self.whole.commits.list(limit=1)[0].graph_commit_id
        self.states[commit] = state_of(self.whole)

    def person(self, name: str | None = None) -> dict[str, Any]:
        return {
            "name": name or self.text(),
            "dept": self.chance.choice(DEPARTMENTS),
            "salary": self.number(),
            "email": self.text(),
            "photo": self.photo(),
        }

    def photo(self) -> bytes | str:
        """Bytes, or the address of an external blob."""
        name = self.text()
        return name.encode() if self.chance.random() < 0.5 else f"{_EXTERNAL}/{name}"

    def change(self) -> None:
        """One commit: new entities, changed ones and deleted ones."""
        chance, last = self.chance, self.last
        people, vaults = sorted(last["Person"]), sorted(last["Vault"])
        new_people = [self.person() for _ in range(3)]
        moved = [self.person(name) for name in chance.sample(people, min(2, len(people)))]
        gone = [p for p in chance.sample(people, min(1, len(people))) if len(people) > 3]
        moved = [row for row in moved if row["name"] not in gone]
        new_vaults = [
            {"serial": self.text(), "dept": chance.choice(DEPARTMENTS), "worth": self.number()}
            for _ in range(2)
        ]
        there = [*(p["name"] for p in new_people), *(p for p in people if p not in gone)]
        safes = [*(v["serial"] for v in new_vaults), *vaults]
        knows = [
            {
                "id": self.text(),
                "from": chance.choice(there),
                "to": chance.choice(there),
                "met": self.number(),
                "memo": self.text(),
            }
            for _ in range(4)
        ]
        guards = [
            {"id": self.text(), "from": a, "to": chance.choice(safes), "shift": self.text()}
            for a in chance.sample(there, 2)
        ]
        self.whole.apply(
            {
                "Person": Edit(insert=new_people, upsert=moved, delete=gone),
                "Vault": Edit(insert=new_vaults),
                "Knows": Edit(insert=knows),
                "Guards": Edit(insert=guards),
            }
        )
        self.note()


# What an answer tells


def told(value: object) -> str:
    """Everything that a result shows, as one text."""
    return "\n".join(_told(value, 0))


def _told(value: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST or isinstance(value, Graph):
        return
    if isinstance(value, Path):
        yield from _told_by_files(value)
    elif isinstance(value, OmnigraphError):
        yield f"{value!r} {value} {value.to_dict()}"
    elif isinstance(value, pa.Table):
        yield f"{value.schema} {value.to_pylist()}"
    else:
        yield repr(value)
        for part in _parts(value):
            yield from _told(part, depth + 1)


def _parts(value: object) -> Iterator[object]:
    """What is inside a value."""
    if isinstance(value, str | bytes | int | float | None):
        return
    if isinstance(value, Mapping):
        yield from value.items()
        return
    for name in ("to_dict", "to_pylist", "read"):
        method = getattr(value, name, None)
        if callable(method):
            try:
                yield method()
            except ExternalBlobUnavailable as error:
                yield error.message
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, f.name) for f in dataclasses.fields(value) if f.repr)
    if isinstance(value, Iterable):
        yield from value


def _told_by_files(place: Path) -> Iterator[str]:
    for file in [place] if place.is_file() else sorted(place.rglob("*")):
        if file.is_file():
            yield file.name
            yield _file_text(file)


def _file_text(file: Path) -> str:
    if file.suffix == ".parquet":
        return str(pq.read_table(file).to_pylist())
    return file.read_bytes().decode(errors="replace")


def leaked(text: str, silent: Collection[str]) -> set[str]:
    """The silent words that a text has."""
    return {word for word in set(re.findall(r"\w+", text)) if word in silent}


# Every operation


@dataclass(frozen=True)
class Probe:
    """One call, and the words that the caller itself says in it."""

    run: Callable[[], object]
    said: tuple[str, ...] = ()


@dataclass
class LeakContext:
    """What the operations are called with."""

    graph: Graph
    canaries: CanaryGraph
    folder: Path
    calls: int = 0

    @property
    def commits(self) -> list[str]:
        return list(self.canaries.states)

    @property
    def ids(self) -> dict[str, list[str]]:
        """Ids of every type in any state."""
        states = self.canaries.states.values()
        return {n: sorted({i for state in states for i in state[n]}) for n in TYPES}

    def file(self) -> Path:
        self.calls += 1
        return self.folder / f"file{self.calls}"

    def new_name(self) -> str:
        self.calls += 1
        return f"mine{self.calls}"


Probes = Callable[[LeakContext], Iterable[Probe]]


def _reads(c: LeakContext) -> Iterator[Probe]:
    g = c.graph
    for name in (*TYPES, "Vaul", "Persn"):
        yield Probe(partial(g.read, name), (name,))
        yield Probe(partial(g.read, name, at="middle"), (name,))
    for name in TYPES:
        ids = c.ids[name]
        yield Probe(partial(g.read, name, ids=ids), (name,))
        for column in (*PROPERTIES[name], "salry", "wort"):
            yield Probe(partial(g.read, name, columns=["id", column]), (name, column))


def _blobs(c: LeakContext) -> Iterator[Probe]:
    g = c.graph
    for entity in [*c.ids["Person"], "absent"]:
        said = ("Person", "photo", entity)
        yield Probe(partial(g.blob, "node", "Person", entity, "photo"), said)
    yield Probe(lambda: g.blob("node", "Person", "absent", "phot"), ("Person", "phot"))
    yield Probe(lambda: g.blob("node", "Vault", "absent", "x"), ("Vault",))


QUERIES = (
    "match { $p: Person } return { $p }",
    "match { $p: Person $p knows $q } return { $p.name, $q.name }",
    "match { $p: Person $p $k: knows $q } return { $k, count($q) as n }",
    "match { $p: Person $p guards $v } return { $p.name, $v }",
    "match { $v: Vault } return { max($v.worth) as w, count($v) as n }",
    "match { $p: Person } return { sum($p.salary) as s, min($p.email) as e }",
    "match { $p: Person } return { $p.salary } order { $p.salary desc } limit 1",
    'match { $p: Person $p.email > "q" } return { count($p) as n }',
    "match { $p: Persn } return { $p }",
    "match { $p: Person } return { $p.salry, $p.emai }",
)


def _queries(method: str) -> Probes:
    def probes(c: LeakContext) -> Iterator[Probe]:
        run = getattr(c.graph, method)
        for text in QUERIES:
            said = tuple(re.findall(r"\w+", text))
            said += tuple(word.capitalize() for word in said)
            yield Probe(partial(run, text), said)
        for commit in c.commits:
            yield Probe(partial(run, QUERIES[0], at=commit), ("Person",))

    return probes


def _kept_answers(c: LeakContext) -> Iterator[Probe]:
    for text in QUERIES[:6]:
        with suppress(OmnigraphError):
            c.canaries.whole.query(text).to_pylist()
        said = tuple(re.findall(r"\w+", text))
        said += tuple(word.capitalize() for word in said)
        yield Probe(partial(c.graph.kept_answer, text), said)


def _exports(c: LeakContext) -> Iterator[Probe]:
    for form in ("ndjson", "csv", "parquet"):
        target = c.file()

        def export(to: Path = target, form: str = form) -> object:
            return c.graph.export(to, format=form), to

        yield Probe(export)
    for commit in c.commits:
        target = c.file()

        def older(to: Path = target, at: str = commit) -> object:
            return c.graph.export(to, at=at), to

        yield Probe(older)
    yield Probe(lambda: c.graph.export(c.file(), types=["Vault"]), ("Vault",))


def _differences(c: LeakContext) -> Iterator[Probe]:
    g = c.graph
    for a, b in zip(c.commits, c.commits[1:], strict=False):
        yield Probe(partial(g.diff, a, b))
    yield Probe(lambda: g.diff(c.commits[0], "main"))
    yield Probe(lambda: g.diff("main", c.commits[0]))
    yield Probe(lambda: g.diff(base="main", branch="side"))
    foreign = c.canaries.whole.diff(c.commits[0], "main", limit=3).next_cursor
    yield Probe(lambda: g.diff(cursor=foreign))
    yield Probe(lambda: g.diff(c.commits[0], "main", types=["Vault"]), ("Vault",))


def _feeds(c: LeakContext) -> Iterator[Probe]:
    g, whole = c.graph, c.canaries.whole
    yield Probe(lambda: g.changes(start="beginning"))
    yield Probe(lambda: g.changes("side", start="beginning"))
    yield Probe(lambda: g.changes(types=["Vault"]), ("Vault",))
    page = whole.baseline(limit=3)
    yield Probe(lambda: g.changes(cursor=page.cursor))
    yield Probe(lambda: g.changes(cursor=whole.changes().cursor))

    def by_pages() -> object:
        found, page = [], g.changes(start="beginning", limit=2)
        found.append(page)
        while page.has_more:
            page = g.changes(cursor=page.cursor, limit=2)
            found.append(page)
        return found

    yield Probe(by_pages)


def _baselines(c: LeakContext) -> Iterator[Probe]:
    yield Probe(lambda: c.graph.baseline())
    yield Probe(lambda: c.graph.baseline(types=["Person"]), ("Person",))
    yield Probe(lambda: c.graph.baseline("side"))

    def rest() -> object:
        first = c.graph.baseline(limit=2)
        return first, c.graph.changes(cursor=first.cursor)

    yield Probe(rest)


def _mutations(c: LeakContext) -> Iterator[Probe]:
    g, chance = c.graph, c.canaries.chance
    person = chance.choice(c.ids["Person"])
    vault = chance.choice(c.ids["Vault"])
    texts = [
        f'update Person set {{ dept: "north" }} where name = "{person}"',
        f'update Person set {{ salary: 1 }} where name = "{person}"',
        "update Person set { email: name } where salary > 0",
        'update Person set { dept: "south" } where 1 / (salary - salary) > 0',
        f'delete Person where name = "{person}"',
        f'delete Vault where serial = "{vault}"',
        "delete Vault where worth > 0",
        f'insert Vault {{ serial: "{vault}", dept: "east" }}',
        f'insert Person {{ name: "{person}", dept: "north" }}',
        'insert Person { name: "mine", dept: "north" }',
        'insert Person { name: "mine2" }',
        f'insert Knows {{ from: "{person}", to: "{person}" }}',
        f'insert Guards {{ from: "{person}", to: "{vault}" }}',
        "delete Knows where met > 0",
        "match { $p: Person $p guards $v } delete $v",
        "match { $p: Person $p knows $q } delete $p",
        "insert Persn { name: 1 }",
        'insert Person { name: "x", dept: "north", salry: 2 }',
    ]
    # The value of a unique property of another entity.
    emails = [row["email"] for row in c.canaries.last["Person"].values()]
    texts += [
        f'insert Person {{ name: "mine", dept: "north", email: "{email}" }}'
        for email in chance.sample(emails, 2)
    ]
    for text in texts:
        said = tuple(re.findall(r"\w+", text))
        said += tuple(word.capitalize() for word in said)
        yield Probe(partial(g.mutate, text, branch="work"), said)


def _edits(c: LeakContext) -> Iterator[Probe]:
    g, chance = c.graph, c.canaries.chance
    person = chance.choice(c.ids["Person"])
    edits: list[tuple[str, dict[str, Any]]] = [
        ("Person", {"upsert": [{"name": person, "dept": "north"}]}),
        ("Person", {"insert": [{"name": person, "dept": "north"}]}),
        ("Person", {"insert": [{"name": "new", "dept": "east", "salary": 5}]}),
        ("Person", {"insert": [{"name": "new2", "dept": "east", "salry": 5}]}),
        ("Person", {"insert": [{"name": "new3"}]}),
        ("Person", {"delete": [person]}),
        ("Vault", {"insert": [{"serial": "new"}]}),
        ("Vaul", {"insert": [{"serial": "new"}]}),
        ("Knows", {"upsert": [{"from": person, "to": person}]}),
        ("Knows", {"delete": c.ids["Knows"][:3]}),
        ("Guards", {"delete": c.ids["Guards"][:2]}),
    ]
    for name, edit in edits:
        said = (name, *re.findall(r"\w+", str(edit)))
        yield Probe(partial(g.apply, {name: edit}, branch="work"), said)


def _loads(c: LeakContext) -> Iterator[Probe]:
    g, chance = c.graph, c.canaries.chance
    person = chance.choice(c.ids["Person"])
    rows: list[tuple[dict[str, Any], str]] = [
        ({"type": "Person", "data": {"name": person, "dept": "north"}}, "merge"),
        ({"type": "Person", "data": {"name": person, "dept": "north"}}, "append"),
        ({"type": "Person", "data": {"name": person, "dept": "east"}}, "patch"),
        ({"type": "Person", "data": {"name": "l1", "dept": "south"}}, "append"),
        ({"type": "Person", "data": {"name": "l2", "dept": "south"}}, "overwrite"),
        ({"type": "Person", "data": {"name": "l3", "dept": "south"}}, "mirror"),
        ({"type": "Person", "data": {"name": "l4", "salry": 3}}, "append"),
        ({"type": "Vault", "data": {"serial": "l5", "dept": "north"}}, "append"),
        ({"type": "Vaul", "data": {"serial": "l6"}}, "append"),
        ({"edge": "Knows", "from": person, "to": person, "data": {}}, "append"),
        ({"edge": "Guards", "from": person, "to": "nowhere", "data": {}}, "append"),
    ]
    for row, mode in rows:
        said = tuple(re.findall(r"\w+", str(row)))
        rejects = c.file()

        def load(row: object = row, mode: str = mode, to: Path = rejects) -> object:
            try:
                skip = "skip" if mode == "append" else "fail"
                done = g.load([row], mode, "work", on_error=skip, rejects=to, engine="local")
            except OmnigraphError as error:
                return error, to
            return done, to

        yield Probe(load, said)
        yield Probe(partial(g.load, [row], mode, "work", dry_run=True), said)


def _merges(c: LeakContext) -> Iterator[Probe]:
    g = c.graph
    yield Probe(lambda: g.merge("side", "work"), ("side", "work"))
    yield Probe(lambda: g.merge("side", "work", strategy="theirs"))


def _previews(c: LeakContext) -> Iterator[Probe]:
    yield Probe(lambda: c.graph.preview_merge("side", "main"))
    yield Probe(lambda: c.graph.preview_merge("main", "side", strategy="theirs"))


def _reverts(c: LeakContext) -> Iterator[Probe]:
    for commit in c.commits[1:]:
        yield Probe(partial(c.graph.revert, commit, "work"))


def _picks(c: LeakContext) -> Iterator[Probe]:
    yield Probe(lambda: c.graph.cherry_pick(c.canaries.side, "work"))
    yield Probe(lambda: c.graph.cherry_pick(c.commits[1], "work", strategy="theirs"))


def _commit_reads(method: str) -> Probes:
    def probes(c: LeakContext) -> Iterator[Probe]:
        for name in (*c.commits, c.canaries.side, "main", "middle", "HEAD~1", "nothing"):
            yield Probe(partial(getattr(c.graph.commits, method), name))

    return probes


def _schema_plans(c: LeakContext) -> Iterator[Probe]:
    for text in (SCHEMA, "node Other { x: String }"):
        said = tuple(re.findall(r"\w+", SCHEMA))
        yield Probe(partial(c.graph.schema.plan, text), said)


def _schema_changes(c: LeakContext) -> Iterator[Probe]:
    said = tuple(re.findall(r"\w+", SCHEMA))
    yield Probe(lambda: c.graph.schema.apply(SCHEMA, branch="work"), said)


def _schema_differences(c: LeakContext) -> Iterator[Probe]:
    for commit in c.commits:
        yield Probe(partial(c.graph.schema.diff, commit, "main"))


def _calls(*calls: Callable[[LeakContext], object]) -> Probes:
    def probes(c: LeakContext) -> Iterator[Probe]:
        for call in calls:
            yield Probe(partial(call, c))

    return probes


OPERATIONS: dict[str, Probes] = {
    "Graph.snapshot": _calls(
        lambda c: c.graph.snapshot(),
        lambda c: c.graph.snapshot(at="middle"),
        lambda c: c.graph.snapshot(at=c.commits[0]),
        lambda c: c.graph.snapshot("side"),
        lambda c: c.graph.snapshot(" main"),
        lambda c: c.graph.snapshot("MAIN"),
    ),
    "Graph.read": _reads,
    "Graph.blob": _blobs,
    "Graph.query": _queries("query"),
    "Graph.kept_answer": _kept_answers,
    "Graph.explain": _queries("explain"),
    "Graph.profile": _queries("profile"),
    "Graph.export": _exports,
    "Graph.diff": _differences,
    "Graph.changes": _feeds,
    "Graph.baseline": _baselines,
    "Graph.preview_merge": _previews,
    "Graph.index_status": _calls(lambda c: c.graph.index_status()),
    "Graph.status": _calls(lambda c: c.graph.status()),
    "Graph.verify": _calls(lambda c: c.graph.verify()),
    "Graph.recoveries": _calls(lambda c: c.graph.recoveries()),
    "Graph.cleanup": _calls(lambda c: c.graph.cleanup(keep=1)),
    "Graph.repair": _calls(lambda c: c.graph.repair()),
    "Graph.backup": _calls(lambda c: c.graph.backup(c.file())),
    "Graph.optimize": _calls(lambda c: c.graph.optimize("work")),
    "Graph.ensure_indices": _calls(lambda c: c.graph.ensure_indices("work")),
    "Graph.refresh": _calls(lambda c: c.graph.refresh()),
    "Branches.list": _calls(lambda c: c.graph.branches.list()),
    "Branches.show": _calls(
        lambda c: c.graph.branches.show("main"), lambda c: c.graph.branches.show("nothing")
    ),
    "Branches.create": _calls(lambda c: c.graph.branches.create(c.new_name())),
    "Branches.rename": _calls(lambda c: c.graph.branches.rename("nothing", c.new_name())),
    "Branches.delete": _calls(lambda c: c.graph.branches.delete("nothing")),
    "Tags.list": _calls(lambda c: c.graph.tags.list()),
    "Tags.create": _calls(lambda c: c.graph.tags.create(c.new_name())),
    "Tags.delete": _calls(lambda c: c.graph.tags.delete("nothing")),
    "Commits.list": _calls(
        lambda c: c.graph.commits.list(), lambda c: c.graph.commits.list("side")
    ),
    "Commits.by_key": _calls(lambda c: c.graph.commits.by_key("nothing")),
    "Commits.show": _commit_reads("show"),
    "Commits.schema_steps": _commit_reads("schema_steps"),
    "Commits.changes": _commit_reads("changes"),
    "Commits.graph": _calls(lambda c: c.graph.commits.graph()),
    "Schema.show": _calls(
        lambda c: c.graph.schema.show(), lambda c: c.graph.schema.show(at="middle")
    ),
    "Schema.diff": _schema_differences,
    "Schema.history": _calls(lambda c: c.graph.schema.history()),
    "Schema.plan": _schema_plans,
    "Graph.mutate": _mutations,
    "Graph.apply": _edits,
    "Graph.load": _loads,
    "Graph.embed": _calls(
        lambda c: c.graph.embed("work"), lambda c: c.graph.embed("work", ["Persn"])
    ),
    "Graph.merge": _merges,
    "Graph.revert": _reverts,
    "Graph.cherry_pick": _picks,
    "Schema.apply": _schema_changes,
}
"""The calls of every public method that could tell something; writes come last."""

SILENT_METHODS: dict[str, str] = {
    "Graph.close": "it tells nothing",
    "Graph.as_actor": "it returns a handle, whose methods are in this list",
    "Graph.for_repair": "it returns a handle for the operator, and needs `admin`",
    "Graph.require": "it is the gate",
    "Graph.state": "`snapshot` for other actions",
    "Graph.seen": "the scope itself",
    "Graph.load_options": "it gives rules to a load, and tells nothing",
    "Queries.list": "stored queries are checked in tests/policy/test_leaks.py",
    "Queries.run": "stored queries are checked in tests/policy/test_leaks.py",
    "Queries.reload": "it reads the directory of the operator again, and needs `admin`",
    "Queries.validate": "stored queries are checked in tests/policy/test_leaks.py",
}
"""Public methods without calls above, and why."""


def outcome(attempt: Probe) -> str:
    """What a call tells: its answer or its error."""
    try:
        return told(attempt.run())
    except OmnigraphError as error:
        return told(error)


def unlawful(before: State, after: State, rules: LeakRules) -> list[str]:
    """The changes from one state to the other that the rules do not allow."""
    found = []
    seen_before, seen_after = rules.visible(before), rules.visible(after)
    for name in TYPES:
        for entity in {*before[name], *after[name]}:
            old, new = before[name].get(entity), after[name].get(entity)
            if old == new:
                continue
            if old is not None and entity not in seen_before.get(name, {}):
                found.append(f"{name} {entity} was hidden before")
            if new is not None and entity not in seen_after.get(name, {}):
                found.append(f"{name} {entity} is hidden afterwards")
            found += [
                f"{name} {entity}: {p} is hidden"
                for p in sorted(rules.hidden.get(name, ()))
                if new is not None and new.get(p) != (old or {}).get(p)
            ]
    return found
