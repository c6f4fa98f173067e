"""Named sources against a catalog: what becomes a stored query, and what is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.query.format import format_queries
from omnigraph.query.parser import parse_queries
from omnigraph.schema.build import catalog_from_text
from omnigraph.stored_queries.entries import StoredSource, compile_sources
from omnigraph.stored_queries.registry import QueryRegistry
from omnigraph.syntax.source_text import SourceText

PEOPLE = catalog_from_text("node Person { name: String @key  age: I64?  note: Vector(2)? }")
FILE = """
// people
query by_name($name: String, $ids: [I64]?)
  @description("One person.") @instruction("Names are exact.") @mcp(tool_name: "find-person") {
  match { $p: Person { name: $name } } return { $p.age as age }
}
query near($v: Vector(2), $since: Date, $photo: Blob?) {
  match { $p: Person } return { $p.name as name } order { nearest($p.note, $v) } limit 1
}
query add($name: String, $age: I32) @mcp(expose: false) { insert Person { name: $name } }
"""


def one(text: str, **how: object) -> list[StoredSource]:
    return [StoredSource(SourceText(text, "people.gq"), **how)]  # type: ignore[arg-type]


def test_a_declaration_becomes_an_entry_with_kinds_and_notes() -> None:
    found = compile_sources(one(FILE), PEOPLE)
    add, by_name, near = found.queries
    assert [q.name for q in found.queries] == ["add", "by_name", "near"]
    assert (add.mutation, add.mcp_expose, add.tool_name) == (True, False, "add")
    assert (by_name.description, by_name.instruction) == ("One person.", "Names are exact.")
    assert (by_name.mutation, by_name.mcp_expose, by_name.tool_name) == (False, True, "find-person")
    assert [p.to_dict() for p in by_name.params] == [
        {"name": "name", "kind": "string", "type": "String", "nullable": False},
        {"name": "ids", "kind": "list", "item_kind": "bigint", "type": "[I64]", "nullable": True},
    ]
    assert [p.to_dict() for p in near.params] == [
        {"name": "v", "kind": "vector", "vector_dim": 2, "type": "Vector(2)", "nullable": False},
        {"name": "since", "kind": "date", "type": "Date", "nullable": False},
        {"name": "photo", "kind": "blob", "type": "Blob", "nullable": True},
    ]
    assert add.params[1].to_dict()["kind"] == "int"
    assert [str(p.declaration.type) for p in near.params] == ["Vector(2)", "Date", "Blob"]


def test_an_exposed_query_with_a_vector_is_a_warning() -> None:
    found = compile_sources(one(FILE), PEOPLE).validation
    assert found.ok
    assert ["near" in warning for warning in found.warnings] == [True]


def test_a_text_keeps_the_positions_of_its_file() -> None:
    text = compile_sources(one(FILE), PEOPLE).texts["near"].text
    assert text.lstrip("\n").startswith("query near(")
    assert text.count("\n", 0, text.index("query")) == 6


def test_errors_name_query_file_and_line() -> None:
    text = FILE + "query odd() { match { $p: Persn } return { $p.name as n, $p.agee as a } }\n"
    found = compile_sources(one(text), PEOPLE)
    assert [q.name for q in found.queries] == ["add", "by_name", "near"]
    (broken,) = found.validation.breakages
    assert (broken.query, broken.file, broken.line, broken.code) == ("odd", "people.gq", 11, "T1")
    assert "did you mean 'Person'" in broken.message
    assert not found.validation.ok
    assert found.declared == {"add", "by_name", "near", "odd"}


def test_a_file_that_does_not_parse_breaks_only_itself() -> None:
    sources = [*one("query x( {"), *one("query ok() { match { $p: Person } return { $p.name } }")]
    found = compile_sources(sources, PEOPLE)
    assert [q.name for q in found.queries] == ["ok"]
    assert [b.query for b in found.validation.breakages] == ["people.gq"]


def test_names_and_tool_names_are_unique() -> None:
    read = "query {} () {} {{ match {{ $p: Person }} return {{ $p.name }} }}"
    twice = [*one(read.format("a", "")), *one(read.format("a", ""))]
    found = compile_sources(twice, PEOPLE)
    assert [(b.query, b.code) for b in found.validation.breakages] == [
        ("a", "duplicate_query_name")
    ]
    assert len(found.queries) == 1
    tools = one(read.format("a", "") + read.format("b", '@mcp(tool_name: "a")'))
    found = compile_sources(tools, PEOPLE)
    assert [(b.query, b.code) for b in found.validation.breakages] == [("b", "duplicate_tool_name")]
    hidden = one(read.format("a", "") + read.format("b", '@mcp(tool_name: "a", expose: false)'))
    assert compile_sources(hidden, PEOPLE).validation.ok


def test_a_catalog_picks_declarations_and_replaces_what_mcp_says() -> None:
    picked = one(FILE, names=frozenset({"add", "gone"}), expose=True, tool_name="add-person")
    found = compile_sources(picked, PEOPLE)
    assert [(q.name, q.mcp_expose, q.tool_name) for q in found.queries] == [
        ("add", True, "add-person")
    ]
    assert [(b.query, b.code) for b in found.validation.breakages] == [
        ("gone", "query_key_mismatch")
    ]


def test_a_registry_follows_its_directory_and_the_schema(tmp_path: Path) -> None:
    (tmp_path / "a.gq").write_text(FILE)
    (tmp_path / "notes.txt").write_text("not a query")
    registry = QueryRegistry(tmp_path)
    assert registry.find("by_name", PEOPLE) is not None
    smaller = catalog_from_text("node Person { name: String @key  note: Vector(2)? }")
    assert registry.find("by_name", smaller) is None
    assert [b.query for b in registry.compiled(smaller).validation.breakages] == ["by_name"]
    assert registry.compiled(PEOPLE) is registry.compiled(PEOPLE)
    (tmp_path / "b.gq").write_text("query all() { match { $p: Person } return { $p.name } }")
    assert registry.find("all", PEOPLE) is None
    assert registry.reload(PEOPLE).ok
    assert registry.find("all", PEOPLE) is not None
    (tmp_path / "b.gq").write_bytes(b"\xff")
    with pytest.raises(InvalidArgument, match="UTF-8"):
        registry.reload(PEOPLE)
    (tmp_path / "b.gq").write_text("query odd() { match { $p: Persn } return { $p.name } }")
    assert [b.query for b in registry.reload(PEOPLE).breakages] == ["odd"]
    assert registry.find("all", PEOPLE) is not None  # what cannot be used changes nothing
    (tmp_path / "b.gq").unlink()
    assert registry.reload(PEOPLE).ok
    assert registry.find("all", PEOPLE) is None


def test_a_place_that_holds_no_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no directory"):
        QueryRegistry(tmp_path / "gone")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(InvalidArgument, match=r"\.gq"):
        QueryRegistry(tmp_path / "x.txt")


@pytest.mark.parametrize(
    "annotation",
    [
        '@mcp("hidden")',
        "@mcp(expose: 1)",
        '@mcp(expose: "no")',
        "@mcp(tool_name: true)",
        '@mcp(tool_name: "two words")',
        "@mcp(expose: true, expose: false)",
        "@mcp(exposed: true)",
        "@mcp()",
        "@description(expose: true)",
    ],
)
def test_an_annotation_with_a_wrong_argument_is_an_error(annotation: str) -> None:
    text = f"query q() {annotation} {{ match {{ $p: Person }} return {{ $p.name }} }}"
    found = compile_sources(one(text), PEOPLE)
    assert not found.queries
    assert found.validation.breakages[0].code == "Q000"


def test_annotations_are_formatted_as_written() -> None:
    source = SourceText(FILE, "people.gq")
    text = format_queries(parse_queries(source), source)
    assert '@instruction("Names are exact.") @mcp(tool_name: "find-person") {' in text
    assert format_queries(parse_queries(SourceText(text, "f"))) in text.replace("// people\n", "")
