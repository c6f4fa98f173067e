"""The memory that this process may use: that of the machine, or of its container if less."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_ASSUMED = 8 * 1024**3
"""The size on systems that do not report their memory."""

_LEAST_SHARE = 64 * 1024**2


@cache
def machine_memory() -> int:
    return min(
        [_installed(), *_container_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]
    )


def memory_share(part: int, most: int) -> int:
    """One `part`-th of the memory, `most` at most."""
    return max(_LEAST_SHARE, min(most, machine_memory() // part))


def _installed() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _ASSUMED


def _container_limits(membership: Path, root: Path) -> Iterator[int]:
    """Limits of this process's control groups and their parents; none outside Linux."""
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            top, file = root, "memory.max"
        elif "memory" in controllers.split(","):
            top, file = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path of a group may lead outside the mounted directory.
        inner = top if ".." in group else top / group.strip("/")
        for folder in (inner, *inner.parents):
            limit = _text(folder / file).strip()
            if limit.isdecimal():
                yield int(limit)
            if folder == top:
                break


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
