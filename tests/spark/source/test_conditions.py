"""The text of option `filter` -> conditions for storage, without a Spark to ask."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.schema.build import catalog_from_text
from omnigraph.spark.source.conditions import parse_filter

ENTITY = catalog_from_text("node N { k: String @key  i: I64?  u: U64?  a: I32? }").nodes[0]


@pytest.mark.parametrize(
    ("column", "value", "condition"),
    [
        ("u", 2**63 - 1, "`u` = 9223372036854775807"),
        ("u", 2**64 - 1, "`u` = 18446744073709551615"),
        ("u", 2**64, None),
        ("i", -(2**63), None),
        ("a", -(2**31), "`a` = -2147483648"),
        ("a", 2**31, None),
    ],
)
def test_integers_at_the_limits(column: str, value: int, condition: str | None) -> None:
    if condition is None:
        with pytest.raises(InvalidArgument, match=column):
            parse_filter(f"{column} = {value}", ENTITY)
    else:
        assert parse_filter(f"{column} = {value}", ENTITY) == condition
