from __future__ import annotations

import errno

import pytest

from omnigraph.errors import InvalidArgument, StorageFailure, StorageFull
from omnigraph.lance_store.objects.storage_errors import is_not_found, storage_errors, translate


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "x"),
        OSError(errno.EDQUOT, "x"),
        OSError("LanceError(IO): No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_has_its_own_class(error: OSError) -> None:
    found = translate(error, "writing k")
    assert type(found) is StorageFull
    assert found.action == "writing k"
    assert "free some" in str(found)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "x"),
        OSError(errno.EROFS, "x"),
        OSError("LanceError(IO): Permission denied (os error 13)"),
        OSError("Client error with status 403 Forbidden"),
        ValueError("AccessDenied"),
    ],
)
def test_no_permission_says_so(error: Exception) -> None:
    assert "not allowed while writing k" in str(translate(error, "writing k"))


def test_source_positions_and_debug_dumps_are_dropped() -> None:
    text = "it broke, /root/.cargo/registry/lance-io/src/local.rs:12:3\n\nDebug source:\nGeneric {"
    assert str(translate(OSError(text), "x")) == "storage failed while x: it broke"


def test_our_own_errors_pass_through() -> None:
    with pytest.raises(InvalidArgument), storage_errors("x"):
        raise InvalidArgument("mine")


def test_foreign_errors_are_chained() -> None:
    cause = OSError("boom")
    with pytest.raises(StorageFailure) as caught, storage_errors("reading k"):
        raise cause
    assert caught.value.__cause__ is cause


def test_bugs_are_not_storage_failures() -> None:
    with pytest.raises(KeyError), storage_errors("x"):
        raise KeyError("bug")


def test_not_found() -> None:
    assert is_not_found(FileNotFoundError())
    assert is_not_found(ValueError("Dataset at path x was not found: Not found: y"))
    assert not is_not_found(OSError("Permission denied"))
