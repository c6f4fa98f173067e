"""Words of a text: the one place that says what a term is and when two are close."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")


def terms(text: str) -> list[str]:
    """Runs of letters and digits, lower case, in order."""
    return [word.lower() for word in _WORD.findall(text)]


def allowed_edits(term: str) -> int:
    """How many edits `fuzzy` forgives when the query does not say."""
    return 0 if len(term) <= 2 else 1 if len(term) <= 5 else 2


def edit_distance(left: str, right: str) -> int:
    """Levenshtein: insertions, deletions and replacements of one character."""
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b)))
        previous = current
    return previous[-1]


def text_matches(function: str, text: str, query: str, edits: int | None) -> bool:
    """`search`: any term, `match_text`: all terms, `fuzzy`: any term within its edits."""
    words, wanted = set(terms(text)), terms(query)
    match function:
        case "search":
            return any(term in words for term in wanted)
        case "match_text":
            return bool(wanted) and all(term in words for term in wanted)
        case "fuzzy":
            return any(
                edit_distance(term, word) <= (allowed_edits(term) if edits is None else edits)
                for term in wanted
                for word in words
            )
        case _:
            raise ValueError(function)
