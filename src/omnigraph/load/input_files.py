"""Files that a load reads, on a file system or in a bucket, and text files as blocks of lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.lance_store.objects.object_inputs import ObjectInput

DataFile = Path | ObjectInput

_BLOCK_BYTES = 16 * 1024 * 1024
_LONGEST_LINE = 256 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


def open_unpacked(file: DataFile) -> IO[bytes]:
    """The bytes of a file; those of a `.gz` file are unpacked while they are read."""
    if not file.name.endswith(".gz"):
        return file.open("rb") if isinstance(file, Path) else file.open()
    return cast("IO[bytes]", gzip.open(file if isinstance(file, Path) else file.open(), "rb"))


def parquet_input(file: DataFile) -> Path | BinaryIO:
    """An input for Arrow's Parquet reader; it opens local files itself because that is faster."""
    return file if isinstance(file, Path) else file.open()


def size_of(file: DataFile) -> int:
    """Bytes to read, for progress; 0 when unknown."""
    if isinstance(file, ObjectInput):
        return file.size
    try:
        return file.stat().st_size
    except OSError:
        return 0


@contextmanager
def file_errors(path: DataFile | str) -> Iterator[None]:
    """Raise errors of the file system and of gzip as errors that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such file", file=str(path)) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidArgument(f"{path}: not a whole gzip file: {error}", file=str(path)) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument(f"{path}: cannot be read: {reason}", file=str(path)) from error


def line_blocks(
    path: DataFile, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """(how many lines came before, whole lines), for the lines that begin in [start, end).

    Workers that share one plain file each read a range of it. A line belongs to the range in which
    it begins, and lines before the range are not counted.
    """
    with file_errors(str(path)), open_unpacked(path) as file:
        yield from _blocks(file, str(path), _skip_to_line(file, start), end)


def stream_blocks(file: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """`line_blocks` of an open file or pipe."""
    with file_errors(name):
        yield from _blocks(file, name)


def _blocks(
    file: IO[bytes], name: str, position: int = 0, end: int | None = None
) -> Iterator[tuple[int, bytes]]:
    lines_before = 0
    while end is None or position < end:
        block = file.read(_BLOCK_BYTES if end is None else min(_BLOCK_BYTES, end - position))
        if not block:
            return
        if not block.endswith(b"\n"):
            block += file.readline(_LONGEST_LINE)
            if len(block) >= _LONGEST_LINE and not block.endswith(b"\n"):
                raise _too_long(name, lines_before + block.count(b"\n") + 1)
        yield lines_before, block.removeprefix(_BOM) if position == 0 else block
        lines_before += block.count(b"\n")
        position += len(block)


def _skip_to_line(file: IO[bytes], start: int) -> int:
    """The position of the first line that begins at `start` or later."""
    if start == 0:
        return 0
    file.seek(start - 1)
    skipped = file.readline()
    return start - 1 + len(skipped)


def _too_long(name: str, line: int) -> InvalidArgument:
    return InvalidArgument(
        f"{name}:{line}: a line of more than {_LONGEST_LINE >> 20} MiB", file=name, line=line
    )
