"""Size and nesting limits, checked before a parser sees the text."""

from __future__ import annotations

import re

from omnigraph.syntax.diagnostics import Diagnostic
from omnigraph.syntax.span import Span

MAX_CHARACTERS = 1_048_576
MAX_NESTING = 64

# Strings and comments are skipped so that brackets inside them do not count. Unclosed ones reach
# to the end: trying again behind each of them would take quadratic time.
SKIPPED = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)'
_BRACKETS = re.compile(rf"{SKIPPED}|[(){{}}\[\]]", re.DOTALL)


def check_limits(text: str, code: str) -> Diagnostic | None:
    """Why this text will not be parsed at all, or None.

    Without it a hostile text could take the process's stack or minutes of its time.
    """
    if len(text) > MAX_CHARACTERS:
        return Diagnostic(
            code,
            f"the text has {len(text):,} characters, the limit is {MAX_CHARACTERS:,}",
            Span(0, 0),
            "split it into several files",
        )
    depth = 0
    for found in _BRACKETS.finditer(text):
        bracket = found.group()
        if bracket in "([{":
            depth += 1
            if depth > MAX_NESTING:
                return Diagnostic(
                    code,
                    f"brackets are nested deeper than {MAX_NESTING} levels",
                    Span(found.start(), found.end()),
                    "split the expression or the block",
                )
        elif bracket in ")]}":
            depth -= 1
    return None
