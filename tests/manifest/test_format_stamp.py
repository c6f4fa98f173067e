from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.manifest.branch_state import CURRENT, check_readable, read_stamp


def schema(stamp: str | None) -> pa.Schema:
    metadata = {} if stamp is None else {"omnigraph:format": stamp}
    return pa.schema([pa.field("x", pa.int64())], metadata=metadata)


def test_the_stamp_is_read() -> None:
    assert read_stamp(schema("12")) == 12


@pytest.mark.parametrize("stamp", [None, "", "x", "-1", "1.5", " 1"])
def test_anything_else_is_unknown(stamp: str | None) -> None:
    with pytest.raises(FormatUnknown, match="export"):
        read_stamp(schema(stamp))


def test_newer_is_refused_and_older_readable() -> None:
    check_readable(CURRENT)
    check_readable(CURRENT - 1)
    with pytest.raises(FormatTooNew, match="upgrade omnigraph first"):
        check_readable(CURRENT + 1)
