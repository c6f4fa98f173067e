"""Text from formatted lines, with the comments of the source put back in their places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.syntax.source_text import STRINGS_AND_COMMENTS, SourceText

_COMMENTS = re.compile(STRINGS_AND_COMMENTS, re.DOTALL)
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class FormattedLine:
    """One line of formatted text, and the offset in the source where its construct starts."""

    text: str
    start: int
    indent: int = 0
    # The line closes a block; comments before it belong to that block.
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of the source. `own_line`: only blanks are before it on its line."""

    text: str
    start: int
    own_line: bool
    blank_after: bool


def find_comments(source: SourceText) -> list[Comment]:
    found = []
    for match in _COMMENTS.finditer(source.text):
        if match.group().startswith('"'):
            continue
        line_start = source.text.rfind("\n", 0, match.start()) + 1
        before = source.text[line_start : match.start()]
        rest = source.text[match.end() : match.end() + 200]
        found.append(
            Comment(
                match.group().rstrip(),
                match.start(),
                not before.strip(),
                re.match(r"[ \t\r]*\n[ \t\r]*\n", rest) is not None,
            )
        )
    return found


def write_lines(lines: Sequence[FormattedLine], comments: Sequence[Comment] = ()) -> str:
    """The text of the lines. A comment stays before its line, or at the end of its line.

    No comment is lost: one that fits nowhere else is put at the end of the text.
    """
    out: list[str] = []
    waiting = list(comments)
    for position, line in enumerate(lines):
        following = next((ahead.start for ahead in lines[position + 1 :] if ahead.text), None)
        while waiting and waiting[0].own_line and waiting[0].start < line.start:
            out += _own_line(waiting.pop(0), _INDENT * (line.indent + line.closes))
        if line.text == "":
            out.append("")
            continue
        trailing, waiting = _trailing(waiting, following)
        out.append(_INDENT * line.indent + "  ".join([line.text, *trailing]))
    for comment in waiting:
        out += _own_line(comment, "")
    while out and out[-1] == "":
        out.pop()
    return "".join(f"{text}\n" for text in out)


def _trailing(waiting: list[Comment], following: int | None) -> tuple[list[str], list[Comment]]:
    """Comments inside or after this line's construct; a `//` comment must come last."""
    taken = [c for c in waiting if not c.own_line and (following is None or c.start < following)]
    left = [c for c in waiting if c not in taken]
    blocks = [c.text for c in taken if c.text.startswith("/*")]
    tails = [c.text for c in taken if c.text.startswith("//")]
    if len(tails) > 1:
        # The second `//` comment would become part of the first.
        tails = ["// " + " ".join(text.removeprefix("//").strip() for text in tails)]
    return blocks + tails, left


def _own_line(comment: Comment, indent: str) -> list[str]:
    lines = [indent + comment.text]
    return [*lines, ""] if comment.blank_after else lines
