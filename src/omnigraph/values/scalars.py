"""The closed set of value types a property can have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ScalarKind(StrEnum):
    """Scalar types, spelled as in the schema language."""

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"


INTEGER_KINDS = frozenset({ScalarKind.I32, ScalarKind.I64, ScalarKind.U32, ScalarKind.U64})
FLOAT_KINDS = frozenset({ScalarKind.F32, ScalarKind.F64})
NUMERIC_KINDS = INTEGER_KINDS | FLOAT_KINDS
TEMPORAL_KINDS = frozenset({ScalarKind.DATE, ScalarKind.DATETIME})

INTEGER_BOUNDS: dict[ScalarKind, tuple[int, int]] = {
    ScalarKind.I32: (-(2**31), 2**31 - 1),
    ScalarKind.I64: (-(2**63), 2**63 - 1),
    ScalarKind.U32: (0, 2**32 - 1),
    ScalarKind.U64: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One scalar value."""

    kind: ScalarKind

    def __str__(self) -> str:
        return self.kind.value


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of scalars; elements are never null."""

    element: ScalarKind

    def __str__(self) -> str:
        return f"[{self.element.value}]"


MAX_VECTOR_WIDTH = 65_536


@dataclass(frozen=True, slots=True)
class VectorType:
    """A fixed number of finite float32."""

    width: int

    def __str__(self) -> str:
        return f"Vector({self.width})"


@dataclass(frozen=True, slots=True)
class EnumType:
    """A string out of a closed set. The order of the values does not matter for equality."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(self.values)))

    def __str__(self) -> str:
        return f"enum({', '.join(self.values)})"


@dataclass(frozen=True, slots=True)
class BlobType:
    """Bytes that are stored outside the row."""

    def __str__(self) -> str:
        return "Blob"


ValueType = ScalarType | ListType | VectorType | EnumType | BlobType

LiteralValue = str | int | float | bool | None
"""A value that the schema and query languages can write as a literal."""
