"""Random well-typed expressions as query text, over the columns of `testing.strategies`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from omnigraph.catalog.model import Catalog
from omnigraph.syntax.source_text import write_literal
from omnigraph_testing.strategies import COLUMNS

FAMILY = {
    "s": "text",
    "t": "text",
    "e": "text",
    "i": "integer",
    "l": "integer",
    "u": "integer",
    "f": "float",
    "h": "float",
    "b": "bool",
    "d": "date",
    "m": "moment",
    "ls": "texts",
    "li": "integers",
    "v": "vector",
}
_COMPARED = sorted(set(FAMILY.values()) - {"vector"})
COMPARABLE = ("text", "integer", "float", "bool", "date", "moment")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_LITERALS: dict[str, tuple[Any, ...]] = {
    "text": COLUMNS["s"][1],
    "integer": (0, 1, 2, 7, 3_000_000_000),
    "float": (0.0, 0.25, 2.0, 1.8),
}


@dataclass(frozen=True, slots=True)
class Known:
    """A variable in scope; a path has no types."""

    name: str
    kind: str
    types: tuple[str, ...]


@dataclass
class Writer:
    """Draws the parts of one query and collects the parameters it uses."""

    draw: st.DrawFn
    catalog: Catalog
    scope: list[Known] = field(default_factory=list)
    parameters: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def chance(self, one_in: int) -> bool:
        """Shrinks to no."""
        return bool(self.draw(st.integers(1, one_in)) == one_in)

    def columns(self, variable: Known) -> list[str]:
        """Properties every type of the variable has."""
        owners = [self.catalog.resolve(name) for name in variable.types]
        shared = [{p.name for p in owner.properties} for owner in owners]
        return sorted(set.intersection(*shared) & COLUMNS.keys()) if shared else []

    def properties(self, families: Sequence[str]) -> list[tuple[str, str]]:
        """`$x.p` and its column name, for everything in scope of these families."""
        return [
            (f"${known.name}.{column}", column)
            for known in self.scope
            for column in self.columns(known)
            if FAMILY[column] in families
        ]

    def value(self, family: str, depth: int = 1) -> str:
        """An expression of this family, a property of it when there is one."""
        found = self.properties([family])
        plain = self.pick(found)[0] if found else None
        if depth > 0 and family in _COMPOSED and (plain is None or self.chance(3)):
            return _COMPOSED[family](self, depth - 1)
        return plain or self.literal(family)

    def literal(self, family: str) -> str:
        if family in _LITERALS:
            return write_literal(self.pick(_LITERALS[family]))
        return _WRITTEN[family](self)

    def literal_for(self, column: str) -> str:
        """A literal of exactly a column's type, mostly one that occurs."""
        kind, values = COLUMNS[column]
        if self.chance(4):
            name = f"v{len(self.parameters)}"
            value = None if self.chance(5) else self.pick(values)
            bare = "String?" if kind.startswith("enum") else kind.rstrip("?") + "?"
            self.parameters[name] = (bare, value)
            return f"${name}"
        return _literal_text(self.pick(values))

    def condition(self, depth: int = 2) -> str:
        """Something true, false or unknown for every row."""
        if depth > 0 and self.chance(3):
            return self._connected(depth - 1)
        found = self.properties(_COMPARED)
        if not found:
            entity = self.pick([known.name for known in self.scope if known.kind != "path"])
            return f"${entity}.id {self.pick(_COMPARISONS)} {self.literal('text')}"
        text, column = self.pick(found)
        family = FAMILY[column]
        if self.chance(5):
            return f"{text} is {self.pick(['', 'not '])}null"
        if family in ("texts", "integers"):
            return self._about_list(text, column, family)
        if column in ("s", "t") and self.chance(4):
            return self._text_predicate(text)
        if family == "text" and self.chance(3):
            return f"{text} {self.pick(['contains', 'starts_with'])} {self.literal('text')}"
        if family == "bool" and self.chance(2):
            return str(text)
        if self.chance(4):
            return self._membership(text, column)
        if self.chance(3):
            operand = self.value(family)
            return f"{self.value(family)} {self.pick(_COMPARISONS)} {operand}"
        return f"{text} {self.pick(_COMPARISONS)} {self.literal_for(column)}"

    def clause(self, depth: int = 2) -> str:
        """A condition as a clause: a leading minus would continue the clause before it."""
        text = self.condition(depth)
        return f"({text})" if text.startswith("-") else text

    def _connected(self, depth: int) -> str:
        if self.chance(3):
            return f"not ({self.condition(depth)})"
        word = self.pick(["and", "or"])
        return f"({self.condition(depth)} {word} {self.condition(depth)})"

    def _about_list(self, text: str, column: str, family: str) -> str:
        item = "s" if family == "texts" else "i"
        if self.chance(2):
            return f"{text} contains {self.literal_for(item)}"
        return f"{text} {self.pick(['=', '!='])} {_literal_text(self.pick(COLUMNS[column][1]))}"

    def _text_predicate(self, text: str) -> str:
        function = self.pick(["search", "match_text", "fuzzy"])
        return f"{function}({text}, {self.literal('text')})"

    def _membership(self, text: str, column: str) -> str:
        values = self.draw(st.lists(st.sampled_from(COLUMNS[column][1]), max_size=3))
        return f"{text} in {_literal_text(values)}"

    def orderable(self) -> str:
        """An expression rows can be sorted by."""
        found = self.properties(COMPARABLE)
        families = sorted({FAMILY[column] for _, column in found}) or ["integer"]
        return self.value(self.pick(families))


def _literal_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_literal_text(item) for item in value)}]"
    return write_literal(value)


def _integer(w: Writer, depth: int) -> str:
    small = [text for text, column in w.properties(["integer"]) if column == "i"]
    operand = w.pick(small) if small else w.literal("integer")
    choices: list[Callable[[], str]] = [
        lambda: f"{operand} {w.pick(['+', '-', '*'])} {w.pick(['1', '2', '10'])}",
        lambda: f"{operand} {w.pick(['/', '%'])} {w.pick(['2', '3', '-2'])}",
        lambda: f"-{operand}",
        lambda: f"abs({operand})",
        lambda: f"coalesce({w.value('integer', 0)}, {w.literal('integer')})",
        lambda: f"length({w.value('text', depth)})",
        lambda: f"{w.pick(['year', 'month', 'day', 'weekday'])}({w.value('date', 0)})",
        lambda: f"{w.pick(['hour', 'minute', 'second'])}({w.value('moment', 0)})",
    ]
    paths = [known.name for known in w.scope if known.kind == "path"]
    if paths:
        choices.append(lambda: f"length(${w.pick(paths)})")
    return str(w.pick(choices)())


def _float(w: Writer, depth: int) -> str:
    operand = w.value("float", 0)
    return str(
        w.pick(
            [
                f"{operand} {w.pick(['+', '-', '*', '/'])} {w.pick(['2', '0.5', '4.0'])}",
                f"-{operand}",
                f"abs({operand})",
                f"round({operand})",
                f"coalesce({operand}, {w.value('integer', 0)})",
            ]
        )
    )


def _text(w: Writer, depth: int) -> str:
    operand = w.value("text", depth)
    options = [
        f"{operand} + {w.literal('text')}",
        f"lower({operand})",
        f"upper({operand})",
    ]
    options += [f"${known.name}.id" for known in w.scope if known.kind != "path"]
    options += [f"type(${known.name})" for known in w.scope if known.kind != "path"]
    return str(w.pick(options))


_COMPOSED: dict[str, Callable[[Writer, int], str]] = {
    "integer": _integer,
    "float": _float,
    "text": _text,
    "bool": lambda w, depth: f"({w.condition(depth)})",
    "date": lambda w, depth: f"date({w.value('moment', 0)})",
    "moment": lambda w, depth: f"datetime({w.value('date', 0)})",
}
_WRITTEN: dict[str, Callable[[Writer], str]] = {
    "bool": lambda w: str(w.pick(["true", "false"])),
    "date": lambda w: f'date("{w.pick(COLUMNS["d"][1])}")',
    "moment": lambda w: f'datetime("{w.pick(COLUMNS["m"][1])}")',
    "texts": lambda w: _literal_text(w.pick(COLUMNS["ls"][1])),
    "integers": lambda w: _literal_text(w.pick(COLUMNS["li"][1])),
}
