"""The change matrix of schema evolution as data: one `Change` for each row, with its outcomes.

`P` stands for `node P { name: String @key  … }`, so that ids are names. A case is a set of stored
rows with what planning and applying the change must answer on it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Type name -> rows, nodes before edges."""


@dataclass(frozen=True)
class Broken:
    """One violation: type, property, code, count and sample ids."""

    code: str
    ids: tuple[str, ...]
    property: str | None = "x"
    type_name: str = "P"
    count: int | None = None
    """None: as many as there are ids."""


@dataclass(frozen=True)
class Refused:
    """One `unsupported_change`: its entity, code, and the grant that would help."""

    entity: str
    code: str | None = None
    requires: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Case:
    """Stored rows and the answer. Without `refused` and `broken` the change is applied."""

    rows: Rows = field(default_factory=dict)
    after: Rows | None = None
    """The rows afterwards, without the ids of keyed types. None: the same rows as before."""
    refused: tuple[Refused, ...] = ()
    broken: tuple[Broken, ...] = ()
    steps: tuple[str, ...] | None = None
    """None: the steps of the change."""


@dataclass(frozen=True)
class Change:
    """One row of the matrix."""

    name: str
    old: str
    new: str
    steps: tuple[str, ...]
    """`kind class CODE CODE` for each supported step."""
    valid: Case
    violating: Case | None = None
    empty: Case = Case()
    grants: Mapping[str, Any] = field(default_factory=dict)
    insert: Rows = field(default_factory=dict)
    """Rows that only the new schema accepts, or that it accepts, too."""
    rejects: Rows = field(default_factory=dict)
    """Rows that the new schema refuses."""
    late: Rows = field(default_factory=dict)
    """A row that the target of a merge writes meanwhile; else one like the first of `valid`."""
    merges: Mapping[str, str] = field(default_factory=dict)
    """What a merge of the changed schema does if it is not what applying the change does.

    The key tells the rows that the target wrote meanwhile: `new` (those of `valid`), `violating`,
    `late` (one more like the first one of `valid`), `more` (the same of `violating`). The values
    are `merged`, `conflict`, `refused`, and `decided`: the schemas are in conflict, and the new one
    is taken.
    """


def node(properties: str, name: str = "P", notes: str = "") -> str:
    return f"node {name} {notes} {{ name: String @key {properties} }}\n"


def of_x(*values: object, **more: object) -> Rows:
    """P rows `r0`, `r1`, … with these values of `x`."""
    return {"P": [{"name": f"r{n}", "x": value, **more} for n, value in enumerate(values)]}


def one_x(value: object) -> Rows:
    return {"P": [{"name": "new", "x": value}]}


LOSE = {"allow_data_loss": True}
PAIR = [{"name": "a"}, {"name": "b"}]
PLAIN = {"P": PAIR}
EDGE = "edge E: P -> P\n"
DAY = dt.date(2024, 2, 29)
MIDNIGHT = dt.datetime(2024, 2, 29)


def linked(*pairs: tuple[str, str], nodes: Sequence[str] = "abc", edge: str = "E") -> Rows:
    """Nodes, and edges `e0`, `e1`, … between them."""
    edges = [{"id": f"e{n}", "from": a, "to": b} for n, (a, b) in enumerate(pairs)]
    return {"P": [{"name": name} for name in nodes], edge: edges}


def ends(*pairs: tuple[str, str], nodes: Sequence[str] = "abc", edge: str = "E") -> Rows:
    """The same as it is read."""
    edges = [{"id": f"e{n}", "src": a, "dst": b} for n, (a, b) in enumerate(pairs)]
    return {"P": [{"name": name} for name in nodes], edge: edges}


TYPES = (
    Change(
        "add a node type",
        node(""),
        node("") + "node Q { t: String }",
        ("add_type metadata",),
        Case(PLAIN),
        insert={"Q": [{"id": "q", "t": "x"}]},
    ),
    Change(
        "add an edge type",
        node(""),
        node("") + "edge E: P -> P { w: F64? }",
        ("add_type metadata",),
        Case(PLAIN),
        insert={"P": [{"name": "z"}], "E": [{"id": "e", "from": "z", "to": "z", "w": 0.5}]},
    ),
    Change(
        "drop a node type",
        node("") + "node Q { t: String }",
        node(""),
        ("drop_type lossy OG-DS-102",),
        Case(
            PLAIN | {"Q": [{"id": "q", "t": "x"}]},
            refused=(Refused("node:Q", "OG-DS-102", "allow_data_loss"),),
        ),
        merges={"new": "decided"},
    ),
    Change(
        "drop a node type and its edges, allowed",
        node("") + "node Q { t: String }\nedge E: P -> Q",
        node(""),
        ("drop_type lossy OG-DS-102", "drop_type lossy OG-DS-103"),
        Case(
            {
                "P": PAIR,
                "Q": [{"id": "q", "t": "x"}],
                "E": [{"id": "e", "from": "a", "to": "q"}],
            },
            after=PLAIN,
        ),
        grants=LOSE,
        merges={"new": "decided"},
    ),
    Change(
        "drop an edge type",
        node("") + EDGE,
        node(""),
        ("drop_type lossy OG-DS-103",),
        Case(
            linked(("a", "b")),
            refused=(Refused("edge:E", "OG-DS-103", "allow_data_loss"),),
        ),
        merges={"new": "decided"},
    ),
    Change(
        "drop a protected type",
        node("") + "node Q @protected { t: String }",
        node(""),
        ("drop_type lossy OG-DS-102",),
        Case(PLAIN, refused=(Refused("node:Q", "OG-DS-102"),)),
        empty=Case(refused=(Refused("node:Q", "OG-DS-102"),)),
        grants=LOSE,
    ),
    Change(
        "rename a node type with edges on it",
        node("x: I32?") + EDGE,
        node("x: I32?", "Human", '@rename_from("P")') + "edge E: Human -> Human\n",
        ("rename_type metadata",),
        Case(
            {"P": [{"name": "a", "x": 1}], "E": [{"id": "e", "from": "a", "to": "a"}]},
            after={"Human": [{"name": "a", "x": 1}], "E": [{"id": "e", "src": "a", "dst": "a"}]},
        ),
        insert={"Human": [{"name": "n"}], "E": [{"id": "e2", "from": "n", "to": "n"}]},
    ),
    Change(
        "rename an edge type",
        node("") + EDGE,
        node("") + 'edge F: P -> P @rename_from("E")\n',
        ("rename_type metadata",),
        Case(linked(("a", "b")), after=ends(("a", "b"), edge="F")),
        insert={"P": [{"name": "n"}], "F": [{"id": "f", "from": "n", "to": "n"}]},
    ),
    Change(
        "a node type becomes an edge type",
        node("") + "node Q { t: String }",
        node("") + "edge Q: P -> P",
        ("drop_type lossy OG-DS-102", "add_type metadata"),
        Case(
            PLAIN | {"Q": [{"id": "q", "t": "x"}]},
            refused=(Refused("node:Q", "OG-DS-102", "allow_data_loss"),),
        ),
        merges={"new": "decided"},
    ),
    Change(
        "a node type becomes an edge type, allowed",
        node("") + "node Q { t: String }",
        node("") + "edge Q: P -> P",
        ("drop_type lossy OG-DS-102", "add_type metadata"),
        Case(PLAIN | {"Q": [{"id": "q", "t": "x"}]}, after=PLAIN | {"Q": []}),
        grants=LOSE,
        insert={"P": [{"name": "n"}], "Q": [{"id": "e", "from": "n", "to": "n"}]},
        merges={"new": "decided"},
    ),
)

ADDED = (
    Change(
        "add a nullable property",
        node(""),
        node("x: I64?"),
        ("add_property metadata",),
        Case(PLAIN, after={"P": [{"name": "a", "x": None}, {"name": "b", "x": None}]}),
        insert=one_x(7),
    ),
    Change(
        "add a nullable list, vector and enum",
        node(""),
        node("l: [String]?  v: Vector(3)?  e: enum(p, q)?"),
        ("add_property metadata",) * 3,
        Case(PLAIN, after={"P": [{"name": n, "l": None, "v": None, "e": None} for n in "ab"]}),
        insert={"P": [{"name": "n", "l": ["s"], "v": [1.0, 0.0, 0.5], "e": "q"}]},
        rejects={"P": [{"name": "m", "e": "r"}]},
    ),
    Change(
        "add a required property",
        node(""),
        node("x: I64"),
        ("add_property metadata OG-MF-103",),
        Case(PLAIN, refused=(Refused("node:P.x", "OG-MF-103", "backfill"),)),
        insert=one_x(7),
        rejects={"P": [{"name": "m"}]},
    ),
    Change(
        "add a required property with a default",
        node(""),
        node("x: I64 @default(5)"),
        ("add_property metadata OG-MF-103", "backfill_property rewrite"),
        Case(PLAIN, after={"P": [{"name": "a", "x": 5}, {"name": "b", "x": 5}]}),
        empty=Case(steps=("add_property metadata OG-MF-103",)),
        insert=one_x(7),
    ),
    Change(
        "add a required property with a constant",
        node(""),
        node("x: I64"),
        ("add_property metadata OG-MF-103", "backfill_property rewrite"),
        Case(PLAIN, after={"P": [{"name": "a", "x": 9}, {"name": "b", "x": 9}]}),
        empty=Case(steps=("add_property metadata OG-MF-103",)),
        grants={"backfill": {"P.x": 9}},
        insert=one_x(7),
        merges={"late": "conflict", "new": "conflict"},
    ),
    Change(
        "add a required property with an expression",
        node("y: String?"),
        node("y: String?  x: String"),
        ("add_property metadata OG-MF-103", "backfill_property rewrite"),
        Case(
            {"P": [{"name": "a", "y": "u"}, {"name": "b", "y": "v"}]},
            after={"P": [{"name": "a", "y": "u", "x": "a-u"}, {"name": "b", "y": "v", "x": "b-v"}]},
        ),
        Case(
            {"P": [{"name": "a", "y": "u"}, {"name": "b", "y": None}]},
            broken=(Broken("OG-MF-104", ("b",)),),
        ),
        empty=Case(steps=("add_property metadata OG-MF-103",)),
        grants={"backfill": {"P.x": 'name + "-" + y'}},
        insert={"P": [{"name": "new", "x": "w"}]},
        merges={"late": "conflict", "new": "conflict"},
    ),
    Change(
        "add a unique required property with an expression",
        node("y: String"),
        node("y: String  x: String @unique"),
        (
            "add_property metadata OG-MF-103",
            "backfill_property rewrite",
            "add_constraint validated OG-MF-101",
        ),
        Case(
            {"P": [{"name": "a", "y": "u"}, {"name": "b", "y": "v"}]},
            after={"P": [{"name": "a", "y": "u", "x": "u"}, {"name": "b", "y": "v", "x": "v"}]},
        ),
        Case(
            {"P": [{"name": "a", "y": "u"}, {"name": "b", "y": "u"}, {"name": "c", "y": "w"}]},
            broken=(Broken("OG-MF-101", ("a", "b")),),
        ),
        empty=Case(steps=("add_property metadata OG-MF-103", "add_constraint validated OG-MF-101")),
        grants={"backfill": {"P.x": "y"}},
        insert={"P": [{"name": "new", "y": "k", "x": "k"}]},
        merges={"new": "conflict"},
    ),
    Change(
        "add a required property to an edge",
        node("") + EDGE,
        node("") + "edge E: P -> P { w: I64 }\n",
        ("add_property metadata OG-MF-103", "backfill_property rewrite"),
        Case(
            linked(("a", "b")),
            after={
                "P": [{"name": n} for n in "abc"],
                "E": [{"id": "e0", "src": "a", "dst": "b", "w": 1}],
            },
        ),
        empty=Case(steps=("add_property metadata OG-MF-103",)),
        grants={"backfill": {"E.w": 1}},
        insert={"P": [{"name": "n"}], "E": [{"id": "e", "from": "n", "to": "n", "w": 2}]},
        merges={"new": "conflict"},
    ),
)

DROPPED = (
    Change(
        "drop a nullable property",
        node("x: I64?"),
        node(""),
        ("drop_property lossy OG-DS-104",),
        Case(of_x(1), refused=(Refused("node:P.x", "OG-DS-104", "allow_data_loss"),)),
        insert={"P": [{"name": "n"}]},
        merges={"new": "decided"},
    ),
    Change(
        "drop a required property, allowed",
        node("x: I64  y: I64?"),
        node("y: I64?"),
        ("drop_property lossy OG-DS-104",),
        Case(of_x(1, y=2), after={"P": [{"name": "r0", "y": 2}]}),
        grants=LOSE,
        insert={"P": [{"name": "n"}]},
        rejects=one_x(1),
        merges={"late": "decided", "new": "decided"},
    ),
    Change(
        "drop a property, allowed in the text",
        node("x: I64"),
        node("", notes='@allow("OG-DS-104", "nobody reads it")'),
        ("drop_property lossy OG-DS-104",),
        Case(of_x(1), after={"P": [{"name": "r0"}]}),
        insert={"P": [{"name": "n"}]},
        merges={"late": "decided", "new": "decided"},
    ),
    Change(
        "drop a property with constraints and an index",
        node("x: I64 @unique @index  @range(x, 0..9)"),
        node(""),
        ("drop_property lossy OG-DS-104",),
        Case(of_x(1, 2), after={"P": [{"name": "r0"}, {"name": "r1"}]}),
        grants=LOSE,
        insert={"P": [{"name": "n"}]},
        late={"P": [{"name": "late", "x": 9}]},
        merges={"late": "decided", "new": "decided"},
    ),
    Change(
        "drop a vector property",
        node("x: Vector(2)? @index"),
        node(""),
        ("drop_property lossy OG-DS-105",),
        Case(of_x([1.0, 2.0]), refused=(Refused("node:P.x", "OG-DS-105", "allow_data_loss"),)),
        merges={"new": "decided"},
    ),
    Change(
        "drop a protected property",
        node("x: I64? @protected"),
        node(""),
        ("drop_property lossy OG-DS-104",),
        Case(of_x(1), refused=(Refused("node:P.x", "OG-DS-104"),)),
        empty=Case(refused=(Refused("node:P.x", "OG-DS-104"),)),
        grants=LOSE,
    ),
    Change(
        "rename a property",
        node("x: I64? @index"),
        node('y: I64? @index @rename_from("x")'),
        ("rename_property metadata",),
        Case(of_x(1, None), after={"P": [{"name": "r0", "y": 1}, {"name": "r1", "y": None}]}),
        insert={"P": [{"name": "n", "y": 3}]},
        rejects=one_x(1),
    ),
    Change(
        "rename the key property",
        node(""),
        'node P { title: String @key @rename_from("name") }',
        ("rename_property metadata",),
        Case(PLAIN, after={"P": [{"title": "a"}, {"title": "b"}]}),
        insert={"P": [{"title": "n"}]},
    ),
    Change(
        "a drop and an addition look like a rename",
        node("x: I64?"),
        node("y: I64?"),
        ("add_property metadata", "drop_property lossy OG-DS-104 OG-BC-101"),
        Case(of_x(1), refused=(Refused("node:P.x", "OG-DS-104", "allow_data_loss"),)),
        insert={"P": [{"name": "n", "y": 3}]},
        merges={"new": "decided"},
    ),
)

KEYS = (
    Change(
        "add a key",
        "node P { name: String }",
        node(""),
        ("add_constraint rewrite OG-MF-101",),
        Case(
            {"P": [{"id": "i", "name": "a"}]},
            refused=(Refused("node:P", "OG-NL-101", reason="merge or delete the other branches"),),
        ),
        insert={"P": [{"name": "n"}]},
    ),
    Change(
        "change the key",
        "node P { name: String @key  other: String }",
        "node P { name: String  other: String @key }",
        ("drop_constraint metadata OG-CD-101", "add_constraint rewrite OG-MF-101"),
        Case(
            {"P": [{"name": "a", "other": "b"}]},
            refused=(Refused("node:P", "OG-NL-101", reason="merge or delete the other branches"),),
        ),
        insert={"P": [{"name": "n", "other": "o"}]},
    ),
    Change(
        "remove the key",
        node(""),
        "node P { name: String }",
        ("drop_constraint metadata OG-CD-101",),
        Case(PLAIN, after={"P": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]}),
        insert={"P": [{"id": "free", "name": "a"}]},
    ),
)

CONSTRAINTS = (
    Change(
        "add @unique",
        node("x: I64?"),
        node("x: I64? @unique"),
        ("add_constraint validated OG-MF-101",),
        Case(of_x(1, 2, None, None)),
        Case(of_x(1, 2, 1, None), broken=(Broken("OG-MF-101", ("r0", "r2")),)),
        insert=one_x(7),
        rejects={"P": [{"name": "m", "x": 5}, {"name": "k", "x": 5}]},
    ),
    Change(
        "add @unique over two properties",
        node("x: I64?  y: I64?"),
        node("x: I64?  y: I64?  @unique(x, y)"),
        ("add_constraint validated OG-MF-101",),
        Case({"P": [{"name": "a", "x": 1, "y": 1}, {"name": "b", "x": 1, "y": 2}]}),
        Case(
            {"P": [{"name": n, "x": 1, "y": 1} for n in "ab"]},
            broken=(Broken("OG-MF-101", ("a", "b"), None),),
        ),
    ),
    Change(
        "add @range",
        node("x: I64?"),
        node("x: I64?  @range(x, 0..9)"),
        ("add_constraint validated OG-MF-102",),
        Case(of_x(0, 9, None)),
        Case(of_x(0, 10, -1), broken=(Broken("OG-MF-102", ("r1", "r2")),)),
        insert=one_x(7),
        rejects=one_x(70),
    ),
    Change(
        "add @check",
        node("x: String?"),
        node('x: String?  @check(x, "^a")'),
        ("add_constraint validated OG-MF-102",),
        Case(of_x("ab", None)),
        Case(of_x("ab", "ba"), broken=(Broken("OG-MF-102", ("r1",)),)),
        insert=one_x("ac"),
        rejects=one_x("ca"),
    ),
    Change(
        "all violations are gathered",
        node("x: I64?  y: I64?"),
        node("x: I64? @unique  y: I64  @range(x, 0..9)"),
        (
            "set_required validated OG-MF-104",
            "add_constraint validated OG-MF-101",
            "add_constraint validated OG-MF-102",
        ),
        Case({"P": [{"name": "a", "x": 1, "y": 1}]}),
        Case(
            {"P": [{"name": n, "x": 10, "y": None} for n in "ab"]},
            broken=(
                Broken("OG-MF-104", ("a", "b"), "y"),
                Broken("OG-MF-101", ("a", "b")),
                Broken("OG-MF-102", ("a", "b")),
            ),
        ),
    ),
    Change(
        "remove @unique, @range, @check and @index",
        node('x: String? @unique @index  y: I64?  @range(y, 0..9)  @check(x, "^a")'),
        node("x: String?  y: I64?"),
        (
            "drop_constraint metadata OG-CD-101",
            "drop_constraint metadata",
            "drop_constraint metadata OG-CD-101",
            "drop_constraint metadata OG-CD-101",
        ),
        Case(of_x("a", "ab", y=3)),
        insert={"P": [{"name": "m", "x": "b", "y": 50}, {"name": "n", "x": "b", "y": 50}]},
        late={"P": [{"name": "late", "x": "az", "y": 1}]},
    ),
    Change(
        "add @index on a scalar, a text and a vector",
        node("x: I64?  t: String?  v: Vector(2)?"),
        node("x: I64? @index  t: String? @index  v: Vector(2)? @index"),
        ("add_constraint metadata",) * 3,
        Case({"P": [{"name": "a", "x": 1, "t": "words", "v": [1.0, 0.0]}]}),
        insert={"P": [{"name": "n", "x": 2, "t": "more", "v": [0.0, 1.0]}]},
    ),
)

NULLS = (
    Change(
        "required becomes nullable",
        node("x: I64"),
        node("x: I64?"),
        ("set_nullable metadata",),
        Case(of_x(1, 2)),
        insert=one_x(None),
    ),
    Change(
        "nullable becomes required",
        node("x: I64?"),
        node("x: I64"),
        ("set_required validated OG-MF-104",),
        Case(of_x(1, 2)),
        Case(of_x(1, None, None), broken=(Broken("OG-MF-104", ("r1", "r2")),)),
        insert=one_x(7),
        rejects=one_x(None),
    ),
    Change(
        "nullable becomes required with a backfill",
        node("x: I64?"),
        node("x: I64"),
        ("set_required validated OG-MF-104", "backfill_property rewrite"),
        Case(of_x(1, None), after=of_x(1, 8)),
        empty=Case(steps=("set_required validated OG-MF-104",)),
        grants={"backfill": {"P.x": 8}},
        insert=one_x(7),
        rejects=one_x(None),
        merges={"new": "conflict"},
    ),
)


def cast(
    name: str,
    before: str,
    after: str,
    good: Sequence[object],
    made: Sequence[object],
    bad: Sequence[object] = (),
    *,
    step: str = "rewrite",
) -> Change:
    """A change of type; `bad` are values that do not convert, stored after the good ones."""
    ids = tuple(f"r{n}" for n in range(len(good), len(good) + len(bad)))
    violating = Case(of_x(*good, *bad), broken=(Broken("OG-MF-106", ids),)) if bad else None
    return Change(
        f"cast {name}",
        node(f"x: {before}"),
        node(f"x: {after}"),
        (f"change_property_type {step} OG-MF-106",),
        Case(of_x(*good), after=of_x(*made)),
        violating,
        insert=one_x(made[0]),
    )


WIDENED = (
    cast("I32 to I64", "I32?", "I64?", (-(2**31), None, 2**31 - 1), (-(2**31), None, 2**31 - 1)),
    cast("U32 to U64", "U32", "U64", (0, 2**32 - 1), (0, 2**32 - 1)),
    cast("U32 to I64", "U32", "I64", (0, 2**32 - 1), (0, 2**32 - 1)),
    cast("F32 to F64", "F32?", "F64?", (0.5, None), (0.5, None)),
    cast("I32 to F64", "I32", "F64", (3, -(2**31)), (3.0, -(2.0**31))),
    cast("Date to DateTime", "Date?", "DateTime?", (DAY, None), (MIDNIGHT, None)),
    cast("enum to String", "enum(p, q)", "String", ("p", "q"), ("p", "q"), step="metadata"),
    cast("I64 to a list", "I64?", "[I64]?", (3, None), ([3], None)),
    cast("String to a list", "String", "[String]", ("p", ""), (["p"], [""])),
    cast("enum to a list", "enum(p, q)", "[String]", ("p", "q"), (["p"], ["q"])),
    cast("items of a list", "[I32]?", "[I64]?", ([1, 2], [], None), ([1, 2], [], None)),
)

CAST = (
    cast("I64 to I32", "I64", "I32", (1, -(2**31)), (1, -(2**31)), (2**31,), step="validated"),
    cast("I64 to U32", "I64?", "U32?", (1, None), (1, None), (-1, 2**32), step="validated"),
    cast("F64 to I64", "F64?", "I64?", (1.0, None), (1, None), (1.5, 1e300), step="validated"),
    cast("I64 to F64", "I64", "F64", (1, 2**53), (1.0, 2.0**53), (2**53 + 1,), step="validated"),
    cast("F64 to F32", "F64", "F32", (0.5,), (0.5,), (0.1,), step="validated"),
    cast("String to I64", "String?", "I64?", ("12", None), (12, None), ("x", ""), step="validated"),
    cast("String to F64", "String", "F64", ("1.5",), (1.5,), ("p",), step="validated"),
    cast(
        "String to Bool",
        "String",
        "Bool",
        ("true", "false"),
        (True, False),
        ("x",),
        step="validated",
    ),
    cast(
        "String to Date",
        "String",
        "Date",
        ("2024-02-29",),
        (DAY,),
        ("2023-02-29",),
        step="validated",
    ),
    cast("I64 to String", "I64", "String", (1, -2), ("1", "-2"), step="validated"),
    cast("Bool to I64", "Bool", "I64", (True, False), (1, 0), step="validated"),
    cast(
        "DateTime to Date",
        "DateTime",
        "Date",
        (MIDNIGHT,),
        (DAY,),
        (MIDNIGHT.replace(hour=1),),
        step="validated",
    ),
    cast(
        "String to enum", "String", "enum(p, q)", ("p", "q"), ("p", "q"), ("r",), step="validated"
    ),
    cast(
        "list to scalar",
        "[I64]?",
        "I64?",
        ([1], None, []),
        (1, None, None),
        ([1, 2],),
        step="validated",
    ),
    Change(
        "a required list becomes one value",
        node("x: [I64]"),
        node("x: I64"),
        ("change_property_type validated OG-MF-106",),
        Case(of_x([1]), after=of_x(1)),
        Case(of_x([1], []), broken=(Broken("OG-MF-104", ("r1",)),)),
        insert=one_x(7),
    ),
    Change(
        "cast and lose values",
        node("x: String?"),
        node("x: I64?"),
        ("change_property_type lossy OG-MF-106",),
        Case(of_x("1"), after=of_x(1)),
        Case(of_x("1", "x", None), after=of_x(1, None, None)),
        grants=LOSE,
        insert=one_x(7),
        merges={"violating": "refused"},
    ),
    Change(
        "a required property cannot lose values",
        node("x: String"),
        node("x: I64"),
        ("change_property_type lossy OG-MF-106",),
        Case(of_x("1"), after=of_x(1)),
        Case(of_x("1", "x"), broken=(Broken("OG-MF-104", ("r1",)),)),
        grants=LOSE,
        insert=one_x(7),
    ),
    Change(
        "of a list the first item is kept",
        node("x: [I64]?"),
        node("x: I64?"),
        ("change_property_type lossy OG-MF-106",),
        Case(of_x([1]), after=of_x(1)),
        Case(of_x([5, 6], []), after=of_x(5, None)),
        grants=LOSE,
        insert=one_x(7),
        merges={"more": "refused", "violating": "refused"},
    ),
    Change(
        "cast an indexed and unique property",
        node("x: String @unique @index"),
        node("x: I64 @unique @index"),
        ("change_property_type validated OG-MF-106",),
        Case(of_x("1", "2"), after=of_x(1, 2)),
        Case(of_x("1", "01"), broken=(Broken("OG-MF-101", ("r0", "r1")),)),
        insert=one_x(7),
        rejects={"P": [{"name": "m", "x": 5}, {"name": "k", "x": 5}]},
        late={"P": [{"name": "late", "x": "9"}]},
    ),
    Change(
        "cast into a range",
        node("x: String"),
        node("x: I64  @range(x, 0..9)"),
        ("change_property_type validated OG-MF-106", "add_constraint validated OG-MF-102"),
        Case(of_x("1", "9"), after=of_x(1, 9)),
        Case(of_x("1", "10"), broken=(Broken("OG-MF-102", ("r1",)),)),
        insert=one_x(7),
    ),
    Change(
        "cast and require",
        node("x: I32?"),
        node("x: I64"),
        ("change_property_type rewrite OG-MF-106", "set_required validated OG-MF-104"),
        Case(of_x(1), after=of_x(1)),
        Case(of_x(1, None), broken=(Broken("OG-MF-104", ("r1",)),)),
        insert=one_x(7),
    ),
    Change(
        "cast, rename and relax in one change",
        node("x: I32"),
        node('y: I64? @rename_from("x")'),
        (
            "rename_property metadata",
            "change_property_type rewrite OG-MF-106",
            "set_nullable metadata",
        ),
        Case(of_x(1), after={"P": [{"name": "r0", "y": 1}]}),
        insert={"P": [{"name": "n", "y": None}]},
    ),
    Change(
        "a property becomes a Blob",
        node("x: String?"),
        node("x: Blob?"),
        (),
        Case(of_x("a"), refused=(Refused("node:P.x", "OG-MF-106"),)),
        empty=Case(refused=(Refused("node:P.x", "OG-MF-106"),)),
    ),
    Change(
        "a Blob becomes a String",
        node("x: Blob?"),
        node("x: String?"),
        (),
        Case(of_x(b"a"), refused=(Refused("node:P.x", "OG-MF-106"),)),
        empty=Case(refused=(Refused("node:P.x", "OG-MF-106"),)),
    ),
)

ENUMS = (
    Change(
        "widen an enum",
        node("x: enum(p, q)"),
        node("x: enum(p, q, r)"),
        ("extend_enum metadata",),
        Case(of_x("p")),
        insert=one_x("r"),
        rejects=one_x("s"),
    ),
    Change(
        "reorder an enum",
        node("x: enum(p, q)"),
        node("x: enum(q, p)"),
        ("update_source metadata",),
        Case(of_x("p")),
        insert=one_x("q"),
    ),
    Change(
        "widen an enum and allow NULL",
        node("x: enum(p, q)"),
        node("x: enum(p, q, r)?"),
        ("extend_enum metadata", "set_nullable metadata"),
        Case(of_x("p")),
        insert=one_x(None),
    ),
    Change(
        "narrow an enum",
        node("x: enum(p, q, r)?"),
        node("x: enum(p, q)?"),
        ("narrow_enum validated OG-MF-107",),
        Case(of_x("p", None)),
        Case(of_x("p", "r"), broken=(Broken("OG-MF-107", ("r1",)),)),
        insert=one_x("q"),
        rejects=one_x("r"),
    ),
    Change(
        "rename a value of an enum",
        node("x: enum(p, q)?"),
        node('x: enum(p, z)? @rename_value("q", "z")'),
        ("rename_enum_value rewrite",),
        Case(of_x("p", "q", None), after=of_x("p", "z", None)),
        insert=one_x("z"),
        rejects=one_x("q"),
        merges={"new": "conflict"},
    ),
    Change(
        "rename a value of a unique enum to another",
        node("x: enum(p, q) @unique"),
        node('x: enum(q) @unique @rename_value("p", "q")'),
        ("rename_enum_value rewrite",),
        Case(of_x("p"), after=of_x("q")),
        Case(of_x("p", "q"), broken=(Broken("OG-MF-101", ("r0", "r1")),)),
        insert={},
        rejects=one_x("p"),
        merges={"new": "conflict"},
        late={"P": []},
    ),
    Change(
        "narrow an enum by a mapping",
        node("x: enum(p, q, r)"),
        node('x: enum(p, q) @rename_value("r", "q")'),
        ("rename_enum_value rewrite",),
        Case(of_x("p", "r"), after=of_x("p", "q")),
        insert=one_x("q"),
        rejects=one_x("r"),
        merges={"new": "conflict"},
    ),
)

VECTORS = (
    Change(
        "change the width of vectors",
        node("x: Vector(2)?"),
        node("x: Vector(3)?"),
        ("change_property_type lossy OG-VE-101",),
        Case(of_x([1.0, 2.0]), refused=(Refused("node:P.x", "OG-VE-101", "allow_data_loss"),)),
        insert=one_x([1.0, 2.0, 3.0]),
        merges={"new": "decided"},
    ),
    Change(
        "change the width of vectors and lose them",
        node("x: Vector(2)? @index"),
        node("x: Vector(3)? @index"),
        ("change_property_type lossy OG-VE-101",),
        Case(of_x([1.0, 2.0], None), after=of_x(None, None)),
        grants=LOSE,
        insert=one_x([1.0, 2.0, 3.0]),
        merges={"late": "decided", "new": "decided"},
    ),
    Change(
        "change the width of required vectors",
        node("x: Vector(2)"),
        node("x: Vector(3)"),
        ("change_property_type lossy OG-VE-101",),
        Case(of_x([1.0, 2.0]), refused=(Refused("node:P.x", "OG-VE-101", "reembed"),)),
        grants=LOSE,
        insert=one_x([1.0, 2.0, 3.0]),
    ),
    Change(
        "change the width of vectors and allow NULL",
        node("x: Vector(2)"),
        node("x: Vector(3)?"),
        ("change_property_type lossy OG-VE-101", "set_nullable metadata"),
        Case(of_x([1.0, 2.0]), after=of_x(None)),
        grants=LOSE,
        insert=one_x(None),
        merges={"late": "decided", "new": "decided"},
    ),
    Change(
        "embed another property",
        node('t: String?  u: String?  x: Vector(4)? @embed("t", model="test")'),
        node('t: String?  u: String?  x: Vector(4)? @embed("u", model="test")'),
        ("change_embedding lossy OG-VE-101",),
        Case(
            {"P": [{"name": "a", "t": "one", "u": "two", "x": [1.0, 0.0, 0.0, 0.0]}]},
            refused=(Refused("node:P.x", "OG-VE-101", "allow_data_loss"),),
        ),
        merges={"new": "decided"},
    ),
    Change(
        "vectors become embeddings",
        node("t: String?  x: Vector(4)?"),
        node('t: String?  x: Vector(4)? @embed("t", model="test")'),
        ("update_property_metadata metadata",),
        Case({"P": [{"name": "a", "t": "one", "x": [1.0, 0.0, 0.0, 0.0]}]}),
    ),
    Change(
        "embed by another model and lose the vectors",
        node('t: String?  x: Vector(4)? @embed("t", model="test")'),
        node('t: String?  x: Vector(4)? @embed("t", model="next")'),
        ("change_embedding lossy OG-VE-101",),
        Case(
            {"P": [{"name": "a", "t": "one", "x": [1.0, 0.0, 0.0, 0.0]}]},
            after={"P": [{"name": "a", "t": "one", "x": None}]},
        ),
        grants=LOSE,
        merges={"late": "decided", "new": "decided"},
    ),
)

NAMED = "interface Named { label: String? }\n"
INTERFACES = (
    Change(
        "add an interface that a type implements",
        node("label: String?"),
        NAMED + "node P implements Named { name: String @key }",
        ("add_type metadata", "change_implements metadata"),
        Case({"P": [{"name": "a", "label": "x"}]}),
        insert={"P": [{"name": "n", "label": "y"}]},
    ),
    Change(
        "add a nullable property to an interface",
        NAMED + "node P implements Named { name: String @key }",
        "interface Named { label: String?  x: I64? }\n"
        "node P implements Named { name: String @key }",
        ("add_property metadata", "add_property metadata"),
        Case(
            {"P": [{"name": "a", "label": "l"}]},
            after={"P": [{"name": "a", "label": "l", "x": None}]},
        ),
        insert=one_x(7),
    ),
    Change(
        "rename an interface",
        NAMED + "node P implements Named { name: String @key }",
        'interface Titled @rename_from("Named") { label: String? }\n'
        "node P implements Titled { name: String @key }",
        ("rename_interface metadata",),
        Case({"P": [{"name": "a", "label": "x"}]}),
        insert={"P": [{"name": "n", "label": "y"}]},
    ),
    Change(
        "remove an interface and keep its property",
        NAMED + "node P implements Named { name: String @key }",
        node("label: String?"),
        ("drop_interface metadata", "change_implements metadata"),
        Case({"P": [{"name": "a", "label": "x"}]}),
        insert={"P": [{"name": "n", "label": "y"}]},
    ),
    Change(
        "implements removed",
        NAMED + "node P implements Named { name: String @key }\nnode Q implements Named {}",
        NAMED + node("label: String?") + "node Q implements Named {}",
        ("change_implements metadata",),
        Case({"P": [{"name": "a", "label": "x"}]}),
    ),
    Change(
        "implements added with a new property",
        NAMED + node("") + "node Q implements Named {}",
        NAMED + "node P implements Named { name: String @key }\nnode Q implements Named {}",
        ("add_property metadata", "change_implements metadata"),
        Case(PLAIN, after={"P": [{"name": "a", "label": None}, {"name": "b", "label": None}]}),
        insert={"P": [{"name": "n", "label": "y"}]},
    ),
    Change(
        "a direct property is inherited",
        NAMED + "node P implements Named { name: String @key  label: String? }",
        NAMED + "node P implements Named { name: String @key }",
        ("update_source metadata",),
        Case({"P": [{"name": "a", "label": "x"}]}),
    ),
)

TWO = node("") + node("", "Q")
EDGES = (
    Change(
        "other endpoints",
        TWO + "edge E: P -> P\n",
        TWO + "edge E: P -> Q\n",
        ("change_endpoints validated OG-ED-101",),
        Case(
            {"P": PAIR, "Q": [{"name": "b"}], "E": [{"id": "e", "from": "a", "to": "b"}]},
            after={"P": PAIR, "Q": [{"name": "b"}], "E": [{"id": "e", "src": "a", "dst": "b"}]},
        ),
        Case(
            {"P": PAIR, "E": [{"id": "e", "from": "a", "to": "b"}]},
            broken=(Broken("OG-ED-101", ("e",), None, "E"),),
        ),
        insert={
            "P": [{"name": "n"}],
            "Q": [{"name": "m"}],
            "E": [{"id": "f", "from": "n", "to": "m"}],
        },
    ),
    Change(
        "loosen a cardinality",
        node("") + "edge E: P -> P @card(0..1)\n",
        node("") + "edge E: P -> P @card(0..2)\n",
        ("change_cardinality metadata",),
        Case(linked(("a", "b")), after=ends(("a", "b"))),
        insert={"P": [{"name": "n"}], "E": [{"id": f"f{i}", "from": "n", "to": "n"} for i in "12"]},
    ),
    Change(
        "tighten a maximum",
        node("") + "edge E: P -> P @card(0..2)\n",
        node("") + "edge E: P -> P @card(0..1)\n",
        ("change_cardinality validated OG-MF-105",),
        Case(linked(("a", "b"), ("b", "c")), after=ends(("a", "b"), ("b", "c"))),
        Case(
            linked(("a", "b"), ("a", "c"), ("b", "c")),
            broken=(Broken("OG-MF-105", ("a",), None, "E"),),
        ),
        insert={"P": [{"name": "n"}], "E": [{"id": "f", "from": "n", "to": "n"}]},
    ),
    Change(
        "tighten a minimum",
        node("") + EDGE,
        node("") + "edge E: P -> P @card(1..)\n",
        ("change_cardinality validated OG-MF-105",),
        Case(linked(("a", "a"), nodes="a"), after=ends(("a", "a"), nodes="a")),
        Case(
            linked(("a", "b"), nodes="abc"),
            broken=(Broken("OG-MF-105", ("b", "c"), None, "E"),),
        ),
        insert={"P": [{"name": "n"}], "E": [{"id": "f", "from": "n", "to": "n"}]},
        rejects={"P": [{"name": "lonely"}]},
    ),
    Change(
        "a minimum over nodes without any edge",
        node("") + EDGE,
        node("") + "edge E: P -> P @card(1..)\n",
        ("change_cardinality validated OG-MF-105",),
        Case(PLAIN, broken=(Broken("OG-MF-105", ("a", "b"), None, "E"),)),
    ),
    Change(
        "@unique over the endpoints",
        node("") + EDGE,
        node("") + "edge E: P -> P { @unique(src, dst) }\n",
        ("add_constraint validated OG-MF-101",),
        Case(linked(("a", "b"), ("b", "a")), after=ends(("a", "b"), ("b", "a"))),
        Case(
            linked(("a", "b"), ("a", "b")),
            broken=(Broken("OG-MF-101", ("e0", "e1"), None, "E"),),
        ),
    ),
)

NOTES = (
    Change(
        "@description and @instruction",
        node("x: I64?"),
        node('x: I64? @description("a number")', notes='@instruction("be kind")'),
        ("update_type_metadata metadata", "update_property_metadata metadata"),
        Case(of_x(1)),
    ),
    Change(
        "an unknown annotation",
        node("x: I64?"),
        node("x: I64? @shiny"),
        ("update_property_metadata metadata OG-NM-101",),
        Case(of_x(1)),
    ),
    Change(
        "another default",
        node("x: I64 @default(1)"),
        node("x: I64 @default(2)"),
        ("update_property_metadata metadata",),
        Case(of_x(1)),
        insert={"P": [{"name": "n", "x": 5}]},
    ),
    Change(
        "a comment",
        node("x: I64?"),
        "// the same\n" + node("x: I64?"),
        ("update_source metadata",),
        Case(of_x(1)),
    ),
    Change(
        "another order",
        node("x: I64?") + node("", "Q"),
        node("", "Q") + node("x: I64?"),
        ("update_source metadata",),
        Case(of_x(1)),
    ),
    Change("the same text", node("x: I64?"), node("x: I64?"), (), Case(of_x(1))),
)

MATRIX = (
    *TYPES,
    *ADDED,
    *DROPPED,
    *KEYS,
    *CONSTRAINTS,
    *NULLS,
    *WIDENED,
    *CAST,
    *ENUMS,
    *VECTORS,
    *INTERFACES,
    *EDGES,
    *NOTES,
)
