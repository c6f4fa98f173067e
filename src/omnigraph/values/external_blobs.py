"""Blobs outside of the graph: how a blob value names one, and which addresses are allowed.

A stored blob is bytes. A marked cell stands for an external blob: the mark, then its URI. So rows,
merges, diffs and files carry it as they carry other bytes, and nothing fetches its target.

Addresses are compared as texts. That is safe because only canonical ones are accepted: each object
has one spelling, and no spelling below a base leaves the base.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from omnigraph.errors import ExternalBlobDenied, InvalidArgument

SCHEMES = ("file", "s3", "http", "https")

MARK = b"\x00omnigraph:external-blob\x00"
"""The bytes that begin the cell of every external blob."""

_LONGEST = 2048
LONGEST_CELL = len(MARK) + _LONGEST
"""No external blob has a longer cell."""
_SHOWN = 80
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[1-9][0-9]{0,4})?")
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})+")
_ENCODED = re.compile(r"%([0-9A-F]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def external_cell(uri: str) -> bytes:
    """The stored bytes of an external blob."""
    return MARK + uri.encode()


def external_uri(cell: bytes) -> str | None:
    """The URI of an external blob; None for the bytes of any other blob."""
    return cell[len(MARK) :].decode(errors="replace") if cell.startswith(MARK) else None


@dataclass(frozen=True, slots=True)
class ExternalBases:
    """The addresses below which external blobs may lie; with none, every external blob is denied.

    Writes judge the addresses that they are given, and reads those that they follow. Rows that
    stand already are not judged again when they are merged, copied or moved.
    """

    bases: tuple[str, ...] = ()

    @staticmethod
    def of(bases: Sequence[str]) -> ExternalBases:
        """Refuses bases that are not canonical, and bases that overlap."""
        if isinstance(bases, str):
            bases = (bases,)
        found: list[str] = []
        for base in bases:
            problem = base_problem(base)
            if problem is not None:
                raise InvalidArgument(
                    f"external blobs below {shown_uri(base)!r}: the base {problem}",
                    setting="external_blobs",
                )
            if any(overlap(base, other) for other in found):
                raise InvalidArgument(
                    f"external blobs below {base!r}: the base overlaps another one",
                    setting="external_blobs",
                )
            found.append(base)
        return ExternalBases(tuple(base.rstrip("/") for base in found))

    def judge(self, uri: str) -> str:
        """The URI if it is allowed; raises `ExternalBlobDenied`."""
        problem = uri_problem(uri)
        if problem is not None:
            raise _denied(uri, problem)
        base = next((base for base in self.bases if uri.startswith(f"{base}/")), None)
        if base is None:
            raise _denied(uri, "lies below no allowed base")
        if uri.startswith("file:") and not _is_inside(uri, base):
            raise _denied(uri, f"leaves {base} by a symbolic link")
        return uri


NONE_ALLOWED = ExternalBases()


def uri_problem(uri: str) -> str | None:
    """What is wrong with the address of an external blob, whatever is allowed; None if nothing."""
    problem, path = _parsed(uri)
    if problem is not None:
        return problem
    return None if path else "names no object"


def base_problem(base: str) -> str | None:
    """What is wrong with a base; None if nothing. It may end with a slash."""
    problem, path = _parsed(base.removesuffix("/") if base != "file:///" else base)
    if problem is not None:
        return problem
    return "must name a folder" if base.startswith("file:") and not path else None


def overlap(one: str, other: str) -> bool:
    """Whether one base lies below the other, or is the same."""
    first, second = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return first.startswith(second) or second.startswith(first)


def shown_uri(uri: str) -> str:
    """The URI as errors show it: shortened, without what may be a secret."""
    if "@" in uri.partition("://")[2].partition("/")[0]:
        return f"{uri.partition('://')[0][:20]}://…"
    plain = re.split(r"[?#]", uri, maxsplit=1)[0]
    hidden = len(plain) < len(uri) or len(plain) > _SHOWN
    return f"{plain[:_SHOWN]}…" if hidden else plain


def local_path(uri: str) -> Path:
    """The path that a `file://` address names."""
    return Path(os.fsdecode(unquote_to_bytes(uri.removeprefix("file://"))))


def _denied(uri: str, problem: str) -> ExternalBlobDenied:
    shown = shown_uri(uri)
    return ExternalBlobDenied(
        f"a blob is written as 'base64:' and its bytes; {shown!r} would be an external URI, which "
        f"this graph does not allow: it {problem}",
        uri=shown,
        reason=problem,
    )


def _parsed(uri: str) -> tuple[str | None, str]:
    """(what is wrong, the path)."""
    found = _ADDRESS.fullmatch(uri)
    if found is None or len(uri) > _LONGEST:
        return "is not an absolute URI", ""
    scheme, authority, path, rest = found.groups()
    if scheme.lower() not in SCHEMES:
        return f"has a scheme that is none of {', '.join(SCHEMES)}", ""
    if "@" in authority:
        return "must hold no credentials", ""
    if rest:
        return "must have no query and no fragment", ""
    if scheme != scheme.lower() or authority != authority.lower():
        return "must have its scheme and host in lower case", ""
    if scheme == "file" and authority:
        return "must be file:///path, without a host", ""
    if scheme != "file" and not _HOST.fullmatch(authority):
        return "must name a plain host or bucket", ""
    return _path_problem(path), path


def _path_problem(path: str) -> str | None:
    for segment in path.split("/")[1:]:
        if segment in ("", ".", ".."):
            return "must be canonical: without `.`, `..`, `//` and a slash at the end"
        if not _SEGMENT.fullmatch(segment):
            return "has characters that must be percent-encoded, in upper case"
        codes = [int(code, 16) for code in _ENCODED.findall(segment)]
        if any(code in _UNRESERVED for code in codes):
            return "must not percent-encode letters, digits, `-`, `.`, `_` and `~`"
        if any(code < 0x20 or code in b"\x7f/\\" for code in codes):
            return "must not hold an encoded slash, backslash or control character"
        if re.search(r"%25[0-9A-Fa-f]{2}", segment):
            return "must not be percent-encoded twice"
    return None


def _is_inside(uri: str, base: str) -> bool:
    """Whether the file is below the base after symbolic links are followed, as far as it exists."""
    try:
        return local_path(uri).resolve().is_relative_to(local_path(base).resolve())
    except (OSError, RuntimeError, ValueError):
        return False
