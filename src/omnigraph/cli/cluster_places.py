"""Where the graphs of a cluster are, for commands that work on storage itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraph.errors import InvalidArgument, NotFound

_FILES = ("cluster.yaml", "cluster.yml", "cluster.json")
_LEDGER = "__cluster/state.json"
_GRAPH = "graph."
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def cluster_root(place: str, environment: Mapping[str, str]) -> str:
    """The storage root of a cluster: `storage:` of its directory, or the place itself."""
    if "://" in place and not place.startswith("file://"):
        return place.rstrip("/")
    directory = Path(place.removeprefix("file://")).expanduser().absolute()
    file = next((f for name in _FILES if (f := directory / name).is_file()), None)
    if file is None:
        return str(directory)
    storage = _storage(file, environment)
    if storage is None:
        return str(directory)
    return storage.rstrip("/") if "://" in storage else str(directory / os.path.expanduser(storage))  # noqa: PTH111 - never raises


def _storage(file: Path, environment: Mapping[str, str]) -> str | None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        body = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except (YAMLError, OSError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark is not None else str(file)
        raise InvalidArgument(f"{where}: cannot be read as YAML", file=str(file)) from None
    found = body.get("storage") if isinstance(body, dict) else None
    if found is None:
        return None
    if not isinstance(found, str) or not found:
        raise InvalidArgument(f"{file}: `storage` must be a URI", file=str(file))

    def value(name: re.Match[str]) -> str:
        if name[1] not in environment:
            raise InvalidArgument(f"{file}: `storage` needs ${name[1]}, which is not set")
        return environment[name[1]]

    return _VARIABLE.sub(value, found)


def cluster_graphs(root: str, environment: Mapping[str, str]) -> list[str]:
    """Ids of the graphs that were applied, from the ledger of the cluster."""
    from omnigraph.lance_store.objects.control_files import open_control_files
    from omnigraph.lance_store.objects.storage_location import parse_location

    data = open_control_files(parse_location(root, environment)).get(_LEDGER)
    if data is None:
        raise NotFound(
            f"{root} has no ledger of a cluster ({_LEDGER}): run `omnigraph cluster apply` first",
            uri=root,
        )
    try:
        body: Any = json.loads(data)
        resources = body["applied_revision"]["resources"]
        return sorted(name.removeprefix(_GRAPH) for name in resources if name.startswith(_GRAPH))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidArgument(f"{root}/{_LEDGER} is no ledger of a cluster", uri=root) from None


def graph_root(root: str, graph_id: str) -> str:
    return f"{root}/graphs/{graph_id}.omni"
