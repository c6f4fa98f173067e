"""Functions of texts on Arrow columns; a character is a Unicode code point.

Arguments are columns or scalars, and NULL in gives NULL out. Arrow's kernels take only constants
beside the text. Other arguments are evaluated row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument

# Larger bounds of a substring mean the same, because no text is longer.
_LONGEST = 2**31


def _substring(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    text, *bounds = arguments
    if not _are_scalars(bounds):
        return _row_by_row(_substring_of, arguments, kind)
    if not _are_known(bounds) or not _has_values(text):
        return pa.scalar(None, kind)
    start, stop = _slice(*(bound.as_py() for bound in bounds))
    return pc.utf8_slice_codeunits(text, start, stop)


def _substring_of(text: str, start: int, length: int | None = None) -> str:
    first, stop = _slice(start, length)
    return text[first:stop]


def _slice(start: int, length: int | None = None) -> tuple[int, int | None]:
    """The bounds of Python's slices, which count from 0."""
    if start < 1:
        raise InvalidArgument(
            f"substring: the first character is 1, there is no character {start}",
            function="substring",
        )
    if length is not None and length < 0:
        raise InvalidArgument(f"substring: a length of {length} is negative", function="substring")
    first = min(start - 1, _LONGEST)
    return first, None if length is None else min(first + length, _LONGEST)


def _replace(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    text, *texts = arguments
    if not _are_scalars(texts):
        return _row_by_row(_replace_in, arguments, kind)
    if not _are_known(texts):
        return pa.scalar(None, kind)
    old, new = (each.as_py() for each in texts)
    # Arrow does not end when it looks for the empty text.
    return pc.replace_substring(text, old, new) if old else text


def _replace_in(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _split(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    text, separator = arguments
    if isinstance(separator, pa.Scalar):
        if not separator.is_valid:
            return pa.scalar(None, kind)
        if separator.as_py():
            return pc.split_pattern(text, separator.as_py()).cast(kind)
        if isinstance(text, pa.Scalar):
            return pa.scalar(_split_at(text.as_py(), "") if text.is_valid else None, kind)
    return _row_by_row(_split_at, arguments, kind)


def _split_at(text: str, separator: str) -> list[str]:
    """The empty separator gives the characters. There is always at least one part."""
    return text.split(separator) if separator else list(text) or [""]


def _trim(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    text, *characters = arguments
    if not characters:
        return pc.utf8_trim_whitespace(text)
    if not _are_scalars(characters):
        return _row_by_row(str.strip, arguments, kind)
    if not _are_known(characters):
        return pa.scalar(None, kind)
    return pc.utf8_trim(text, characters[0].as_py())


def _regex_match(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    text, pattern = arguments
    if not pattern.is_valid:
        return pa.scalar(None, kind)
    return pc.match_substring_regex(text, pattern=pattern.as_py())


def _are_scalars(values: Sequence[Any]) -> bool:
    return all(isinstance(value, pa.Scalar) for value in values)


def _are_known(scalars: Sequence[Any]) -> bool:
    return all(scalar.is_valid for scalar in scalars)


def _has_values(value: Any) -> bool:
    if isinstance(value, pa.Scalar):
        return bool(value.is_valid)
    return bool(value.null_count < len(value))


def _row_by_row(
    function: Callable[..., Any], arguments: Sequence[Any], kind: pa.DataType
) -> pa.Array:
    """At least one argument is a column."""
    columns = [repeat(a.as_py()) if isinstance(a, pa.Scalar) else a.to_pylist() for a in arguments]
    rows = zip(*columns, strict=False)
    return pa.array([None if None in row else function(*row) for row in rows], kind)


TEXT_FUNCTIONS: dict[str, Callable[[Sequence[Any], pa.DataType], Any]] = {
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "trim": _trim,
    "regex_match": _regex_match,
}
