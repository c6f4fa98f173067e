from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.values.arrow_types import SCALAR_ARROW, arrow_type
from omnigraph.values.scalars import (
    INTEGER_BOUNDS,
    INTEGER_KINDS,
    NUMERIC_KINDS,
    TEMPORAL_KINDS,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    VectorType,
)


def test_every_scalar_has_an_arrow_type_of_its_own() -> None:
    assert set(SCALAR_ARROW) == set(ScalarKind)
    assert len({str(t) for t in SCALAR_ARROW.values()}) == len(ScalarKind)


@pytest.mark.parametrize("kind", sorted(INTEGER_KINDS))
def test_integer_bounds_are_those_of_the_arrow_type(kind: ScalarKind) -> None:
    low, high = INTEGER_BOUNDS[kind]
    assert pa.array([low, high], SCALAR_ARROW[kind]).to_pylist() == [low, high]
    for outside in (low - 1, high + 1):
        with pytest.raises((pa.ArrowInvalid, OverflowError)):
            pa.array([outside], SCALAR_ARROW[kind])


def test_the_kinds_are_partitioned() -> None:
    others = {ScalarKind.STRING, ScalarKind.BOOL}
    assert NUMERIC_KINDS | TEMPORAL_KINDS | others == set(ScalarKind)
    assert not NUMERIC_KINDS & TEMPORAL_KINDS
    assert not NUMERIC_KINDS & others


def test_compound_types() -> None:
    list_type = arrow_type(ListType(ScalarKind.I32))
    assert (list_type.value_type, list_type.value_field.nullable) == (pa.int32(), False)
    assert arrow_type(VectorType(3)) == pa.list_(pa.float32(), 3)
    assert arrow_type(EnumType(("b", "a"))) == pa.string()
    assert arrow_type(BlobType()) == pa.large_binary()


def test_enums_are_sets() -> None:
    assert EnumType(("b", "a")) == EnumType(("a", "b"))
    assert hash(EnumType(("b", "a"))) == hash(EnumType(("a", "b")))
    assert EnumType(("a",)) != EnumType(("a", "b"))


def test_spellings_are_those_of_the_schema_language() -> None:
    types = [ScalarType(ScalarKind.I64), ListType(ScalarKind.STRING), VectorType(4), BlobType()]
    assert [str(t) for t in types] == ["I64", "[String]", "Vector(4)", "Blob"]
