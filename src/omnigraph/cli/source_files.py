"""Source files given on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.syntax.source_text import SourceText

STDIN = "-"


def read_source(path: str) -> SourceText:
    """The text of a file, or of standard input for `-`."""
    if path == STDIN:
        return SourceText(_decode(sys.stdin.buffer.read(), "<stdin>"), "<stdin>")
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", file=path) from None
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}", file=path) from None
    return SourceText(_decode(data, path), path)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidArgument(
            f"{name}:{line}: the text is not UTF-8 at byte {error.start}", file=name, line=line
        ) from None
