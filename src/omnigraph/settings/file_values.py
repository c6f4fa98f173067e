"""Values of a config file, checked one by one; a wrong one is named by file and key."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin

from omnigraph.errors import InvalidArgument
from omnigraph.values.near_names import did_you_mean

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ConfigPlace:
    """A key of a config file, or the whole of it."""

    file: Path
    key: str = ""

    def below(self, name: str) -> ConfigPlace:
        return ConfigPlace(self.file, f"{self.key}.{name}" if self.key else name)

    def refuse(self, problem: str) -> NoReturn:
        what = f"`{self.key}`" if self.key else "the file"
        details = {"key": self.key} if self.key else {}
        raise InvalidArgument(f"{self.file}: {what} {problem}", file=str(self.file), **details)

    def mapping(self, value: Any, known: Iterable[str] | None) -> dict[str, Any]:
        """`key: value` lines, nothing counting as none of them; `known` None is any key."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.refuse("must hold `key: value` lines")
        for key in value:
            if known is not None and key not in known:
                place = self.below(str(key))
                hint = did_you_mean(str(key), known)
                raise InvalidArgument(
                    f"{self.file}: unknown key `{place.key}`; {hint}",
                    file=str(self.file),
                    key=place.key,
                )
        return value

    def value(self, value: Any, wanted: Any) -> Any:
        """`value` as the type of a setting: `bool`, `int | None`, `Literal[…]`, `tuple[str, …]`."""
        options = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
        if value is None and NoneType in options:
            return None
        wanted = next(option for option in options if option is not NoneType)
        match get_origin(wanted):
            case found if found is Literal:
                return self._choice(value, get_args(wanted))
            case found if found is tuple:
                return self._several(value, get_args(wanted)[0])
        return self._scalar(value, wanted)

    def seen_from_file(self, path: str) -> str:
        """Relative paths start at the config file, `~` is the home directory."""
        if not path or "://" in path:
            return path
        return str(self.file.absolute().parent / os.path.expanduser(path))  # noqa: PTH111 - never raises

    def _scalar(self, value: Any, wanted: Any) -> Any:
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted or (wanted is str and "\0" in value):
            self.refuse(f"must be {_NAMES[wanted]}, got {_shown(value)}")
        if wanted is float and not math.isfinite(value):
            self.refuse(f"must be a finite number, got {value!r}")
        return value

    def _choice(self, value: Any, known: tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in known:
            self.refuse(f"must be one of {', '.join(known)}, got {_shown(value)}")
        return value

    def _several(self, value: Any, item: Any) -> tuple[Any, ...]:
        if get_origin(item) is tuple:
            return tuple(
                (str(name), self.below(str(name)).spelt(setting))
                for name, setting in self.mapping(value, None).items()
            )
        if not isinstance(value, list):
            self.refuse(f"must be a list, got {_shown(value)}")
        return tuple(
            ConfigPlace(self.file, f"{self.key}[{at}]").value(element, item)
            for at, element in enumerate(value)
        )

    def spelt(self, value: Any) -> str:
        """A text for somebody else's settings: YAML's numbers and booleans as they are written."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        return str(self._scalar(value, str))


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
