"""Character spans in a source text, and where they are in lines and columns."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets."""

    start: int
    end: int


NO_SPAN = Span(0, 0)


@dataclass(frozen=True)
class SourceText:
    """A text with the name people know it by."""

    text: str
    file: str

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        position = self.text.find("\n")
        while position != -1:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column of a character offset."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """One line without its line break; lines count from 1."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end == -1 else end].rstrip("\r")
