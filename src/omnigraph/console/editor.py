"""The editor for queries and schemas: colours, words to complete, and errors where they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from omnigraph.catalog.model import Catalog
from omnigraph.console.facts import edge_word

_WORDS = (
    *("query", "match", "return", "order", "limit", "offset", "where", "insert"),
    *("update", "set", "delete", "not", "optional", "exists", "distinct", "and"),
    *("or", "in", "is", "null", "case", "when", "then", "else"),
    *("end", "contains", "starts_with", "search", "fuzzy", "match_text", "nearest", "bm25"),
    *("rrf", "count", "sum", "avg", "min", "max", "collect", "now"),
    *(
        "node",
        "edge",
        "interface",
        "implements",
    ),
)

_LANGUAGE = """
<script type="module">
import * as CM from "nicegui-codemirror";
const words = new Set(%s);
const token = (stream) => {
  if (stream.eatSpace()) return null;
  if (stream.match("//")) { stream.skipToEnd(); return "comment"; }
  if (stream.match(/"(?:[^"\\\\]|\\\\.)*"?/)) return "string";
  if (stream.match(/\\$[A-Za-z_][A-Za-z0-9_]*/)) return "variableName";
  if (stream.match(/@[A-Za-z_]+/)) return "meta";
  if (stream.match(/-?[0-9]+(?:\\.[0-9]+)?/)) return "number";
  const word = stream.match(/[A-Za-z_][A-Za-z0-9_]*/);
  if (word) return words.has(word[0]) ? "keyword" : /^[A-Z]/.test(word[0]) ? "typeName" : null;
  stream.next();
  return null;
};
for (const name of ["gq", "pg"]) {
  if (CM.languages.some((l) => l.name === name)) continue;
  CM.languages.push(CM.LanguageDescription.of({
    name, support: new CM.LanguageSupport(CM.StreamLanguage.define({ token })) }));
}
</script>
"""


def use_language() -> None:
    """Teach the editor of this page the two languages."""
    ui.add_head_html(_LANGUAGE % json.dumps(_WORDS))


def words_of(catalog: Catalog) -> list[str]:
    """Names of the schema to complete, each once."""
    found = [node.name for node in catalog.nodes]
    found += [edge_word(edge.name) for edge in catalog.edges]
    found += [p.name for entity in catalog.entity_types() for p in entity.properties]
    return list(dict.fromkeys(found))


def completions(text: str, words: Sequence[str], most: int = 8) -> list[str]:
    """The words that begin as the text ends."""
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    begun = text[start:]
    if not begun:
        return []
    every = [*words, *_WORDS]
    return [w for w in every if w.startswith(begun) and w != begun][:most]


def mark_errors(editor: ui.codemirror, diagnostics: Sequence[Mapping[str, Any]]) -> None:
    """Underline the places that diagnostics name."""
    text = editor.value
    editor.decorations = [
        {
            "kind": "mark",
            "from": start,
            "to": max(start + 1, min(len(text), _offset(text, d["end_line"], d["end_column"]))),
            "class": "og-error",
        }
        for d in diagnostics
        if (start := _offset(text, d["line"], d["column"])) < len(text)
    ]


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(len(part) + 1 for part in lines[: line - 1]) + column - 1
