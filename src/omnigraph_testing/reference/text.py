"""Text predicates, word by word; what a word is says `values.text_terms`."""

from __future__ import annotations

from omnigraph.values.text_terms import default_edits, terms


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
                edit_distance(term, word) <= (default_edits(term) if edits is None else edits)
                for term in wanted
                for word in words
            )
        case _:
            raise ValueError(function)
