"""`graph.queries`: list, run and check the stored queries of a graph.

A query that does not exist and a query that the policy hides are the same to a caller.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph import reads
from omnigraph.graph.access import Access
from omnigraph.manifest.commit_graph import CommitName
from omnigraph.policy.actions import ADMIN, CHANGE, INVOKE_QUERY, READ
from omnigraph.values.identifiers import MAIN

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.execute.query_types import QueryResult
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.mutate.mutation import MutationReceipt
    from omnigraph.stored_queries.entries import QueryValidation, StoredQuery
    from omnigraph.syntax.source_text import SourceText

NO_SUCH_QUERY = "no such stored query: the list of stored queries names those that you may run"
"""The message says nothing of the query, so that a denied one looks like a missing one."""


class Queries:
    """The stored queries: named queries that were written and checked before they are run."""

    def __init__(
        self,
        access: Access,
        query: Callable[..., QueryResult],
        mutate: Callable[..., MutationReceipt],
    ) -> None:
        self._access = access
        self._query = query
        self._mutate = mutate

    def list(self, branch: str = MAIN) -> builtins.list[StoredQuery]:
        """The stored queries that compile with the schema of a branch, in the order of names.

        With a policy only those that it lets this handle run.
        """
        self._access.require(READ, branch)
        return stored_queries(self._access, branch)

    def run(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        branch: str = MAIN,
        *,
        at: CommitName | None = None,
        timeout: float | None = None,
        cancel: threading.Event | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        expect_mutation: bool | None = None,
    ) -> QueryResult | MutationReceipt:
        """Run a stored query: the rows of a read, the receipt of a mutation.

        `at`, `timeout` and `cancel` are for reads, `message` and `if_commit` for mutations.
        `expect_mutation` refuses a query of the other kind. A policy must allow `invoke_query`,
        and then `read` or `change`.

        Example:
            >>> graph = omnigraph.open("people.omni", queries="queries")
            >>> graph.queries.run("friends_of", {"name": "Ada"}).to_pylist()
        """
        found, text = self._find(name, branch)
        require_kind(found, expect_mutation)
        if found.mutation:
            if at is not None:
                raise InvalidArgument(
                    f"stored query '{name}' changes the graph, so it has no `snapshot` to read",
                    query=name,
                )
            return self._mutate(
                text,
                name,
                params,
                branch,
                message=message,
                if_commit=if_commit,
                idempotency_key=idempotency_key,
            )
        if if_commit is not None or message is not None:
            raise InvalidArgument(
                f"stored query '{name}' only reads: a condition or a message is for mutations",
                query=name,
            )
        return self._query(text, name, params, branch, at=at, timeout=timeout, cancel=cancel)

    def validate(self, branch: str = MAIN) -> QueryValidation:
        """The stored queries that do not compile with the schema of a branch, and warnings."""
        from omnigraph.stored_queries.entries import QueryValidation

        self._access.require(READ, branch)
        registry = self._access.queries
        if registry is None:
            return QueryValidation()
        snapshot = reads.snapshot(self._access.engine, branch, None)
        found = registry.compiled(snapshot.catalog).validation
        if self._access.seen(snapshot) is not snapshot:
            return QueryValidation()  # its messages could name what this handle may not see
        access = self._access
        seen = [b for b in found.breakages if access.allows(INVOKE_QUERY, query=b.query)]
        return replace(found, breakages=tuple(seen))

    def reload(self) -> QueryValidation:
        """Read the directory again; if a query does not fit the schema of main, the old ones stay.

        The answer says what does not fit.
        """
        self._access.require(ADMIN)
        return reload_queries(self._access)

    def _find(self, name: str, branch: str) -> tuple[StoredQuery, SourceText]:
        """The query; one that the whole schema does not fit raises its error."""
        access, registry = self._access, self._access.queries
        if registry is None or not access.may_invoke(name):
            raise NotFound(NO_SUCH_QUERY)
        if not access.allows(CHANGE, branch):
            # On a closed branch a missing query must look like a denied one, too.
            if not registry.knows(name, reads.snapshot(access.engine, MAIN, None).catalog):
                raise NotFound(NO_SUCH_QUERY)
            access.require(READ, branch)  # neither: an unknown branch is refused like a closed one
        with access.telling():
            whole = reads.snapshot(access.engine, branch, None)
        found = registry.find(name, whole.catalog)
        if found is not None:
            if registry.find(name, _visible(access, whole, found.mutation)) is None:
                raise NotFound(NO_SUCH_QUERY)
            return found, registry.compiled(whole.catalog).texts[name]
        compiled = registry.compiled(whole.catalog)
        broken = [b for b in compiled.validation.breakages if b.query == name]
        if not broken or access.seen(whole) is not whole:
            raise NotFound(NO_SUCH_QUERY)
        raise InvalidArgument(
            f"stored query '{name}' does not fit the schema of branch '{branch}': {broken[0]}",
            query=name,
            file=broken[0].file,
            line=broken[0].line,
        )


def stored_queries(access: Access, branch: str) -> list[StoredQuery]:
    """The queries that this handle may run: by name, and by what they read and write."""
    registry = access.queries
    if registry is None:
        return []
    with access.telling():
        whole = reads.snapshot(access.engine, branch, None)
    queries = registry.compiled(whole.catalog).queries
    if access.gate is None:
        return list(queries)
    visible = {mutation: _visible(access, whole, mutation) for mutation in (False, True)}
    return [
        query
        for query in queries
        if access.allows(INVOKE_QUERY, query=query.name)
        and registry.find(query.name, visible[query.mutation]) is not None
    ]


def _visible(access: Access, whole: Snapshot, mutation: bool) -> Catalog:
    """What a query must fit to be known to this handle.

    A mutation that the handle may not run on this branch, but perhaps on another, is known by what
    the handle reads.
    """
    may_change = mutation and access.allows(CHANGE, whole.graph_branch)
    return access.seen(whole, CHANGE if may_change else READ).catalog


def reload_queries(access: Access) -> QueryValidation:
    """`Queries.reload` for the process that has the graph open, which is no actor."""
    from omnigraph.stored_queries.entries import QueryValidation

    registry = access.queries
    if registry is None:
        return QueryValidation()
    return registry.reload(reads.snapshot(access.engine, MAIN, None).catalog)


def visible_texts(access: Access, branch: str) -> list[SourceText]:
    """The texts of the stored queries that this handle may run, for a schema plan."""
    registry = access.queries
    if registry is None:
        return []
    texts = registry.compiled(reads.snapshot(access.engine, branch, None).catalog).texts
    return [texts[query.name] for query in stored_queries(access, branch)]


def require_kind(found: StoredQuery, expect_mutation: bool | None) -> None:
    if expect_mutation is None or expect_mutation == found.mutation:
        return
    told = (
        "changes the graph: run it with `mutate`"
        if found.mutation
        else ("only reads: run it with `query`")
    )
    raise InvalidArgument(f"stored query '{found.name}' {told}", query=found.name)
