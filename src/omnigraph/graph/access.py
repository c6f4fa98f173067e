"""`Access`: an engine as one handle uses it. Every operation of a `Graph` passes here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from omnigraph.catalog.model import Catalog
from omnigraph.errors import GraphClosed, PolicyDenied, ReadOnlyGraph
from omnigraph.graph.admission import Admission
from omnigraph.graph.engine import Engine
from omnigraph.ir.data_scope import DataScope
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import check_ref_name

if TYPE_CHECKING:
    from omnigraph.stored_queries.registry import QueryRegistry

READ = "read"
EXPORT = "export"
CHANGE = "change"
SCHEMA_APPLY = "schema_apply"
BRANCH_CREATE = "branch_create"
BRANCH_DELETE = "branch_delete"
BRANCH_MERGE = "branch_merge"
ADMIN = "admin"
INVOKE_QUERY = "invoke_query"


class Gate(Protocol):
    """Decides whether an actor may do something with a graph."""

    def require(
        self, actor: str | None, action: str, branch: str | None, target: str | None
    ) -> None:
        """Raise `PolicyDenied` unless it is allowed. Names of branches are in their normal form.

        With `invoke_query` the `target` is the name of the stored query.
        """

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        """The part of the graph in which an allowed `read`, `export` or `change` stays.

        None: the whole graph.
        """


class Access:
    """Under which name a handle uses an engine, what it may do, and until `close`."""

    def __init__(
        self,
        engine: Engine,
        actor: str | None,
        *,
        read_only: bool,
        gate: Gate | None = None,
        admission: Admission | None = None,
        owner: Access | None = None,
        queries: QueryRegistry | None = None,
    ) -> None:
        self._engine: Engine | None = engine
        self._owner = owner
        self.uri = engine.store.location.uri
        self.actor = actor
        self.read_only = read_only
        self.gate = gate
        self.admission = admission
        self.queries = queries
        """The stored queries; None: there are none."""

    def for_actor(
        self, actor: str | None, gate: Gate | None, admission: Admission | None
    ) -> Access:
        """The same engine under another name; it closes with this handle, not by itself."""
        return Access(
            self.engine,
            actor,
            read_only=self.read_only,
            gate=gate if gate is not None else self.gate,
            admission=admission if admission is not None else self.admission,
            owner=self._owner or self,
            queries=self.queries,
        )

    @property
    def closed(self) -> bool:
        return self._engine is None or (self._owner is not None and self._owner.closed)

    @property
    def engine(self) -> Engine:
        engine = self._engine
        if engine is None or (self._owner is not None and self._owner.closed):
            raise GraphClosed(
                f"this handle of {self.uri} is closed: open the graph again", uri=self.uri
            )
        return engine

    def require(self, action: str, branch: str | None = None, target: str | None = None) -> None:
        """Refuse what the policy does not allow.

        Names are brought into their normal form first, or refused, so that another spelling of a
        protected branch cannot pass.
        """
        if self.gate is None:
            return
        named = check_ref_name(branch) if branch is not None else None
        wanted = check_ref_name(target) if target is not None else None
        self.gate.require(self.actor, action, named, wanted)

    def seen(self, snapshot: Snapshot, action: str = READ) -> Snapshot:
        """The snapshot as this handle may see it; without rules, the snapshot itself.

        Every read of rows begins here. Its catalog has no hidden type and no hidden property, and
        its `scope` has the rules about rows.
        """
        if self.gate is None:
            return snapshot
        scope = self.gate.scope(self.actor, action, snapshot.graph_branch, snapshot.catalog)
        if scope is None:
            return snapshot
        return self.engine.scoped_snapshots.within(snapshot, scope)

    def may_invoke(self, query: str) -> bool:
        """Whether the policy lets this handle see and run the stored query of this name."""
        if self.gate is None:
            return True
        try:
            self.gate.require(self.actor, INVOKE_QUERY, None, query)
        except PolicyDenied:
            return False
        return True

    @contextmanager
    def reading(self, action: str = READ, branch: str | None = None) -> Iterator[Engine]:
        """A read: the policy allows it, and not too many run already."""
        engine = self.engine
        self.require(action, branch)
        if self.admission is None:
            yield engine
            return
        with self.admission.read():
            yield engine

    @contextmanager
    def writing(
        self,
        action: str,
        branch: str | None = None,
        target: str | None = None,
        estimate: Callable[[], int] = lambda: 256,
    ) -> Iterator[Engine]:
        """A write: the handle may write, the policy allows it, and the actor has a slot."""
        engine = self.writable()
        self.require(action, branch, target)
        if self.admission is None:
            yield engine
            return
        with self.admission.write(self.actor, estimate()):
            yield engine

    def writable(self) -> Engine:
        engine = self.engine
        if self.read_only:
            raise ReadOnlyGraph(f"{self.uri} was opened with read_only=True")
        return engine

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None and self._owner is None:
            engine.close()
