"""`~/.omnigraph/config.yaml`: who the operator is and which graph is meant when none is named.

operator:
  actor: alice
defaults:
  store: /data/people.omni
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.values.near_names import did_you_mean

PATH_VARIABLE = "OMNIGRAPH_CONFIG"
_KEYS = {"operator": ("actor",), "defaults": ("store",)}


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """The parts of the file the commands use."""

    actor: str | None = None
    store: str | None = None


def read_operator_config(environment: Mapping[str, str]) -> OperatorConfig:
    """The operator's file; no file is fine unless the environment names one."""
    named = environment.get(PATH_VARIABLE)
    path = Path(named) if named else Path.home() / ".omnigraph" / "config.yaml"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if named:
            raise NotFound(f"{PATH_VARIABLE} names {path}: no such file", file=named) from None
        return OperatorConfig()
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}", file=str(path)) from None
    return _config_of(_parse(data, path), path)


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


def _config_of(body: Any, path: Path) -> OperatorConfig:
    sections = _mapping({} if body is None else body, "the file", path)
    _refuse_unknown(sections, tuple(_KEYS), "", path)
    values = {}
    for section, keys in _KEYS.items():
        content = _mapping(sections.get(section) or {}, f"`{section}`", path)
        _refuse_unknown(content, keys, f"{section}.", path)
        for key in keys:
            values[key] = _text(content.get(key), f"{section}.{key}", path)
    store = values["store"]
    return OperatorConfig(values["actor"], _from_the_file(store, path) if store else None)


def _from_the_file(store: str, path: Path) -> str:
    """Relative paths are seen from the config file, `~` is the home directory."""
    return store if "://" in store else str(path.parent / Path(store).expanduser())


def _mapping(value: Any, what: str, path: Path) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{path}: {what} must hold `key: value` lines", file=str(path))
    return value


def _refuse_unknown(found: dict[Any, Any], known: tuple[str, ...], prefix: str, path: Path) -> None:
    for key in found:
        if key not in known:
            hint = did_you_mean(str(key), known)
            raise InvalidArgument(
                f"{path}: unknown key `{prefix}{key}`; {hint}", file=str(path), key=f"{prefix}{key}"
            )


def _text(value: Any, key: str, path: Path) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise InvalidArgument(f"{path}: `{key}` must be a text, got {value!r}", file=str(path), key=key)
