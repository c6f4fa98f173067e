"""The operator's file: who acts, which graph is meant when none is named, and the settings.

operator:
  actor: alice
defaults:
  store: /data/people.omni
settings:
  write:
    durability: fsync
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.settings.file_values import ConfigPlace
from omnigraph.settings.from_file import settings_of
from omnigraph.settings.models import Settings

_TEXTS = {"operator": ("actor",), "defaults": ("store",)}
_SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """What the file says; whatever it leaves out is as without a file."""

    actor: str | None = None
    store: str | None = None
    settings: Settings = field(default_factory=Settings)


def read_config(path: str | os.PathLike[str]) -> OperatorConfig:
    """Read and check a config file; `NotFound` when there is none."""
    file = Path(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no config file at {file}", file=str(file)) from None
    except OSError as error:
        raise InvalidArgument(f"cannot read {file}: {error.strerror}", file=str(file)) from None
    return _config_of(_parse(data, file), ConfigPlace(file))


def _parse(data: bytes, path: Path) -> Any:
    # Most machines have no config file, and the parser costs as much as the rest of the start.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path}: the text is not UTF-8", file=str(path)) from None
    except (YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        problem = getattr(error, "problem", None) or "this is not YAML"
        raise InvalidArgument(f"{place}: {problem}", file=str(path)) from None


def _config_of(body: Any, file: ConfigPlace) -> OperatorConfig:
    sections = file.mapping(body, (*_TEXTS, _SETTINGS))
    values: dict[str, str | None] = {}
    for section, keys in _TEXTS.items():
        place = file.below(section)
        content = place.mapping(sections.get(section), keys)
        for key in keys:
            values[key] = _text(content.get(key), place.below(key))
    store = values["store"]
    return OperatorConfig(
        values["actor"],
        file.seen_from_file(store) if store else None,
        settings_of(sections.get(_SETTINGS), file.below(_SETTINGS)),
    )


def _text(value: Any, place: ConfigPlace) -> str | None:
    if value == "":
        place.refuse("is empty")
    text: str | None = place.value(value, str | None)
    return text
