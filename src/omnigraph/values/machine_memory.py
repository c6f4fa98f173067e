"""The memory that this process may use: that of the machine, or of its container if less.

`keep_freed_blocks` makes the allocator use memory again that large work has freed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_ASSUMED = 8 * 1024**3
"""The size on systems that do not report their memory."""

_LEAST_SHARE = 64 * 1024**2

_LARGEST_KEPT = 20 * 1024**2
"""Bytes. Lance writes pages of up to 16 MiB."""


@cache
def machine_memory() -> int:
    return min(
        [_installed(), *_container_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]
    )


def memory_share(part: int, most: int) -> int:
    """One `part`-th of the memory, `most` at most."""
    return max(_LEAST_SHARE, min(most, machine_memory() // part))


@cache
def keep_freed_blocks() -> None:
    """Let the allocator of C keep freed blocks of some MiB for the next block of this size.

    Large writes take and free such blocks all the time. If each of them comes from the kernel, its
    pages are made and cleared again, which costs a quarter of the CPU of a write. glibc keeps a
    block if a larger one has been freed before, so a large one is taken and freed here. It is not
    touched, so it takes no memory. Other allocators are not changed by it.
    """
    bytes(_LARGEST_KEPT)


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
