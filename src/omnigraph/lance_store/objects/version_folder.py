"""Has a dataset on local disk surely not moved? One `stat` instead of listing its versions.

Every commit puts a file into the `_versions` folder, so its time of change moves. File systems
count time in ticks, so a folder that changed a moment ago may change again without showing it: what
is seen is trusted only once it has been still for longer than any tick.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STILL_NANOSECONDS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class FolderMark:
    """Which folder it was and when it last changed."""

    inode: int
    changed: int


class VersionFolder:
    """The folder of one dataset branch; looked at before every read of a head."""

    def __init__(self, root: Path, location: str, branch: str | None) -> None:
        tree = () if branch is None else ("tree", branch)
        self._path = str(root.joinpath(location, *tree, "_versions"))

    def mark(self) -> FolderMark | None:
        """How the folder looks now; None when it is gone or changed too recently to tell."""
        found = self._look()
        if found is None or time.time_ns() - found.st_mtime_ns < _STILL_NANOSECONDS:
            return None
        return FolderMark(found.st_ino, found.st_mtime_ns)

    def is_still(self, mark: FolderMark) -> bool:
        found = self._look()
        return (
            found is not None and found.st_mtime_ns == mark.changed and found.st_ino == mark.inode
        )

    def _look(self) -> os.stat_result | None:
        try:
            return os.stat(self._path)  # noqa: PTH116 - Path costs more than the call
        except OSError:
            return None
