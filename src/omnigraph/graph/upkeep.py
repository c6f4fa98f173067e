"""`g.optimize`, `g.cleanup` and their kin: arguments checked, work handed to `maintain`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph.engine import Engine, open_store
from omnigraph.graph.indexes import table_work, tables
from omnigraph.maintain.backup import BackupReport, restore
from omnigraph.maintain.garbage import Retention
from omnigraph.maintain.status import GraphStatus, graph_status
from omnigraph.maintain.table_upkeep import Pace, optimize_table
from omnigraph.maintain.verify import VerifyReport, verify_graph
from omnigraph.progress import tell
from omnigraph.settings.models import Settings
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import LOCAL
from omnigraph.values.temporal import duration_micros


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Who optimizes which types, and on which engine files are rewritten and indexes built."""

    types: Sequence[str] | None
    actor: str | None
    engine: str = LOCAL

    def pace(self, engine: Engine) -> Pace:
        return Pace(work=table_work(engine, self.engine))


def optimize(engine: Engine, branch: str | None, how: Upkeep) -> list[str]:
    """What writers kept us from: type names, with their branch when all branches were asked for."""
    types = how.types
    if branch is not None:
        return _optimize_branch(engine, branch, how)
    behind = []
    known = False
    for name in engine.reader.branch_refs.names():
        try:
            # Types are resolved to tables that the branch owns: upkeep alone should fork nothing.
            wanted = None if types is None else _owned(engine, name, types)
            known = known or types is None or wanted is not None
            if types is None or wanted:
                owned = replace(how, types=wanted)
                behind += [f"{name}: {t}" for t in _optimize_branch(engine, name, owned)]
        except NotFound:
            continue  # deleted meanwhile
    if types is not None and not known:
        tables(engine, MAIN, types)  # says which type there is none of
    return behind


def _optimize_branch(engine: Engine, branch: str, how: Upkeep) -> list[str]:
    pace = how.pace(engine)
    behind = []
    for key in tables(engine, branch, how.types):
        tell(f"optimizing {key.type_name} on {branch}")
        if not optimize_table(engine.transaction, branch, key, how.actor, pace):
            behind.append(key.type_name)
    return behind


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


def status(engine: Engine) -> GraphStatus:
    return graph_status(engine.reader, engine.board, engine.settings.maintenance)


def verify(engine: Engine, commits: int, *, full: bool) -> VerifyReport:
    return verify_graph(engine.reader, engine.board, engine.cleanup, commits, full=full)


def retention(keep: object, older_than: object) -> Retention:
    if keep is not None and (type(keep) is not int or keep < 1):
        raise InvalidArgument(f"keep is a number of commits from 1 on, got {keep!r}")
    return Retention(keep, None if older_than is None else duration_micros(older_than))


def backup(engine: Engine, target: str | os.PathLike[str], actor: str | None) -> BackupReport:
    return engine.backup.run(open_store(target, engine.settings), actor)


def restore_graph(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
) -> BackupReport:
    """Put a backup back at an empty address: where it was, or anywhere else."""
    chosen = settings or Settings()
    return restore(open_store(source, chosen), open_store(target, chosen))
