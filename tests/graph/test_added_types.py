"""Types are added by text, by a file or by a catalog; nothing else may change with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import init
from omnigraph.errors import InvalidArgument, ParseError, SchemaRefused
from omnigraph.schema.build import catalog_from_text

FIRST = "node P { name: String @key }\n"
MORE = FIRST + "// and who they know\nedge Knows: P -> P\n"


@pytest.mark.parametrize("kind", ["text", "file", "catalog"])
def test_types_are_added(tmp_path: Path, kind: str) -> None:
    graph = init(tmp_path / "g", FIRST)
    graph.apply({"P": {"insert": [{"name": "a"}, {"name": "b"}]}})
    file = tmp_path / "more.pg"
    file.write_text(MORE)
    graph.extend_schema({"text": MORE, "file": file, "catalog": catalog_from_text(MORE)}[kind])
    graph.apply({"Knows": {"insert": [{"from": "a", "to": "b"}]}})
    assert (graph.read("P").num_rows, graph.read("Knows").num_rows) == (2, 1)
    shown = graph.schema.show().source
    assert catalog_from_text(shown) == catalog_from_text(MORE)
    assert (shown == MORE) is (kind != "catalog"), "a text is kept as it was written"


def test_what_is_there_may_not_change(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", FIRST)
    with pytest.raises(SchemaRefused, match=r"only adds types.*P"):
        graph.extend_schema("node P { name: String @key  age: I32? }")
    with pytest.raises(SchemaRefused, match=r"only adds types.*P"):
        graph.extend_schema("node Q { name: String @key }")
    with pytest.raises(ParseError):
        graph.extend_schema("node P { name }")
    with pytest.raises(InvalidArgument, match=r"cannot read the schema file .*none\.pg"):
        graph.extend_schema(tmp_path / "none.pg")
    assert graph.schema.show().source == FIRST
