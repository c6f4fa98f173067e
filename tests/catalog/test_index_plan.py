from __future__ import annotations

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.schema.build import catalog_from_text

SCHEMA = """
node Doc {
  slug: String @key
  title: String @index
  status: enum(draft, done) @index
  pages: I32? @index
  day: Date? @index
  done: Bool? @index
  tags: [String]? @index
  scores: [F64]? @index
  body: String?
  note: String?
  small: Vector(4)? @index
  large: Vector(8)?
  @index(body, contains=true)
  @index(large, recall=0.99)
}
edge Cites: Doc -> Doc { why: String? @index @index(src) }
"""


def test_every_kind() -> None:
    catalog = catalog_from_text(SCHEMA)
    docs = [(s.column, s.kind.name) for s in wanted_indexes(catalog.resolve("Doc"))]
    assert sorted(docs) == [
        ("body", "FULL_TEXT"),
        ("body", "SORTED"),
        ("body", "SUBSTRING"),
        ("day", "SORTED"),
        ("done", "SORTED"),
        ("id", "SORTED"),
        ("large", "VECTOR"),
        ("pages", "SORTED"),
        ("scores", "LIST"),
        ("slug", "FULL_TEXT"),
        ("slug", "SORTED"),
        ("small", "VECTOR"),
        ("status", "SORTED"),
        ("tags", "LIST"),
        ("title", "FULL_TEXT"),
        ("title", "SORTED"),
    ]
    recalls = {s.column: s.recall for s in wanted_indexes(catalog.resolve("Doc"))}
    assert (recalls["small"], recalls["large"]) == (0.95, 0.99)
    edges = [(s.column, s.kind.name) for s in wanted_indexes(catalog.resolve("Cites"))]
    assert edges == [
        ("id", "SORTED"),
        ("src", "SORTED"),
        ("dst", "SORTED"),
        ("why", "SORTED"),
        ("why", "FULL_TEXT"),
    ]


def test_unique_values_are_looked_up() -> None:
    schema = """
    node N { a: String? @unique  b: I32? c: F64? d: [String]? e: DateTime? @unique(b, c, d, e) }
    edge E: N -> N { k: enum(x, y)? @unique(src, k) }
    """
    catalog = catalog_from_text(schema)
    nodes = [(s.column, s.kind.name) for s in wanted_indexes(catalog.resolve("N"))]
    assert nodes == [(name, "SORTED") for name in ("id", "a", "b", "c", "e")]
    edges = [s.column for s in wanted_indexes(catalog.resolve("E"))]
    assert edges == ["id", "src", "dst", "k"]
