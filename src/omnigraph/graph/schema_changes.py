"""The operations of `graph.schema`, on schemas as callers give them: text, `.pg` file, catalog."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.identity import fingerprint, shape_hash
from omnigraph.catalog.model import Catalog
from omnigraph.commit.request import CommitTerms
from omnigraph.errors import InvalidArgument, PreconditionFailed, SchemaRefused
from omnigraph.manifest.records import Commit
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.catalog_text import catalog_text, visible_text
from omnigraph.schema.changes import BREAKS_QUERIES, Granted
from omnigraph.schema.evolve import plan_changes
from omnigraph.schema.steps import PlannedStep, entity_of
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import LOCAL
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.commit.keyed_requests import KeyedRequest
    from omnigraph.evolve.apply import SchemaResult
    from omnigraph.evolve.plan import NewSchema, SavedPlan, SchemaPlan
    from omnigraph.graph.engine import Engine

SchemaSource = Catalog | str | os.PathLike[str] | SourceText


def read_schema(schema: SchemaSource) -> tuple[Catalog, str]:
    """The catalog and its text; the text of a catalog is generated."""
    if isinstance(schema, Catalog):
        return schema, catalog_text(schema)
    if isinstance(schema, SourceText):
        return catalog_from_text(schema.text, schema.file), schema.text
    # A schema has braces or line breaks; a path practically never does.
    if isinstance(schema, str) and ("{" in schema or "\n" in schema):
        return catalog_from_text(schema), schema
    path = Path(schema)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read the schema file {path}: {error}") from error
    return catalog_from_text(text, str(path)), text


def plan_schema(
    engine: Engine,
    schema: SchemaSource,
    granted: Granted,
    branch: str,
    queries: Sequence[SourceText] = (),
    *,
    all_branches: bool = False,
    work: str = LOCAL,
) -> SchemaPlan:
    """What applying the schema to a branch would do now; nothing is written.

    `work` is the engine that checks stored rows.
    """
    from omnigraph.evolve.plan import prepare_change, with_branches, with_stored_queries

    snapshot = engine.reader.snapshot(*engine.reader.branch(branch))
    new, graph_id = _new_schema(schema), graph_id_of(engine)
    source = _accepted_source(engine)(snapshot)
    context = engine.schema_context(work)
    prepared = prepare_change(context, snapshot, new, granted, graph_id, source)
    plan = with_stored_queries(prepared, snapshot.catalog, queries)
    return with_branches(context, snapshot, plan, new) if all_branches else plan


def apply_schema(
    engine: Engine,
    schema: SchemaSource | None,
    granted: Granted,
    terms: CommitTerms,
    saved: SchemaPlan | Mapping[str, Any] | None,
    work: str,
    keyed: KeyedRequest | None = None,
) -> SchemaResult:
    """Apply a schema, or the schema of a saved plan; `work` is the engine."""
    from omnigraph.evolve import apply
    from omnigraph.evolve.plan import SavedPlan
    from omnigraph.graph import keyed_writes

    plan = SavedPlan.of(saved) if saved is not None else None
    if (schema is None) == (plan is None):
        raise InvalidArgument("give either a schema or a saved plan")
    if plan is not None:
        granted = plan.granted
    graph_id = graph_id_of(engine)
    new = _new_schema(schema if plan is None else SourceText(plan.schema_source, "<plan>"))

    def require_base(snapshot: Snapshot) -> None:
        if plan is not None:
            _require_same_base(plan, snapshot, graph_id)

    def run() -> SchemaResult:
        if plan is not None:
            _require_whole_queries(plan)
        snapshot = engine.reader.snapshot(*engine.reader.branch(terms.branch))
        require_base(snapshot)
        request = apply.SchemaRequest(
            new=new,
            granted=granted,
            terms=_with_reasons(terms, plan_changes(snapshot.catalog, new.catalog, granted).steps),
            graph_id=graph_id,
            accepted_source=_accepted_source(engine),
            require_base=require_base,
            choose_writer=engine.choose_column_writer(work),
        )
        context = engine.schema_context(work)
        return apply.apply_schema(context, engine.transaction, request, snapshot)

    def of_commit(commit: Commit) -> SchemaResult:
        return apply.repeated_result(engine.reader, commit, new, granted, graph_id)

    return keyed_writes.apply_schema(engine, keyed, run, of_commit)


def _with_reasons(terms: CommitTerms, steps: Sequence[PlannedStep]) -> CommitTerms:
    """The terms with the reasons of `@allow` below the message of the commit."""
    lines = [
        f"Allowed: {step.codes[0]} {entity_of(step.step)}: {step.allowed}"
        for step in steps
        if step.allowed is not None
    ]
    if not lines:
        return terms
    message = [terms.message, ""] if terms.message else []
    return replace(terms, message="\n".join([*message, *lines]))


def _require_same_base(plan: SavedPlan, snapshot: Snapshot, graph_id: str) -> None:
    if plan.graph_id != graph_id:
        raise PreconditionFailed(
            "this plan was made for another graph: plan again",
            branch=snapshot.graph_branch,
            expected=plan.graph_id,
            actual=graph_id,
        )
    if plan.graph_branch != snapshot.graph_branch:
        raise PreconditionFailed(
            f"this plan was made for branch {plan.graph_branch!r}, not {snapshot.graph_branch!r}",
            branch=snapshot.graph_branch,
            expected=plan.graph_branch,
            actual=snapshot.graph_branch,
        )
    found = shape_hash(snapshot.catalog)
    if plan.base_schema_hash != found:
        raise PreconditionFailed(
            f"the schema of branch {snapshot.graph_branch!r} changed after this plan was made: "
            "plan again",
            branch=snapshot.graph_branch,
            expected=plan.base_schema_hash,
            actual=found,
        )


def _require_whole_queries(plan: SavedPlan) -> None:
    if plan.broken_queries:
        more = len(plan.broken_queries) - 1
        others = f" ({counted(more, 'more refusal')})" if more else ""
        raise SchemaRefused(
            f"this plan was refused: {plan.broken_queries[0]}{others}",
            refusal=BREAKS_QUERIES,
            reason=plan.broken_queries[0],
        )


def _new_schema(schema: SchemaSource | None) -> NewSchema:
    from omnigraph.evolve.plan import NewSchema

    assert schema is not None
    catalog, text = read_schema(schema)
    return NewSchema(catalog, text)


def _accepted_source(engine: Engine) -> Callable[[Snapshot], str]:
    return lambda snapshot: accepted_schema(engine, snapshot).source


def accepted_schema(engine: Engine, snapshot: Snapshot) -> AcceptedSchema:
    """The schema of a state. The text of one that was made in Python is generated.

    Of a scoped snapshot it is the part in scope, with a text of its own.
    """
    accepted = engine.reader.schemas.read(snapshot.schema_id)
    if snapshot.scope is not None:
        catalog = snapshot.catalog
        return replace(
            accepted,
            catalog=catalog,
            source=visible_text(catalog),
            fingerprint=fingerprint(catalog),
            steps=(),
        )
    if accepted.source:
        return accepted
    return replace(accepted, source=catalog_text(accepted.catalog))


def graph_id_of(engine: Engine) -> str:
    return engine.reader.graph_id(engine.reader.branch(MAIN)[1])


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """The steps from the schema of one state to that of another."""

    before: str
    after: str
    steps: tuple[PlannedStep, ...]

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps) or "no difference"

    def to_dict(self) -> dict[str, Any]:
        return {
            "from_commit_id": self.before,
            "to_commit_id": self.after,
            "step_count": len(self.steps),
            "steps": [step.to_dict() for step in self.steps],
        }


def diff_schemas(before: Snapshot, after: Snapshot) -> SchemaDiff:
    from omnigraph.evolve.apply import changes_between

    steps = changes_between(before.catalog, after.catalog).steps
    return SchemaDiff(before.graph_commit_id, after.graph_commit_id, steps)


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A commit that changed the schema, and the steps that it made."""

    commit: Commit
    schema_hash: str
    steps: tuple[Mapping[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "commit": self.commit.to_dict(),
            "schema_hash": self.schema_hash,
            "steps": [dict(step) for step in self.steps],
        }


Shown = Callable[[Commit], Commit]
Visible = Callable[[str, Catalog], Catalog | None]
"""The part of a catalog that the caller sees on a branch; None: all of it."""


def schema_history(
    engine: Engine, branch: str, limit: int | None, visible: Visible, shown: Shown
) -> list[SchemaVersion]:
    """Commits of a branch that changed its schema, newest first, down to the first commit.

    Commits that changed nothing that the caller sees are left out.
    """
    _, state = engine.reader.branch(branch)
    found: list[SchemaVersion] = []
    newer: Commit | None = None
    for stored in engine.commits.walk(state):
        if newer is not None and stored.commit.schema_id != newer.schema_id:
            version = _version(engine, newer, stored.commit, visible, shown)
            found += [version] if version is not None else []
            if limit is not None and len(found) >= limit:
                return found
        newer = stored.commit
    if newer is not None:
        first = _version(engine, newer, None, visible, shown)
        found += [first] if first is not None else []
    return found


def _version(
    engine: Engine, commit: Commit, parent: Commit | None, visible: Visible, shown: Shown
) -> SchemaVersion | None:
    """None if the commit changed nothing that the caller sees."""
    accepted = engine.reader.schemas.read(commit.schema_id)
    part = visible(commit.graph_branch, accepted.catalog)
    steps = _steps(engine, accepted, parent, visible)
    if part is None:
        return SchemaVersion(commit, accepted.schema_hash, steps)
    if parent is not None and not steps:
        return None
    return SchemaVersion(shown(commit), shape_hash(part), steps)


def schema_steps(engine: Engine, commit: Commit, visible: Visible) -> tuple[Mapping[str, Any], ...]:
    """The steps of a commit that changed the schema; empty for every other commit."""
    accepted = engine.reader.schemas.read(commit.schema_id)
    if accepted.schema_version != commit.graph_commit_id or commit.parent_commit_id is None:
        return ()
    parent = engine.commits.find(commit.parent_commit_id, commit.graph_branch)
    return _steps(engine, accepted, parent, visible)


def _steps(
    engine: Engine, accepted: AcceptedSchema, parent: Commit | None, visible: Visible
) -> tuple[Mapping[str, Any], ...]:
    """Merges and reverts store no steps, so theirs are found out from the schema before.

    So are those of a part of the schema, because stored steps name all of it.
    """
    from omnigraph.evolve.apply import changes_between

    after = accepted.catalog
    if parent is None:
        return accepted.steps if visible(MAIN, after) is None else ()
    branch = parent.graph_branch
    part = visible(branch, after)
    if accepted.steps and part is None:
        return accepted.steps
    before = engine.reader.schemas.read(parent.schema_id).catalog
    old, new = visible(branch, before) or before, part or after
    return tuple(step.to_dict() for step in changes_between(old, new).steps)
