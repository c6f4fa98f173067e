"""Strict YAML: only known keys, and every mistake with its path, line and column.

A `YamlNode` is one value of a file. Its readers note a mistake and return a usable value, so that
one pass over a file finds all mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.syntax.diagnostics import Severity
from omnigraph.values.known_names import did_you_mean

SYNTAX = "syntax"
DUPLICATE_KEY = "duplicate_key"
UNKNOWN_KEY = "unknown_key"
MISSING_KEY = "missing_key"
WRONG_VALUE = "wrong_value"
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A mistake of a file, or a warning about it; `path` is like `rules[2].allow.actions`."""

    code: str
    severity: Severity
    path: str
    line: int
    column: int
    message: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity.value,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "message": self.message,
        }


class FileFindings(list[FileFinding]):
    """What was found in one file so far."""

    @property
    def has_errors(self) -> bool:
        return any(found.severity is Severity.ERROR for found in self)

    def in_order(self) -> tuple[FileFinding, ...]:
        return tuple(sorted(self, key=lambda found: (found.line, found.column)))


def read_yaml(text: str, findings: FileFindings) -> YamlNode | None:
    """The root of a text; None after a mistake of syntax, which is among the findings."""
    code = SYNTAX
    # Imported here, because most processes read no file of this kind.
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.constructor import DuplicateKeyError  # noqa: PLC0415
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        # Round trip, because only that reader keeps the places of keys.
        value = YAML(typ="rt", pure=True).load(text)
    except DuplicateKeyError as error:
        mark = error.problem_mark
        key = re.search(r'duplicate key "(.*?)"', str(error.problem or ""))
        problem = f"the key `{key[1]}` is there twice" if key else "a key is there twice"
        code = DUPLICATE_KEY
    except (YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "this is not YAML"
    else:
        return YamlNode(findings, value, "", 1, 1)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    findings.append(FileFinding(code, Severity.ERROR, "", line, column, problem))
    return None


@dataclass(frozen=True, slots=True)
class YamlNode:
    """One value of a file and its place."""

    findings: FileFindings
    value: Any
    path: str
    line: int
    column: int

    def wrong(self, message: str, code: str = WRONG_VALUE) -> None:
        self._note(message, code, Severity.ERROR)

    def warn(self, message: str, code: str) -> None:
        self._note(message, code, Severity.WARNING)

    def _note(self, message: str, code: str, severity: Severity) -> None:
        told = f"`{self.path}` {message}" if self.path else message
        found = FileFinding(code, severity, self.path, self.line, self.column, told)
        if found not in self.findings:
            self.findings.append(found)

    def mapping(
        self, known: Iterable[str] | None = None, required: Iterable[str] = ()
    ) -> dict[str, YamlNode]:
        """The members of a mapping that has only `known` keys; None allows any text."""
        value = self.value
        if not isinstance(value, dict):
            self.wrong(f"must hold `key: value` pairs, got {shown(value)}")
            return {}
        names = None if known is None else list(known)
        members: dict[str, YamlNode] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                self._key(key).wrong(f"has the key {shown(key)}, and keys are texts")
            elif names is not None and key not in names:
                hint = did_you_mean(key, names)
                self._key(key)._note(  # noqa: SLF001
                    f"is an unknown key; {hint}", UNKNOWN_KEY, Severity.ERROR
                )
            else:
                line, column = self._place("value", key)
                members[key] = YamlNode(self.findings, item, self._under(key), line, column)
        for key in required:
            if key not in value:
                self.wrong(f"needs the key `{key}`", MISSING_KEY)
        return members

    def _key(self, key: Any) -> YamlNode:
        line, column = self._place("key", key)
        return YamlNode(self.findings, None, self._under(key), line, column)

    def _under(self, key: Any) -> str:
        return f"{self.path}.{key}" if self.path else str(key)

    def _place(self, which: str, key: Any) -> tuple[int, int]:
        try:
            line, column = getattr(self.value.lc, which)(key)
        except (AttributeError, KeyError, TypeError):  # a key that a YAML merge brought
            return self.line, self.column
        return line + 1, column + 1

    def items(self) -> list[YamlNode]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.wrong(f"must be a list, got {shown(self.value)}")
            return []
        found = []
        for number, item in enumerate(self.value):
            line, column = self._place("item", number)
            path = f"{self.path}[{number}]"
            found.append(YamlNode(self.findings, item, path, line, column))
        return found

    def text(self) -> str:
        """A text with no blanks around it; the empty text after a mistake."""
        if not isinstance(self.value, str):
            self.wrong(f"must be a text, got {shown(self.value)}")
            return ""
        found = str(self.value)
        if not found.strip():
            self.wrong("is blank")
            return ""
        if found != found.strip():
            self.wrong(f"has blanks around it: {shown(found)}")
        return found

    def texts(self) -> tuple[str, ...]:
        """A list of texts that is not empty and names nothing twice."""
        items = self.items()
        if isinstance(self.value, list) and not items:
            self.wrong("is an empty list")
        found: list[str] = []
        for item in items:
            text = item.text()
            if text and text in found:
                item.wrong(f"names {text} twice")
            elif text:
                found.append(text)
        return tuple(found)

    def choice(self, known: Iterable[str]) -> str | None:
        """One of the known texts; None after a mistake."""
        names = list(known)
        text = self.value if isinstance(self.value, str) else None
        if text in names:
            return str(text)
        hint = did_you_mean(str(self.value), names)
        self.wrong(f"must be one of {', '.join(names)}, got {shown(self.value)}; {hint}")
        return None


def exactly_one(node: YamlNode, members: Mapping[str, YamlNode], *keys: str) -> str | None:
    """The one of `keys` that a mapping has; None after a mistake."""
    given = [key for key in keys if key in members]
    if len(given) == 1:
        return given[0]
    if isinstance(node.value, dict):
        listed = ", ".join(f"`{key}`" for key in keys)
        told = " and ".join(f"`{key}`" for key in given) or "none"
        node.wrong(f"needs exactly one of {listed}, and has {told}", MISSING_KEY)
    return None


def shown(value: object) -> str:
    """A value as an error tells it."""
    text = "nothing" if value is None else repr(_plain(value))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): "…" for key in value}
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return str(value) if isinstance(value, str) else value
