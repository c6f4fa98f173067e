"""`g.cleanup` and its kin: arguments checked, work handed to `maintain`."""

from __future__ import annotations

import os

from omnigraph.errors import InvalidArgument
from omnigraph.graph.engine import open_store
from omnigraph.lance_store.store import Store
from omnigraph.maintain.backup import BackupReport, restore
from omnigraph.maintain.needed import Retention
from omnigraph.settings.models import Settings
from omnigraph.values.durations import duration_micros


def retention(keep: object, older_than: object) -> Retention:
    if keep is not None and (type(keep) is not int or keep < 1):
        raise InvalidArgument(f"keep is a number of commits from 1 on, got {keep!r}")
    return Retention(keep, None if older_than is None else duration_micros(older_than))


def backup_store(uri: str | os.PathLike[str]) -> Store:
    return open_store(uri, Settings())


def restore_graph(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> BackupReport:
    """Put a backup back at an empty address: where it was, or anywhere else."""
    return restore(backup_store(source), backup_store(target))
