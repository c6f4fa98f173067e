"""Types are added by text, by a file or by a catalog; nothing else may change with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import init
from omnigraph.schema.build import catalog_from_text

FIRST = "node P { name: String @key }\n"
MORE = FIRST + "// and who they know\nedge Knows: P -> P\n"


@pytest.mark.parametrize("kind", ["text", "file", "catalog"])
def test_types_are_added(tmp_path: Path, kind: str) -> None:
    graph = init(tmp_path / "g", FIRST)
    graph.apply({"P": {"insert": [{"name": "a"}, {"name": "b"}]}})
    file = tmp_path / "more.pg"
    file.write_text(MORE)
    graph.schema.apply({"text": MORE, "file": file, "catalog": catalog_from_text(MORE)}[kind])
    graph.apply({"Knows": {"insert": [{"from": "a", "to": "b"}]}})
    assert (graph.read("P").num_rows, graph.read("Knows").num_rows) == (2, 1)
    shown = graph.schema.show().source
    assert catalog_from_text(shown) == catalog_from_text(MORE)
    assert (shown == MORE) is (kind != "catalog"), "a text is kept as it was written"
