"""Character spans in a source text, and where they are in lines and columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets."""

    start: int
    end: int


NO_SPAN = Span(0, 0)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text with the name people know it by."""

    text: str
    file: str

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column of a character offset."""
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - self._line_start(offset) + 1

    def line_at(self, offset: int) -> str:
        """The line around an offset, without its line break."""
        end = self.text.find("\n", offset)
        line = self.text[self._line_start(offset) : len(self.text) if end == -1 else end]
        return line.rstrip("\r")

    def _line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1
