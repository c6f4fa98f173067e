"""Parse tables of a grammar: read from the package, or built when the stored ones do not fit.

Building takes a tenth of a second, which every CLI call would need. The tables are JSON files
beside the grammars; `python -m omnigraph.syntax.grammar_tables GRAMMAR …` makes them. Nothing is
written at run time, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import lark
from lark import Lark

TABLES_SUFFIX = ".tables.json"
START = "start"
"""The rule of whole texts. A grammar may have others that the parser can start from."""
BARE = "bare"


def load_or_build(grammar: Path) -> Lark:
    """The parser of a grammar file."""
    text = grammar.read_text(encoding="utf-8")
    tables = tables_path(grammar)
    if tables.exists():
        stored = json.loads(tables.read_text(encoding="utf-8"), object_pairs_hook=_integer_keys)
        if stored["fits"] == fits(text):
            return Lark._load_from_dict(stored["data"], stored["memo"])  # type: ignore[no-any-return,no-untyped-call]  # noqa: SLF001
    return build(text)


def build(grammar_text: str) -> Lark:
    return Lark(
        grammar_text,
        start=[rule for rule in (START, BARE) if f"\n{rule}: " in grammar_text],
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
    )


def tables_path(grammar: Path) -> Path:
    return grammar.with_suffix(TABLES_SUFFIX)


def fits(grammar_text: str) -> str:
    """Identifies grammar and lark release; stored tables are used only when both are the same."""
    digest = hashlib.sha256(grammar_text.encode()).hexdigest()
    return f"lark {lark.__version__} {digest}"


def write_tables(grammar: Path) -> None:
    text = grammar.read_text(encoding="utf-8")
    data, memo = build(text).memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    stored = {"fits": fits(text), "data": data, "memo": memo}
    tables_path(grammar).write_text(
        json.dumps(stored, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8"
    )


def _integer_keys(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    # JSON has only string keys, but states and memo entries have numbers.
    return {int(key) if key.isdecimal() else key: value for key, value in pairs}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write_tables(Path(argument))
