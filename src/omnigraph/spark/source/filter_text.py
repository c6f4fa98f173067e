"""The text of the option `filter`, parsed into conditions that Lance and Spark evaluate alike.

A filter may name columns of text, whole numbers, booleans, dates and moments, because their order
is the same everywhere. Floats are left to Spark, which orders NaN and negative zero differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.values.coercion import coerce
from omnigraph.values.conditions import Comparison, Condition
from omnigraph.values.scalars import FLOAT_KINDS, EnumType, ScalarKind, ScalarType, ValueType

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?![\w.]))|`(?P<quoted>[^`]+)`"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,))"
)
_COMPARISONS: dict[str, Comparison] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class _Word:
    kind: str
    value: Any


def filterable_columns(entity: EntityType) -> dict[str, ValueType]:
    """Columns that conditions may name."""
    system = (ID, SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)
    found: dict[str, ValueType] = {name: ScalarType(ScalarKind.STRING) for name in system}
    found.update({p.name: p.type for p in entity.properties if _has_one_order(p.type)})
    return found


def _has_one_order(kind: ValueType) -> bool:
    return isinstance(kind, EnumType) or (
        isinstance(kind, ScalarType) and kind.kind not in FLOAT_KINDS
    )


def parse_filter(text: str, entity: EntityType) -> tuple[Condition, ...]:
    """The conditions of `age >= 18 AND city IN ('Oslo', 'Lima') AND left IS NULL`."""
    return tuple(_Parser(text, entity).conditions())


class _Parser:
    def __init__(self, text: str, entity: EntityType) -> None:
        self._text = text
        self._entity = entity
        self._columns = filterable_columns(entity)
        self._words = _words(text)
        self._next = 0

    def conditions(self) -> list[Condition]:
        found = [self._condition()]
        while self._keyword("and"):
            found.append(self._condition())
        if self._next < len(self._words):
            raise self._wrong("AND")
        return found

    def _condition(self) -> Condition:
        column = self._column()
        if self._keyword("is"):
            negated = self._keyword("not")
            if not self._keyword("null"):
                raise self._wrong("NULL")
            return Condition(column, "is not null" if negated else "is null")
        if self._keyword("in"):
            return Condition(column, "in", tuple(self._list(column)))
        operator = _COMPARISONS.get(self._take("sign"))
        if operator is None:
            raise self._wrong("a comparison")
        return Condition(column, operator, (self._value(column),))

    def _column(self) -> str:
        word = self._peek()
        if word is None or word.kind not in ("word", "quoted"):
            raise self._wrong("a column")
        self._next += 1
        if word.value not in self._columns:
            known = ", ".join(self._columns)
            raise InvalidArgument(
                f"filter {self._text!r}: {word.value!r} is not a column of {self._entity.name} "
                f"that this option can filter; these are: {known}. Filter the DataFrame instead",
                property=word.value,
            )
        return str(word.value)

    def _list(self, column: str) -> list[Any]:
        self._sign("(")
        values = [self._value(column)]
        while self._peek() == _Word("sign", ","):
            self._next += 1
            values.append(self._value(column))
        self._sign(")")
        return values

    def _value(self, column: str) -> Any:
        word = self._peek()
        if word is not None and word.kind == "word" and word.value.lower() in _BOOLEANS:
            value: object = _BOOLEANS[word.value.lower()]
        elif word is not None and word.kind in ("text", "number"):
            value = word.value
        else:
            raise self._wrong("a value")
        self._next += 1
        try:
            return coerce(value, self._columns[column])
        except InvalidArgument as error:
            raise InvalidArgument(
                f"filter {self._text!r}: {column}: {error.message}", property=column
            ) from error

    def _sign(self, wanted: str) -> None:
        if self._peek() != _Word("sign", wanted):
            raise self._wrong(repr(wanted))
        self._next += 1

    def _take(self, kind: str) -> str:
        word = self._peek()
        if word is None or word.kind != kind:
            raise self._wrong(f"a {kind}")
        self._next += 1
        return str(word.value)

    def _keyword(self, wanted: str) -> bool:
        word = self._peek()
        found = word is not None and word.kind == "word" and word.value.lower() == wanted
        self._next += found
        return found

    def _peek(self) -> _Word | None:
        return self._words[self._next] if self._next < len(self._words) else None

    def _wrong(self, wanted: str) -> InvalidArgument:
        word = self._peek()
        found = "the end" if word is None else repr(word.value)
        return InvalidArgument(
            f"filter {self._text!r}: expected {wanted}, found {found}. Write conditions like "
            "age >= 18 AND city IN ('Oslo', 'Lima') AND left IS NULL"
        )


def _words(text: str) -> list[_Word]:
    found: list[_Word] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidArgument(f"filter {text!r}: cannot read {text[position:].strip()!r}")
        kind = str(match.lastgroup)
        found.append(_Word(kind, _READ[kind](match[kind]) if kind in _READ else match[kind]))
        position = match.end()
    return found


_READ: Mapping[str, Callable[[str], Any]] = {
    "text": lambda text: text[1:-1].replace("''", "'"),
    "number": int,
}
