"""The `settings:` part of a config file -> `Settings`: its keys are the names of the fields."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, get_type_hints

from omnigraph.settings.file_values import ConfigPlace
from omnigraph.settings.models import Settings

_PATHS = frozenset(
    ("cache_directory", "spill_directory", "temp_directory", "journal_dir", "log_file")
)
_MAY_BE_ZERO = frozenset(
    (
        "backoff_seconds",
        "cache_bytes",
        "cache_file_bytes",
        "deleted_share",
        "idempotency_days",
        "inline_ids",
        "kept_manifest_versions",
        "minimum_age_seconds",
        "orphan_tag_days",
        "reprepare_limit",
        "spark_from_bytes",
        "spark_merge_from_rows",
        "spill_bytes",
        "unindexed_rows",
        "wait_limit_seconds",
    )
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def settings_of(body: Any, place: ConfigPlace) -> Settings:
    """Every part and every field by its name; what is not there keeps its default."""
    parts = get_type_hints(Settings)
    given = place.mapping(body, parts)
    return Settings(
        **{name: _part_of(given[name], parts[name], place.below(name)) for name in given}
    )


def _part_of(body: Any, part: type, place: ConfigPlace) -> Any:
    types = get_type_hints(part)
    given = place.mapping(body, [field.name for field in fields(part)])
    return part(
        **{name: _field_of(name, given[name], types[name], place.below(name)) for name in given}
    )


def _field_of(name: str, value: Any, wanted: Any, place: ConfigPlace) -> Any:
    if name == "api_key_env" and isinstance(value, str) and not _VARIABLE.fullmatch(value):
        # Whatever stands there may be the key itself, so it is not repeated.
        place.refuse("must be the name of an environment variable; the key itself stays out of it")
    found = place.value(value, wanted)
    if isinstance(found, int | float) and not isinstance(found, bool):
        _check_size(name, found, place)
    if name in _PATHS and found is not None:
        return place.seen_from_file(found)
    if name == "blob_bases":
        return tuple(place.seen_from_file(base) for base in found)
    return found


def _check_size(name: str, number: float, place: ConfigPlace) -> None:
    least = 0 if name in _MAY_BE_ZERO else 1 if isinstance(number, int) else None
    if least is None and number <= 0:
        place.refuse(f"must be more than 0, got {number}")
    if least is not None and number < least:
        place.refuse(f"must be at least {least}, got {number}")
