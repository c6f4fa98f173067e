"""JSON arrays: the objects of a `.json` file that is one list, as blocks of lines for `JsonLines`.

The file is read a part at a time. Memory holds one block of objects, or one object if that is
larger. The place of a row in errors is its number in the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TextIO

from omnigraph.load.input_files import DataFile, file_errors, open_text, open_utf8
from omnigraph.load.json_lines import JsonLines
from omnigraph.load.parsed_rows import BadLine, Blocks, ParsedBlock

_CHARACTERS_AT_ONCE = 1024 * 1024
_LARGEST_ROW = 256 * 1024 * 1024
_BLOCK_CHARACTERS = 8 * 1024 * 1024
_SOLID = re.compile(r"[^ \t\r\n]")
_LONGEST_TOKEN = 16
"""Of a literal, an escape or a delimiter: an error so close to the end may be a cut token."""
_DECODER = json.JSONDecoder()


def is_json_array(file: DataFile, encoding: str | None) -> bool:
    """Whether the first character of the file, apart from spaces, opens a list."""
    with file_errors(file), open_utf8(file, encoding) as opened:
        while block := opened.read(4096):
            text = block.lstrip(b"\xef\xbb\xbf \t\r\n")
            if text:
                return text.startswith(b"[")
    return False


def array_blocks(file: DataFile, parser: JsonLines, encoding: str | None) -> Blocks:
    """The rows of the list; after a mistake in its syntax the rest is not read."""
    with open_text(file, encoding) as opened:
        elements = _Elements(opened)
        rows, size, first = list[str](), 0, 1
        problem: BadLine | None = None
        try:
            for text in elements:
                # A JSON text may hold a newline between its tokens, but not inside of one.
                rows.append(text.replace("\n", " "))
                size += len(text)
                if size >= _BLOCK_CHARACTERS:
                    yield _block(rows, first, file, parser)
                    first += len(rows)
                    rows, size = [], 0
        except BadLine as bad:
            problem = bad
        if rows:
            yield _block(rows, first, file, parser)
            first += len(rows)
        if problem is not None:
            yield ParsedBlock(str(file), problems=[problem.at(first)])


def _block(rows: list[str], first: int, file: DataFile, parser: JsonLines) -> ParsedBlock:
    return parser.parse(("\n".join(rows) + "\n").encode(), first, str(file))


class _Elements:
    """The texts of the elements of a list, one after the other."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._line = 1
        """The line on which `_text` begins."""

    def __iter__(self) -> Iterator[str]:
        self._next()
        self._at += 1  # the bracket
        if self._next() != "]":
            yield self._element()
            while self._next() == ",":
                self._at += 1
                self._next()
                yield self._element()
        if self._next() != "]":
            raise self._wrong("',' or ']' is missing", self._at)
        self._at += 1
        if self._next():
            raise self._wrong("text follows the list", self._at)

    def _next(self) -> str:
        """The next character that is not a space, at which `_at` stands then; "" at the end."""
        while (found := _SOLID.search(self._text, self._at)) is None:
            self._at = len(self._text)
            if not self._read(_CHARACTERS_AT_ONCE):
                return ""
        self._at = found.start()
        return found[0]

    def _element(self) -> str:
        more = _CHARACTERS_AT_ONCE
        while True:
            try:
                _, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._may_be_cut(error) or not self._read(more):
                    raise self._wrong(error.msg, error.pos) from None
                more *= 2
                continue
            except (RecursionError, ValueError) as error:
                raise self._wrong(str(error)[:100], self._at) from None
            text = self._text[self._at : end]
            self._at = end
            return text

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether the rest of the file may complete the element."""
        if len(self._text) - self._at > _LARGEST_ROW:
            return False
        unended = error.msg.startswith("Unterminated string")
        return unended or error.pos >= len(self._text) - _LONGEST_TOKEN

    def _read(self, characters: int) -> bool:
        """Append to `_text`, which loses what was read already."""
        more = self._file.read(characters)
        if more:
            self._line += self._text.count("\n", 0, self._at)
            self._text = self._text[self._at :] + more
            self._at = 0
        return bool(more)

    def _wrong(self, what: str, position: int) -> BadLine:
        line = self._line + self._text.count("\n", 0, position)
        column = position - self._text.rfind("\n", 0, position)
        return BadLine("syntax", f"not JSON: {what} (line {line}, column {column} of the file)")
