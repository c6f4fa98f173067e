"""Hypothesis strategies: small graphs with many NULLs, loops, parallel edges and odd strings."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from omnigraph_testing.graph_data import GraphData

ODD_STRINGS = (
    "a",
    "A",
    "ab",
    "",
    "O'Brien",
    'say "hi"',
    "back\\slash",
    "100%",
    "a_b",
    "x'; --",
    "null",
    "é",
    "日本",
    "😀",
    "two\nlines",
    "Red apple_2",
)
VECTORS = ([1, 0], [0, 1], [1, 1], [-1, 0], [0, 2])

# A name has one type everywhere, so that variables of several types share properties.
COLUMNS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "s": ("String?", ODD_STRINGS),
    "t": ("String", ODD_STRINGS),
    "i": ("I32?", (0, 1, 2, -1, 7, 2**31 - 1)),
    "l": ("I64?", (0, 1, -3, 2**63 - 1, -(2**63))),
    "u": ("U64?", (0, 1, 2**64 - 1)),
    "f": ("F64?", (0.0, 0.25, -1.5, 2.0, 1e10)),
    "h": ("F32?", (0.0, 0.5, 1.8, -2.25)),
    "b": ("Bool?", (True, False)),
    "d": ("Date?", ("1969-12-31", "2000-02-29", "2024-07-01")),
    "m": (
        "DateTime?",
        ("1969-12-31T23:59:59.999Z", "2020-01-01T10:30:15Z", "2020-01-01T10:30:15.250Z"),
    ),
    "e": ("enum(x, y, z)?", ("x", "y", "z")),
    "ls": ("[String]?", ([], ["a"], ["a", "b"], ["O'Brien", ""])),
    "li": ("[I32]?", ([], [1], [1, 2], [2, 2])),
    "v": ("Vector(2)?", VECTORS),
}

_EDGE_SHAPES = (
    ("Knows", "Ant", "Ant"),
    ("Likes", "Ant", "Ant"),
    ("Visits", "Ant", "Bee"),
    ("Feeds", "Bee", "Ant"),
    ("Meets", "Bee", "Bee"),
    ("Grows", "Bee", "Cow"),
)
_NODES = {"Ant": (2, 4), "Bee": (1, 3), "Cow": (0, 2)}
_MAX_EDGES = 6


def _some(names: list[str], least: int, most: int) -> st.SearchStrategy[list[str]]:
    """A few of the names, in their own order."""
    return st.lists(st.sampled_from(names), min_size=least, max_size=most, unique=True).map(sorted)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Columns by type: three node types, two of them behind an interface, some edge types."""
    shared = draw(_some(["s", "i", "f"], 1, 2))
    own = [name for name in COLUMNS if name not in shared]
    nodes = {
        "Ant": [*shared, *draw(_some(own, 1, 5))],
        "Bee": [*shared, *draw(_some(own, 1, 4))],
        "Cow": draw(_some(list(COLUMNS), 0, 3)),
    }
    chosen = draw(st.lists(st.sampled_from(_EDGE_SHAPES[1:]), max_size=3, unique=True))
    edges = {shape: draw(_some(["s", "i", "f", "d"], 0, 2)) for shape in (_EDGE_SHAPES[0], *chosen)}
    return {"shared": shared, "nodes": nodes, "edges": edges, "keyed": draw(st.booleans())}


def _declare(names: list[str]) -> str:
    return "\n".join(f"  {name}: {COLUMNS[name][0]}" for name in names)


def schema_text(schema: dict[str, Any]) -> str:
    shared = schema["shared"]
    parts = [f"interface Insect {{\n{_declare(shared)}\n}}"]
    for name, columns in schema["nodes"].items():
        inherits = name != "Cow"
        body = [c for c in columns if not (inherits and c in shared)]
        key = "\n  key: String @key" if name == "Ant" and schema["keyed"] else ""
        head = f"node {name}{' implements Insect' if inherits else ''}"
        parts.append(f"{head} {{{key}\n{_declare(body)}\n}}")
    parts += [
        f"edge {name}: {source} -> {target} {{\n{_declare(columns)}\n}}"
        for (name, source, target), columns in schema["edges"].items()
    ]
    return "\n".join(parts) + "\n"


@st.composite
def graphs(draw: st.DrawFn) -> GraphData:
    """A schema and a graph that fits it. Ids repeat across types and are odd strings too."""
    schema = draw(schemas())
    lines: list[dict[str, Any]] = []
    ids: dict[str, list[str]] = {}
    for name, columns in schema["nodes"].items():
        names = [text for text in ODD_STRINGS if text]
        least, most = _NODES[name]
        ids[name] = draw(
            st.lists(st.sampled_from(names), min_size=least, max_size=most, unique=True)
        )
        key = "key" if name == "Ant" and schema["keyed"] else "id"
        lines += [
            {"type": name, "data": {key: entity_id, **draw(_values(columns))}}
            for entity_id in ids[name]
        ]
    for (name, source, target), columns in schema["edges"].items():
        if not ids[source] or not ids[target]:
            continue
        ends = st.tuples(st.sampled_from(ids[source]), st.sampled_from(ids[target]))
        for number, (left, right) in enumerate(
            draw(st.lists(ends, min_size=2, max_size=_MAX_EDGES))
        ):
            data = {"id": f"e'{number}", **draw(_values(columns))}
            lines.append({"edge": name, "from": left, "to": right, "data": data})
    return GraphData(
        schema_text(schema), tuple(json.dumps(line, ensure_ascii=False) for line in lines)
    )


def _values(columns: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: _value(name) for name in columns})


def _value(name: str) -> st.SearchStrategy[Any]:
    kind, values = COLUMNS[name]
    known = st.sampled_from(values)
    return st.none() | known if kind.endswith("?") else known
