"""Ascending line numbers as runs: most rows follow the one before."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

Lines = npt.NDArray[np.int64]


def encode_lines(lines: Lines) -> bytes:
    starts = np.flatnonzero(np.diff(lines, prepend=lines[:1] - 2) != 1)
    lengths = np.diff(np.append(starts, len(lines)))
    gaps = np.diff(lines[starts], prepend=0)
    return zlib.compress(np.concatenate([gaps, lengths]).astype("<i8").tobytes(), 1)


def decode_lines(data: bytes) -> Lines:
    gaps, lengths = np.frombuffer(zlib.decompress(data), "<i8").reshape(2, -1)
    firsts = np.cumsum(gaps)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(firsts, lengths) + within, np.int64)
