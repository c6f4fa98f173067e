"""`Access`: an engine as one handle uses it. Every operation of a `Graph` passes here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from omnigraph.catalog.model import Catalog
from omnigraph.errors import (
    ExpectedVersionMismatch,
    GraphClosed,
    NotFound,
    OmnigraphError,
    PolicyDenied,
    PolicyInvalid,
    ReadOnlyGraph,
    ValidationFailed,
)
from omnigraph.graph import reads
from omnigraph.graph.admission import Admission
from omnigraph.graph.engine import Engine
from omnigraph.manifest.commit_graph import CommitGraph, CommitName
from omnigraph.manifest.records import Commit
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.visible_branches import visible_commits
from omnigraph.policy.actions import ANYWHERE, CHANGE, INVOKE_QUERY, READ, SCHEMA_READ
from omnigraph.values.identifiers import MAIN, TableKey, check_ref_name
from omnigraph.values.known_names import did_you_mean

if TYPE_CHECKING:
    from omnigraph.ir.data_scope import DataScope
    from omnigraph.scoping.write_judge import WriteJudge
    from omnigraph.scoping.write_scopes import WriterView, WriteScopes
    from omnigraph.stored_queries.registry import QueryRegistry

logger = logging.getLogger(__name__)


class Gate(Protocol):
    """Decides whether an actor may do something with a graph."""

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        """Raise `PolicyDenied` unless it is allowed. Names of branches are in their normal form.

        The branch `ANYWHERE` asks whether it is allowed on some branch.
        """

    def allows(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None = None,
        query: str | None = None,
    ) -> bool:
        """What `require` decides, to choose what a listing shows."""

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        """The part of the graph in which an allowed `read`, `export` or `change` stays.

        None: the whole graph.
        """


class AdmittedRead:
    """A read that the policy allows, while it runs. A generator would cost every read more."""

    __slots__ = ("_access", "_engine")

    def __init__(self, access: Access, engine: Engine) -> None:
        self._access = access
        self._engine = engine

    def __enter__(self) -> Engine:
        admission = self._access.admission
        if admission is not None:
            admission.enter("read", admission.limits.reads)
        return self._engine

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        admission = self._access.admission
        if admission is not None:
            admission.add("read", -1)
        if isinstance(error, NotFound):
            self._access.tell(error)


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

    def require(
        self,
        action: str,
        branch: str | None = None,
        target: str | None = None,
        query: str | None = None,
    ) -> None:
        """Refuse what the policy does not allow.

        Names are brought into their normal form first, or refused, so that another spelling of a
        protected branch cannot pass.
        """
        if self.gate is None:
            return
        named = None if branch is None else check_ref_name(branch)
        wanted = None if target is None else check_ref_name(target)
        self.gate.require(self.actor, action, named, wanted, query)

    def require_somewhere(self, action: str) -> None:
        """Refuse an action that the policy allows on no branch."""
        if self.gate is not None:
            self.gate.require(self.actor, action, ANYWHERE, None)

    def allows(
        self,
        action: str,
        branch: str | None = None,
        target: str | None = None,
        query: str | None = None,
    ) -> bool:
        """Whether the policy allows it, to choose what a listing shows."""
        if self.gate is None:
            return True
        return self.gate.allows(self.actor, action, _normal(branch), _normal(target), query)

    def commits(self, action: str = READ) -> CommitGraph:
        """The commits by name; branches that the policy closes are like unknown ones."""
        if self.gate is None:
            return self.engine.commits
        return visible_commits(self.engine.reader, lambda branch: self.allows(action, branch))

    def snapshot(self, branch: str, at: CommitName | None, action: str = READ) -> Snapshot:
        """The state of a branch, or `at` a commit, tag, moment or branch, as this handle sees it.

        The policy is asked before anything is read. A state of a closed branch that `at` names is
        like an unknown one.
        """
        if self.gate is None:
            return reads.snapshot(self.engine, branch, at)
        if at is None:
            self.require(action, branch)
            try:  # `telling` is a generator, which costs more than the decision
                found = reads.snapshot(self.engine, branch, None)
            except NotFound as error:
                self.tell(error)
                raise
            return self.seen(found, action)
        self.require_somewhere(action)
        found = self.commits(action).snapshot_at(at, branch)
        self.require(action, found.graph_branch)
        return self.seen(found, action)

    def schema_snapshot(self, branch: str, at: CommitName | None) -> Snapshot:
        """The state whose schema is read. That of main is open to all that read some branch."""
        if self.gate is None:
            return reads.snapshot(self.engine, branch, at)
        if at is not None or branch != MAIN or self.allows(SCHEMA_READ, branch):
            return self.snapshot(branch, at, SCHEMA_READ)
        self.require_somewhere(SCHEMA_READ)
        return self._within(reads.snapshot(self.engine, branch, None), SCHEMA_READ, ANYWHERE)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Errors about an unknown branch name only branches that this actor may read."""
        try:
            yield
        except NotFound as error:
            self.tell(error)
            raise

    def tell(self, error: NotFound) -> None:
        """Raise the error again without names of branches that this actor may not read."""
        if self.gate is None or error.branch is None or type(error) is not NotFound:
            return
        names = self.engine.reader.branch_refs.names()
        hint = did_you_mean(error.branch, (name for name in names if self.allows(READ, name)))
        told = f"no branch {error.branch!r}" + (f"; {hint}" if hint else "")
        raise NotFound(told, branch=error.branch) from None

    def seen(self, snapshot: Snapshot, action: str = READ) -> Snapshot:
        """The snapshot as this handle may see it; without rules, the snapshot itself.

        Every read of rows begins here. Its catalog has no hidden type and no hidden property, and
        its `scope` has the rules about rows.
        """
        return self._within(snapshot, action, snapshot.graph_branch)

    def _within(self, snapshot: Snapshot, action: str, branch: str) -> Snapshot:
        if self.gate is None:
            return snapshot
        scope = self._scope(action, branch, snapshot.catalog)
        if scope is None:
            return snapshot
        return self.engine.scoped_snapshots.within(snapshot, scope)

    def may_invoke(self, query: str) -> bool:
        """Whether the policy lets this handle run the stored query of this name."""
        try:
            self.require(INVOKE_QUERY, query=query)
        except PolicyDenied:
            return False
        return True

    def _scope(self, action: str, branch: str | None, catalog: Catalog) -> DataScope | None:
        """The scope of an action. Rules that do not fit the catalog show nothing of it.

        Their error names properties that the actor may not see, so only the log has it.
        """
        if self.gate is None:
            return None
        try:
            return self.gate.scope(self.actor, action, branch, catalog)
        except PolicyInvalid as error:
            logger.warning("the policy of %s does not fit a state: %s", self.uri, error.message)
            raise PolicyInvalid(
                "the policy does not fit the schema of this state, so nothing of it is shown: "
                "ask the operator, who finds the reason in the log",
                diagnostics=(),
            ) from None

    def require_all_seen(self, action: str, branch: str) -> None:
        """Refuse an action that reads the whole schema and all entities, and tells about them."""
        if self.gate is None:
            return
        reader = self.engine.reader
        state = reader.snapshot(*reader.branch(branch))
        if self._scope(READ, state.graph_branch, state.catalog) is not None:
            raise PolicyDenied(
                f"{self.actor!r} may not {action} on branch {branch!r}: it reads the whole graph, "
                "and the rules of the actor show a part of it",
                action=action,
                branch=branch,
                actor_id=self.actor,
            )

    def visible_catalog(self, branch: str, catalog: Catalog) -> Catalog | None:
        """The part of a schema that this handle sees on a branch; None: all of it."""
        from omnigraph.ir.data_scope import visible_catalog

        try:
            scope = self._scope(READ, branch, catalog)
        except PolicyInvalid:
            return Catalog()
        return None if scope is None else visible_catalog(catalog, scope)

    def shown(self, commit: Commit) -> Commit:
        """A commit as this handle may see it: with counts only of types that it sees whole."""
        whole = self._whole_tables(commit.graph_branch, commit.schema_id)
        if whole is None:
            return commit
        from omnigraph.scoping.shown_records import shown_commit

        return shown_commit(commit, whole)

    def shown_tag(self, tag: Tag) -> Tag:
        """A tag as this handle may see it."""
        whole = self._whole_tables(tag.graph_branch, tag.schema_id)
        if whole is None:
            return tag
        from omnigraph.scoping.shown_records import shown_tag

        return shown_tag(tag, whole)

    def whole_types(self, branch: str, *others: str | Commit) -> frozenset[str] | None:
        """Names of the types that this handle sees whole on all of these branches; None: all.

        A commit stands for the state that it left on its branch.
        """
        if self.gate is None:
            return None
        reader = self.engine.reader
        found: list[frozenset[TableKey]] = []
        for name in (branch, *others):
            state = name if isinstance(name, Commit) else reader.snapshot(*reader.branch(name))
            if not self.allows(READ, state.graph_branch):
                return frozenset()
            whole = self._whole_tables(state.graph_branch, state.schema_id)
            found += [] if whole is None else [whole]
        if not found:
            return None
        return frozenset(key.type_name for key in frozenset.intersection(*found))

    def _whole_tables(self, branch: str, schema_id: str) -> frozenset[TableKey] | None:
        """The tables that this handle sees whole in a state; None: all of them."""
        if self.gate is None:
            return None
        from omnigraph.scoping.shown_records import whole_tables

        catalog = self.engine.reader.schemas.read(schema_id).catalog
        try:
            scope = self._scope(READ, branch, catalog)
        except PolicyInvalid:
            return frozenset()
        return None if scope is None else whole_tables(catalog, scope)

    def judge(
        self,
        branch: str,
        needs_whole: Callable[[str], bool] = lambda _: False,
        seen: frozenset[str] | None = None,
    ) -> WriteJudge | None:
        """What judges the changes of a write to a branch; None without a policy.

        A write touches the types for which `needs_whole` is true only if it may change the whole
        type. `seen` are the types whose stored entities its errors may show; None: all.
        """
        if self.gate is None:
            return None
        from omnigraph.scoping.write_judge import WriteJudge

        def refuse(type_name: str | None) -> PolicyDenied:
            whose = f"of {type_name}" if type_name is not None else "of a type out of its scope"
            return PolicyDenied(
                f"{self.actor!r} may not {CHANGE} these entities {whose} on branch {branch!r}",
                action=CHANGE,
                branch=branch,
                actor_id=self.actor,
            )

        return WriteJudge(
            self.engine.store,
            lambda snapshot: self._write_scopes(branch, snapshot.catalog),
            refuse,
            needs_whole,
            seen,
        )

    def writer(self, branch: str) -> WriterView | None:
        """What a write to a branch may name and read; None without a policy."""
        if self.gate is None:
            return None
        from omnigraph.scoping.write_scopes import WriterView

        return WriterView(
            lambda catalog: self._write_scopes(branch, catalog),
            self.engine.scoped_snapshots.within,
        )

    def _write_scopes(self, branch: str, catalog: Catalog) -> WriteScopes:
        from omnigraph.scoping.write_scopes import WriteScopes

        assert self.gate is not None
        named = check_ref_name(branch)
        change = self._scope(CHANGE, named, catalog)
        if not self.gate.allows(self.actor, READ, named):
            return WriteScopes(change, change)  # it addresses what it may change
        return WriteScopes(change, self._scope(READ, named, catalog))

    def reading(self, action: str = READ, branch: str | None = None) -> AdmittedRead:
        """A read: the policy allows it, and not too many run already."""
        self.require(action, branch)
        return self.slot()

    def slot(self) -> AdmittedRead:
        """A read that the policy allowed: not too many run already."""
        return AdmittedRead(self, self.engine)

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
        admitted: AbstractContextManager[object] = (
            nullcontext()
            if self.admission is None
            else self.admission.write(self.actor, estimate())
        )
        try:
            with self.telling(), admitted:
                yield engine
        except (ValidationFailed, ExpectedVersionMismatch) as error:
            if self.gate is None:
                raise
            raise self._discreet(error, target or branch or MAIN) from None

    def _discreet(
        self, error: ValidationFailed | ExpectedVersionMismatch, branch: str
    ) -> OmnigraphError:
        """The error without what this handle may not see."""
        from omnigraph.scoping.shown_records import discreet, discreet_mismatch

        reader = self.engine.reader
        try:
            found = reader.branch(branch)
        except NotFound:  # a load made the branch, and took it back when it failed
            found = reader.branch(MAIN)
        catalog = reader.snapshot(*found).catalog
        scopes = self._write_scopes(branch, catalog)
        if scopes.is_everything:
            return error
        named = scopes.named(catalog)
        if isinstance(error, ExpectedVersionMismatch):
            return discreet_mismatch(error, named)
        return discreet(error, named)

    def writable(self) -> Engine:
        engine = self.engine
        if self.read_only:
            raise ReadOnlyGraph(f"{self.uri} was opened with read_only=True")
        return engine

    def for_repair(self) -> Access:
        """The same handle, writable without recovery; the policy stays in force."""
        return Access(
            self.engine,
            self.actor,
            read_only=False,
            gate=self.gate,
            admission=self.admission,
            queries=self.queries,
        )

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None and self._owner is None:
            engine.close()


def _normal(branch: str | None) -> str | None:
    return None if branch is None else check_ref_name(branch)
