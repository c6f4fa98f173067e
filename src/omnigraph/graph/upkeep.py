"""`g.optimize`, `g.cleanup` and their kin: arguments checked, work handed to `maintain`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph.engine import Engine, open_store
from omnigraph.graph.indexes import tables
from omnigraph.lance_store.store import Store
from omnigraph.maintain.backup import BackupReport, restore
from omnigraph.maintain.maintenance import optimize_table
from omnigraph.maintain.needed import Retention
from omnigraph.settings.models import Settings
from omnigraph.values.durations import duration_micros
from omnigraph.values.identifiers import MAIN


def optimize(
    engine: Engine, branch: str | None, types: Sequence[str] | None, actor: str | None
) -> list[str]:
    """What writers kept us from: type names, with their branch when all branches were asked for."""
    if branch is not None:
        return _optimize_branch(engine, branch, types, actor)
    behind = []
    known = False
    for name in engine.reader.branch_refs.names():
        try:
            # Types are resolved to tables that the branch owns: upkeep alone should fork nothing.
            wanted = None if types is None else _owned(engine, name, types)
            known = known or types is None or wanted is not None
            if types is None or wanted:
                behind += [f"{name}: {t}" for t in _optimize_branch(engine, name, wanted, actor)]
        except NotFound:
            continue  # deleted meanwhile
    if types is not None and not known:
        tables(engine, MAIN, types)  # says which type there is none of
    return behind


def _optimize_branch(
    engine: Engine, branch: str, types: Sequence[str] | None, actor: str | None
) -> list[str]:
    return [
        key.type_name
        for key in tables(engine, branch, types)
        if not optimize_table(engine.transaction, branch, key, actor)
    ]


def _owned(engine: Engine, branch: str, types: Sequence[str]) -> list[str] | None:
    """Those of `types` whose table the branch owns; None when it knows none of them."""
    named = []
    for name in types:
        try:
            named += tables(engine, branch, [name])
        except NotFound:
            continue  # the schema of another branch has it
    owned = set(tables(engine, branch, None))
    return [key.type_name for key in named if key in owned] if named else None


def retention(keep: object, older_than: object) -> Retention:
    if keep is not None and (type(keep) is not int or keep < 1):
        raise InvalidArgument(f"keep is a number of commits from 1 on, got {keep!r}")
    return Retention(keep, None if older_than is None else duration_micros(older_than))


def backup_store(uri: str | os.PathLike[str]) -> Store:
    return open_store(uri, Settings())


def restore_graph(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> BackupReport:
    """Put a backup back at an empty address: where it was, or anywhere else."""
    return restore(backup_store(source), backup_store(target))
