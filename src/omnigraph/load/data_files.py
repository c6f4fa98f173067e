"""Files that a load reads: on a file system, or objects of a bucket."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import IO, BinaryIO, cast

from omnigraph.lance_store.objects.object_inputs import ObjectInput

DataFile = Path | ObjectInput


def open_data(file: DataFile) -> BinaryIO:
    return file.open("rb") if isinstance(file, Path) else file.open()


def open_unpacked(file: DataFile) -> IO[bytes]:
    """The bytes themselves; what is called `.gz` is unpacked on the fly."""
    if not file.name.endswith(".gz"):
        return open_data(file)
    return cast("IO[bytes]", gzip.open(file if isinstance(file, Path) else file.open(), "rb"))


def parquet_input(file: DataFile) -> Path | BinaryIO:
    """What Arrow's Parquet reader takes; it opens local files itself, which is faster."""
    return file if isinstance(file, Path) else file.open()


def size_of(file: DataFile) -> int:
    """Bytes to read, for progress; 0 when unknown."""
    if isinstance(file, ObjectInput):
        return file.size
    try:
        return file.stat().st_size
    except OSError:
        return 0
