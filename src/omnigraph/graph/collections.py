"""`graph.branches`, `graph.tags`, `graph.commits` and `graph.schema`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from omnigraph.errors import NotFound
from omnigraph.graph import reads
from omnigraph.graph.access import Access
from omnigraph.graph.stored_queries import visible_texts
from omnigraph.manifest.commit_graph import CommitName
from omnigraph.manifest.records import PIPELINE, Commit
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.policy.actions import BRANCH_CREATE, BRANCH_DELETE, READ, SCHEMA_APPLY
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import AUTO, LOCAL, SPARK, require_engine
from omnigraph.values.scalars import LiteralValue
from omnigraph.values.temporal import moment_of, write_micros

if TYPE_CHECKING:
    from omnigraph.diff.change import ChangePage
    from omnigraph.evolve.apply import SchemaResult
    from omnigraph.evolve.plan import SchemaPlan
    from omnigraph.graph.reads import QuerySource
    from omnigraph.graph.schema_changes import SchemaDiff, SchemaSource, SchemaVersion


@dataclass(frozen=True, slots=True)
class Branch:
    """A live branch and its head."""

    name: str
    head_commit_id: str
    forked_from: str | None
    created_at: int
    """Microseconds since the epoch; 0 for main, whose time is that of the first commit."""
    repeated: bool = False
    """An earlier call with the same idempotency key created it."""

    @property
    def created(self) -> dt.datetime | None:
        """`created_at` as a datetime in UTC; None for main."""
        return moment_of(self.created_at) if self.created_at else None

    @property
    def created_at_rfc3339(self) -> str | None:
        return write_micros(self.created_at) if self.created_at else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "head_commit_id": self.head_commit_id,
            "forked_from": self.forked_from,
            "created_at": self.created_at,
            "created_at_rfc3339": self.created_at_rfc3339,
        }


class Branches:
    """Create, list, rename and delete branches."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(
        self, name: str, source: str = MAIN, *, idempotency_key: str | None = None
    ) -> Branch:
        """Start a branch at the head of another one; no data is copied."""
        from omnigraph.graph import keyed_writes as keys

        actor = self._access.actor
        # A copy of a branch shows what the branch has.
        self._access.require(READ, source)
        with self._access.writing(BRANCH_CREATE, source, name) as engine:
            if idempotency_key is None:
                engine.lifecycle.create(name, source, actor)
                return self._find(name)
            request = keys.keyed(keys.BRANCH_CREATED, actor, idempotency_key, None, name, source)
            made, repeated = keys.create_branch(engine, request, name, source)
            return Branch(**made, repeated=repeated)

    def list(self) -> list[Branch]:
        """The branches that the caller may read."""
        self._access.require_somewhere(READ)
        found = []
        for name in self._access.engine.reader.branch_refs.names():
            if not self._access.allows(READ, name):
                continue
            try:
                found.append(self._find(name))
            except NotFound:
                continue  # deleted after its name was listed
        return found

    def show(self, name: str) -> Branch:
        self._access.require(READ, name)
        with self._access.telling():
            return self._find(name)

    def rename(self, name: str, new_name: str, *, idempotency_key: str | None = None) -> Branch:
        """Give a branch another name. Its commits keep the name that it had at their time."""
        from omnigraph.graph import keyed_writes as keys

        actor = self._access.actor
        self._access.require(BRANCH_DELETE, None, name)
        self._access.require(READ, name)
        with self._access.writing(BRANCH_CREATE, name, new_name) as engine:
            if idempotency_key is None:
                engine.lifecycle.rename(name, new_name, actor)
                return self._find(new_name)
            asked = (name, new_name)
            request = keys.keyed(keys.BRANCH_RENAMED, actor, idempotency_key, None, *asked)
            made, repeated = keys.rename_branch(engine, request, name, new_name)
            return Branch(**made, repeated=repeated)

    def delete(self, name: str, *, idempotency_key: str | None = None) -> bool:
        """Delete a branch; True when an earlier call with the same key did it."""
        from omnigraph.graph import keyed_writes as keys

        actor = self._access.actor
        with self._access.writing(BRANCH_DELETE, None, name) as engine:
            if idempotency_key is None:
                engine.lifecycle.delete(name, actor)
                return False
            request = keys.keyed(keys.BRANCH_DELETED, actor, idempotency_key, None, name)
            return keys.delete_branch(engine, request, name)

    def _find(self, name: str) -> Branch:
        ref, state = self._access.engine.reader.branch(name)
        return Branch(ref.name, state.head_commit_id, ref.forked_from, ref.created_at)


class Tags:
    """Create, list and delete tags."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(
        self, name: str, target: CommitName = MAIN, *, idempotency_key: str | None = None
    ) -> Tag:
        """`target` is a branch, commit, tag or moment, as for `Graph.snapshot`."""
        from omnigraph.graph import keyed_writes as keys

        actor = self._access.actor
        self._access.require(BRANCH_CREATE, None, name)
        if self._access.gate is not None:
            self._access.snapshot(
                MAIN, target
            )  # a tag makes a state permanent: it must be readable
        with self._access.writing(BRANCH_CREATE, None, name) as engine:

            def make() -> Tag:
                return engine.lifecycle.create_tag(name, target, actor)

            if idempotency_key is None:
                return self._access.shown_tag(make())
            request = keys.keyed(keys.TAG_CREATED, actor, idempotency_key, None, name, target)
            tag, repeated = keys.create_tag(engine, request, name, make)
            return replace(self._access.shown_tag(tag), repeated=repeated)

    def list(self) -> list[Tag]:
        """The tags of commits of branches that the caller may read."""
        access = self._access
        access.require_somewhere(READ)
        refs = access.engine.reader.tag_refs
        found = [tag for name in refs.names() if (tag := refs.find(name)) is not None]
        return [access.shown_tag(tag) for tag in found if access.allows(READ, tag.graph_branch)]

    def delete(self, name: str, *, idempotency_key: str | None = None) -> bool:
        """Delete a tag; True when an earlier call with the same key did it."""
        from omnigraph.graph import keyed_writes as keys

        actor = self._access.actor
        with self._access.writing(BRANCH_DELETE, None, name) as engine:
            if idempotency_key is None:
                engine.reader.tag_refs.remove(name)
                return False
            request = keys.keyed(keys.TAG_DELETED, actor, idempotency_key, None, name)
            return keys.delete_tag(engine, request, name)


class Commits:
    """Read the history."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def list(
        self,
        branch: str = MAIN,
        limit: int | None = 50,
        *,
        first_parent: bool = False,
        pipeline: str | None = None,
        after: str | None = None,
    ) -> list[Commit]:
        """Newest first, with the commits that merges brought and those from before the fork.

        With `first_parent` a merge is one commit, without those that it brought. With `pipeline`
        only the runs of the pipeline with this name are listed. `after` is the id of a commit of
        the list, and what comes behind it is returned.
        """
        self._access.require(READ, branch)
        with self._access.telling():
            _, state = self._access.engine.reader.branch(branch)
        commits = self._access.commits()
        every = commits.walk(state) if first_parent else commits.newest(state)
        found = (stored.commit for stored in commits.without_hidden(state, every))
        if pipeline is not None:
            found = (c for c in found if c.details.get(PIPELINE, {}).get("name") == pipeline)
        if after is not None and not any(c.graph_commit_id == after for c in found):
            raise NotFound(f"no commit {after!r} on branch {branch!r}", commit=after)
        return [self._access.shown(commit) for commit in islice(found, limit)]

    def by_key(self, idempotency_key: str) -> Sequence[Commit]:
        """The commit that a request of this actor with the key made, as a list: one or none.

        Use it when the answer of a write was lost. A handle that may write first recovers what dead
        writers left, because recovery may finish that write.
        """
        from omnigraph.graph.commit_history import commits_by_key

        access = self._access
        access.require_somewhere(READ)
        found = commits_by_key(access.engine, access.actor, idempotency_key)
        if not found and not access.read_only:
            access.engine.recovery.sweep()
            found = commits_by_key(access.engine, access.actor, idempotency_key)
        readable = [commit for commit in found if access.allows(READ, commit.graph_branch)]
        return [access.shown(commit) for commit in readable]

    def show(self, commit_id: CommitName, branch: str = MAIN) -> Commit:
        """One commit: by id or a unique prefix, tag, branch, moment of `branch`, or `HEAD~N`."""
        self._access.require_somewhere(READ)
        commits = self._access.commits()
        return self._access.shown(commits.find(commits.resolve(commit_id, branch), branch))

    def schema_steps(
        self, commit_id: CommitName, branch: str = MAIN
    ) -> Sequence[Mapping[str, Any]]:
        """The steps of a commit that changed the schema, as JSON; empty for every other commit."""
        from omnigraph.graph.schema_changes import schema_steps

        commit = self.show(commit_id, branch)
        return schema_steps(self._access.engine, commit, self._access.visible_catalog)

    def graph(self, branch: str = MAIN, limit: int = 50) -> Sequence[str]:
        """The history of a branch with everything merged into it, drawn as lines of text."""
        from omnigraph.graph import commit_history

        with self._access.reading(READ, branch) as engine:
            commits = self._access.commits()
            return commit_history.draw(
                commit_history.newest_commits(engine, commits, branch, limit)
            )

    def changes(
        self,
        commit_id: CommitName,
        types: Sequence[str] | None = None,
        *,
        branch: str = MAIN,
        kinds: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ChangePage:
        """What a commit changed against its first parent; pages like `Graph.diff`.

        The commit is named as for `show`.
        """
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.graph import commit_history

        wanted = ChangeFilter.of(types, kinds, ops)
        access = self._access
        access.require_somewhere(READ)
        with access.slot() as engine:
            return commit_history.commit_changes(
                engine,
                access.commits(),
                commit_id,
                branch,
                wanted,
                limit,
                cursor,
                seen=access.seen,
            )


class Schema:
    """Read and change the schema of a branch."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def show(self, branch: str = MAIN, *, at: CommitName | None = None) -> AcceptedSchema:
        """The schema of a branch, now or `at` a commit, tag, moment or branch."""
        from omnigraph.graph.schema_changes import accepted_schema

        snapshot = self._access.schema_snapshot(branch, at)
        return accepted_schema(self._access.engine, snapshot)

    def plan(
        self,
        schema: SchemaSource,
        *,
        branch: str = MAIN,
        allow_data_loss: bool = False,
        backfill: Mapping[str, LiteralValue] | None = None,
        reembed: bool = False,
        severity: Mapping[str, str] | None = None,
        queries: Sequence[QuerySource] = (),
        all_branches: bool = False,
        engine: str = AUTO,
    ) -> SchemaPlan:
        """What `apply` would do with the same arguments; nothing is written.

        `severity` weighs codes: `{"OG-CD-101": "error"}` refuses a change with such a step, "warn"
        lists the code, "off" leaves it out. `queries` are `.gq` files or texts; the plan lists
        their queries that would no longer compile, and such stored queries of this graph. With
        `all_branches` it says of every other branch whether it could follow. With `engine="spark"`
        workers check the stored entities; `auto` does so for many of them if a session is up.

        Example:
            >>> plan = graph.schema.plan(Path("people.pg"))
            >>> print(plan)
            >>> plan.supported
        """
        from omnigraph.graph.schema_changes import plan_schema
        from omnigraph.schema.changes import Granted, read_severity

        granted = Granted(allow_data_loss, dict(backfill or {}), reembed, read_severity(severity))
        sources = [reads.query_source(source) for source in queries]
        require_engine(engine, "schema plan", (AUTO, LOCAL, SPARK))
        with self._access.reading(READ, branch) as opened:
            sources += visible_texts(self._access, branch)
            self._access.require_all_seen(SCHEMA_APPLY, branch)
            return plan_schema(
                opened,
                schema,
                granted,
                branch,
                sources,
                all_branches=all_branches,
                work=engine,
            )

    def apply(
        self,
        schema: SchemaSource | None = None,
        *,
        branch: str = MAIN,
        allow_data_loss: bool = False,
        backfill: Mapping[str, LiteralValue] | None = None,
        reembed: bool = False,
        severity: Mapping[str, str] | None = None,
        plan: SchemaPlan | Mapping[str, Any] | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        engine: str = AUTO,
    ) -> SchemaResult:
        """Change the schema of a branch to this text, `.pg` file or catalog, as one commit.

        `backfill` gives values for stored entities: `{"Person.full": 'first + " " + last'}`, an
        expression over the entity's own properties, or a constant that is no text. `plan` is a
        saved plan; it is refused if the schema has changed since. A schema that is in force already
        makes no commit. With `engine="spark"` workers check stored entities and write new values of
        columns; `auto` does so for many rows if a session is up.

        Example:
            >>> graph.schema.apply(Path("people.pg"), message="people have an email")
        """
        from omnigraph.commit.request import CommitTerms
        from omnigraph.graph.keyed_writes import details_of, keyed
        from omnigraph.graph.managed import refuse_managed
        from omnigraph.graph.schema_changes import apply_schema
        from omnigraph.schema.changes import Granted, read_severity

        granted = Granted(allow_data_loss, dict(backfill or {}), reembed, read_severity(severity))
        asked = (schema, allow_data_loss, backfill, reembed, severity, plan, message, if_commit)
        actor = self._access.actor
        request = keyed("schema_apply", actor, idempotency_key, branch, *asked)
        terms = CommitTerms(branch, actor, message, if_commit, idempotency_key, details_of(request))
        require_engine(engine, "schema apply", (AUTO, LOCAL, SPARK))
        with self._access.writing(SCHEMA_APPLY, None, branch) as parts:
            self._access.require_all_seen(SCHEMA_APPLY, branch)
            refuse_managed(parts.store, "schema apply")
            return apply_schema(parts, schema, granted, terms, plan, engine, request)

    def diff(self, a: CommitName, b: CommitName) -> SchemaDiff:
        """The steps from the schema of state `a` to that of state `b`."""
        from omnigraph.graph.schema_changes import diff_schemas

        self._access.require_somewhere(READ)
        commits = self._access.commits()
        seen = self._access.seen
        return diff_schemas(seen(commits.snapshot_at(a)), seen(commits.snapshot_at(b)))

    def history(self, branch: str = MAIN, limit: int | None = None) -> Sequence[SchemaVersion]:
        """The commits that changed the schema of a branch, newest first."""
        from omnigraph.graph.schema_changes import schema_history

        self._access.require(READ, branch)
        access = self._access
        return schema_history(access.engine, branch, limit, access.visible_catalog, access.shown)
