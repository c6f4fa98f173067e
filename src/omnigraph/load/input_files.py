"""Files that a load reads, on a file system or in a bucket, and text files as blocks of lines.

Text reaches the parsers as UTF-8. Files in other encodings are converted while they are read.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

import pyarrow as pa

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.lance_store.objects.object_inputs import ObjectInput


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A copy of a file on local disk; errors name the file that it was made of. Pickles."""

    path: Path
    copy_of: str

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def __str__(self) -> str:
        return self.copy_of

    def open(self) -> BinaryIO:
        return self.path.open("rb")


DataFile = Path | ObjectInput | KeptCopy

_BLOCK_BYTES = 16 * 1024 * 1024
_LONGEST_LINE = 256 * 1024 * 1024
_CONVERTED_BYTES = 1024 * 1024
_BOM = codecs.BOM_UTF8
# UTF-32 comes first, because its mark begins with the mark of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PACKED = (".gz", ".zst")
_UTF8 = ("utf-8", "utf-8-sig", "ascii")


@dataclass(frozen=True, slots=True)
class TextForm:
    """How text files are written. What is None, the file itself tells."""

    encoding: str | None = None
    delimiter: str | None = None
    """Between the cells of CSV: one character, or the word `tab`."""
    quote: str | None = None
    """Around cells of CSV; None is `"`."""

    def __post_init__(self) -> None:
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")
        for name, given in (("delimiter", self.delimiter), ("quote", self.quote)):
            if given is not None and (len(given) != 1 or given in "\r\n\0" or given.isalnum()):
                raise InvalidArgument(
                    f"{name} {given!r}: it is one character, such as ; or | (a tab is written as "
                    "tab), and no letter or digit"
                )
        if self.delimiter is not None and self.delimiter == (self.quote or '"'):
            raise InvalidArgument(f"{self.delimiter!r} is both the delimiter and the quote")
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _known_encoding(self.encoding))


def _known_encoding(name: str) -> str:
    try:
        # Codecs such as `hex` are no encodings of text, and encoding with them fails.
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise InvalidArgument(
            f"no encoding {name!r}; for example: utf-8, utf-16, latin-1, cp1252"
        ) from None


def unpacked_name(name: str) -> str:
    """The name of a file without `.gz` or `.zst`."""
    packed = is_packed(name)
    return name.rpartition(".")[0] if packed else name


def is_packed(name: str) -> bool:
    return name.lower().endswith(_PACKED)


def open_unpacked(file: DataFile) -> IO[bytes]:
    """The bytes of a file; those of a `.gz` or `.zst` file are unpacked while they are read."""
    name = file.name.lower()
    if isinstance(file, KeptCopy):
        file = file.path
    if name.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(file if isinstance(file, Path) else file.open(), "rb"))
    opened = file.open("rb") if isinstance(file, Path) else file.open()
    if name.endswith(".zst"):
        return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(opened, "zstd")))
    return opened


def open_utf8(file: DataFile, encoding: str | None = None) -> IO[bytes]:
    """The text of a file as UTF-8. Without `encoding`, the mark at its beginning tells it."""
    return _as_utf8(open_unpacked(file), str(file), encoding)


@contextmanager
def open_text(file: DataFile, encoding: str | None) -> Iterator[TextIO]:
    """The text of a file; errors name the file, and the line of a byte that cannot be decoded."""
    with file_errors(file):
        try:
            text = open_utf8(file, encoding)
            with io.TextIOWrapper(text, encoding="utf-8-sig", newline="") as opened:
                yield opened
        except UnicodeDecodeError as error:
            raise find_undecodable(file) from error


def is_plain_utf8(file: DataFile, encoding: str | None) -> bool:
    """Whether workers can read ranges of the file; also when the file cannot be read at all."""
    if is_packed(file.name) or (encoding is not None and encoding not in _UTF8):
        return False
    try:
        with open_unpacked(file) as opened:
            return encoding is not None or _marked_encoding(opened) is None
    except OSError:
        return True  # the worker that reads the file reports the error


def _as_utf8(
    opened: IO[bytes], name: str, encoding: str | None, *, keep_open: bool = False
) -> IO[bytes]:
    found = encoding or _marked_encoding(opened)
    if found is None or found in _UTF8:
        return opened
    converted = _Converted(opened, name, found, keep_open)
    return cast("IO[bytes]", io.BufferedReader(converted, _CONVERTED_BYTES))


def _marked_encoding(opened: IO[bytes]) -> str | None:
    """The encoding that the first bytes name; the bytes are still read afterwards."""
    beginning = cast("Any", opened).peek(4)[:4]
    return next((encoding for mark, encoding in _MARKS if beginning.startswith(mark)), None)


class _Converted(io.RawIOBase):
    """Text of another encoding as UTF-8."""

    def __init__(self, opened: IO[bytes], name: str, encoding: str, keep_open: bool) -> None:
        self._opened = opened
        self._keep_open = keep_open
        self._name = name
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._waiting = b""
        self._line = 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting:
            block = self._opened.read(_CONVERTED_BYTES)
            text = self._decode(block)
            self._line += text.count("\n")
            self._waiting = text.encode()
            if not block:
                break
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size

    def close(self) -> None:
        if not self._keep_open:
            self._opened.close()
        super().close()

    def _decode(self, block: bytes) -> str:
        try:
            return self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            before = bytes(error.object[: error.start]).decode(self._encoding, "replace")
            line = self._line + before.count("\n")
            raise _undecodable(self._name, line, error, self._encoding) from error


def find_undecodable(file: DataFile) -> InvalidArgument:
    """Read a file again that was not UTF-8, to name the line of the first wrong byte."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with open_unpacked(file) as opened:
        while True:
            block = opened.read(_CONVERTED_BYTES)
            try:
                line += decoder.decode(block, final=not block).count("\n")
            except UnicodeDecodeError as error:
                line += bytes(error.object[: error.start]).count(b"\n")
                return _undecodable(str(file), line, error, "utf-8")
            if not block:
                return InvalidArgument(f"{file}: the text changed while it was read")


def _undecodable(name: str, line: int, error: UnicodeDecodeError, encoding: str) -> InvalidArgument:
    spelled = "UTF-8" if encoding == "utf-8" else encoding
    return InvalidArgument(
        f"{name}:{line}: byte 0x{error.object[error.start]:02X} is not {spelled}; name the "
        f"encoding of the file: {ENCODING_HINT}",
        file=name,
        line=line,
    )


ENCODING_HINT = '--encoding cp1252 (encoding="cp1252")'


def parquet_input(file: DataFile) -> Path | BinaryIO:
    """An input for Arrow's Parquet reader; it opens local files itself because that is faster."""
    if isinstance(file, KeptCopy):
        return file.path
    return file if isinstance(file, Path) else file.open()


def size_of(file: DataFile) -> int:
    """Bytes to read, for progress; 0 when unknown."""
    if not isinstance(file, Path):
        return file.size
    try:
        return file.stat().st_size
    except OSError:
        return 0


@contextmanager
def file_errors(path: DataFile | str) -> Iterator[None]:
    """Raise errors of the file system and of compressed files as errors that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such file", file=str(path)) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidArgument(f"{path}: not a whole gzip file: {error}", file=str(path)) from error
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno is None and str(path).lower().endswith(".zst"):
            raise InvalidArgument(
                f"{path}: not a whole zstd file: {reason}", file=str(path)
            ) from error
        raise InvalidArgument(f"{path}: cannot be read: {reason}", file=str(path)) from error


def line_blocks(
    path: DataFile, start: int = 0, end: int | None = None, encoding: str | None = None
) -> Iterator[tuple[int, bytes]]:
    """(how many lines came before, whole lines), for the lines that begin in [start, end).

    Workers that share one plain file each read a range of it. A line belongs to the range in which
    it begins, and lines before the range are not counted.
    """
    with file_errors(str(path)), open_utf8(path, encoding) as file:
        yield from _blocks(file, str(path), _skip_to_line(file, start), end)


def stream_blocks(
    file: IO[bytes], name: str, encoding: str | None = None
) -> Iterator[tuple[int, bytes]]:
    """`line_blocks` of an open file or pipe, which stays open."""
    with file_errors(name):
        peekable = file if hasattr(file, "peek") else io.BufferedReader(cast("Any", file))
        try:
            text = _as_utf8(peekable, name, encoding, keep_open=True)
            yield from _blocks(text, name)
        finally:
            if peekable is not file:
                cast("io.BufferedReader", peekable).detach()


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
