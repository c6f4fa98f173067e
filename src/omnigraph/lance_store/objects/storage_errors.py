"""Errors of Lance and of the object store -> the errors of `omnigraph.errors`."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import OmnigraphError, SnapshotReclaimed, StorageFailure, StorageFull

_NO_SPACE = re.compile(r"no space left|os error 28|disk quota|os error 122", re.IGNORECASE)
_NOT_WRITABLE = re.compile(
    r"permission denied|read-only file system|os error 13|os error 30|access ?denied|forbidden",
    re.IGNORECASE,
)
_FILE_IS_GONE = re.compile(
    r"not found.*(/data/|/_deletions/|/_indices/|/_versions/)|no such file|os error 2\b|NoSuchKey",
    re.IGNORECASE | re.DOTALL,
)
_SOURCE_POSITION = re.compile(r",? ?/\S+\.rs:\d+:\d+")


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Translate the errors of a block; those of `omnigraph.errors` pass unchanged."""
    try:
        yield
    except OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise translate(error, action) from error
    except BaseException as error:
        # Errors of obstore derive from Exception directly.
        if type(error).__module__.startswith("obstore") or is_panic(error):
            raise translate(error, action) from error
        raise


@contextmanager
def snapshot_errors(action: str) -> Iterator[None]:
    """Like `storage_errors` for reads of one version: a missing file is `SnapshotReclaimed`."""
    try:
        with storage_errors(action):
            yield
    except StorageFailure as failure:
        if not is_gone(failure):
            raise
        raise SnapshotReclaimed(
            f"a file of this snapshot is not in storage any more ({action}): cleanup removed it, "
            "or files were deleted from outside. Read a newer snapshot",
            action=action,
        ) from failure


def is_gone(failure: StorageFailure) -> bool:
    """Storage works, and a file that a version names is missing."""
    return _FILE_IS_GONE.search(failure.message) is not None


def is_panic(error: BaseException) -> bool:
    """A panic in the Rust code of Lance. It is no `Exception`, and its class cannot be imported."""
    return type(error).__name__ == "PanicException"


def translate(error: BaseException, action: str) -> StorageFailure:
    text = _SOURCE_POSITION.sub("", str(error)).partition("\n\nDebug source")[0]
    code = getattr(error, "errno", None)
    if code in (errno.ENOSPC, errno.EDQUOT) or _NO_SPACE.search(text):
        return StorageFull(f"no space left while {action}: free some and repeat", action=action)
    if code in (errno.EACCES, errno.EROFS, errno.EPERM) or _NOT_WRITABLE.search(text):
        return StorageFailure(
            f"not allowed while {action}: the location is not writable ({text})", action=action
        )
    return StorageFailure(f"storage failed while {action}: {text}", action=action)


def is_not_found(error: Exception) -> bool:
    return isinstance(error, FileNotFoundError) or "not found" in str(error).lower()
