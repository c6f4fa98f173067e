"""Create, open and restore graphs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from omnigraph.errors import AlreadyExists, NotFound, NotServed
from omnigraph.graph.engine import build_engine, open_store
from omnigraph.graph.handle import Graph
from omnigraph.graph.managed import refuse_managed
from omnigraph.lance_store.objects.control_files import prove_put_if_absent
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import check_readable, read_stamp
from omnigraph.manifest.layout import MANIFEST, SCHEMAS, is_own_name
from omnigraph.settings.models import Settings
from omnigraph.values.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.graph.schema_changes import SchemaSource
    from omnigraph.maintain.backup import BackupReport
    from omnigraph.policy.policy import Policy, PolicySource
    from omnigraph.stored_queries.registry import QueryPlace, QueryRegistry

Uri = str | os.PathLike[str]

_NAMED_FILES = 5


def init(
    uri: Uri,
    schema: SchemaSource,
    *,
    actor: str | None = None,
    settings: Settings | None = None,
    allow_non_empty: bool = False,
) -> Graph:
    """Create a graph and open it for writing; an existing one is refused.

    `schema` is schema text, the path of a `.pg` file, or a catalog. A directory that holds other
    files is refused unless `allow_non_empty` is true.
    """
    from omnigraph.graph.schema_changes import read_schema

    if str(uri).lower().startswith(("http://", "https://")):
        raise NotServed(
            f"{uri} is a server, which creates no graphs: create one in a store, and serve it",
            method="init",
            instead="omnigraph init in a store, then omnigraph serve",
        )
    catalog, source = read_schema(schema)
    chosen = settings or Settings()
    store = open_store(uri, chosen)
    refuse_managed(store, "init")
    if not allow_non_empty:
        _refuse_other_files(store)
    return _created(store, catalog, source, actor, chosen)


def create_managed(
    uri: Uri, schema: SchemaSource, *, actor: str | None = None, settings: Settings | None = None
) -> Graph:
    """As `init`, for the control plane of the cluster that the graph belongs to."""
    from omnigraph.graph.schema_changes import read_schema

    catalog, source = read_schema(schema)
    chosen = settings or Settings()
    store = open_store(uri, chosen)
    _refuse_other_files(store)
    return _created(store, catalog, source, actor, chosen)


def _created(
    store: Store, catalog: Catalog, source: str, actor: str | None, settings: Settings
) -> Graph:
    from omnigraph.commit.creation import create_graph

    prove_put_if_absent(store.files, SYSTEM_CLOCK)
    create_graph(store, catalog, source, actor, SYSTEM_CLOCK)
    return Graph(build_engine(store, settings, SYSTEM_CLOCK), actor, read_only=False)


def open_graph(
    uri: Uri,
    *,
    actor: str | None = None,
    read_only: bool = False,
    settings: Settings | None = None,
    queries: QueryPlace | None = None,
    policy: PolicySource | None = None,
) -> Graph:
    """Open an existing graph.

    Opening for writing first migrates an old format and recovers what dead writers left. `queries`
    are its stored queries: a directory of `.gq` files, one such file, or sources. With a `policy`
    the handle does and sees what its rules allow the actor.
    """
    registry, gate = _registry(queries), _gate(policy)
    chosen = settings or Settings()
    store = open_store(uri, chosen)
    check_readable(_stamp(store))
    if not read_only:
        from omnigraph.commit.migration import migrate

        prove_put_if_absent(store.files, SYSTEM_CLOCK)
        migrate(store, lambda: _stamp(store))
    engine = build_engine(store, chosen, SYSTEM_CLOCK)
    if not read_only:
        engine.recovery.sweep()
    return Graph(engine, actor, read_only=read_only, queries=registry, gate=gate)


def _gate(policy: PolicySource | None) -> Policy | None:
    if policy is None:
        return None
    from omnigraph.policy.policy import Policy

    return policy if isinstance(policy, Policy) else Policy.load(policy)


def _registry(queries: QueryPlace | None) -> QueryRegistry | None:
    if queries is None:
        return None
    from omnigraph.stored_queries.registry import QueryRegistry

    return QueryRegistry(queries)


def restore_graph(
    source: Uri,
    target: Uri,
    *,
    settings: Settings | None = None,
) -> BackupReport:
    """Put a backup back at an empty address: where the graph was, or anywhere else."""
    from omnigraph.maintain.backup import restore

    chosen = settings or Settings()
    return restore(open_store(source, chosen), open_store(target, chosen))


def _refuse_other_files(store: Store) -> None:
    """Refuse a local directory with files that are not of a graph.

    Files of a graph are left by a creation that was interrupted, and `init` may be repeated.
    """
    path = store.location.path
    if path is None or not path.is_dir():
        return
    names = [entry.name for entry in path.iterdir()]
    others = sorted(name for name in names if not is_own_name(name))
    if not others or MANIFEST in names:  # an existing graph is refused with other words
        return
    named = ", ".join(others[:_NAMED_FILES])
    more = len(others) - _NAMED_FILES
    rest = f" and {more} more" if more > 0 else ""
    raise AlreadyExists(
        f"{path} is not empty: it holds {named}{rest}; name another directory, or allow it with "
        "allow_non_empty=True (--allow-non-empty)",
        uri=store.location.uri,
        files=others[:_NAMED_FILES],
    )


def _stamp(store: Store) -> int:
    try:
        manifest = store.open_head(MANIFEST, None)
    except NotFound as error:
        uri = store.location.uri
        if store.files.list(SCHEMAS):
            raise NotFound(
                f"there are files of a graph at {uri}, but its manifest is missing: its creation "
                "was interrupted (repeat init), or files were removed (restore them)",
                uri=uri,
            ) from error
        raise NotFound(f"no graph at {uri}: create one with init", uri=uri) from error
    return read_stamp(manifest.schema)
