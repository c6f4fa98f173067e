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
        mark = self._look()
        if mark is None or time.time_ns() - mark.changed < _STILL_NANOSECONDS:
            return None
        return mark

    def is_still(self, mark: FolderMark) -> bool:
        return self._look() == mark

    def _look(self) -> FolderMark | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - Path costs more than the call
        except OSError:
            return None
        return FolderMark(found.st_ino, found.st_mtime_ns)
