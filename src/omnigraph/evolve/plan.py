"""A schema change as it would be applied now: steps, cost, and what stands in its way.

`plan_schema` reads the stored rows where a step depends on them, and writes nothing. `evolve.apply`
plans in the same way before it writes, so a plan that is supported is applied unless the graph has
changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from omnigraph.catalog.identity import shape_hash
from omnigraph.catalog.model import Catalog
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument, NotFound, SchemaRefused, ValidationFailed
from omnigraph.evolve.checks import (
    CheckedTables,
    ChooseEngine,
    SchemaViolation,
    changes_by_key,
    run_checks,
)
from omnigraph.evolve.local_checks import check_here
from omnigraph.evolve.new_columns import NewColumns, new_columns
from omnigraph.evolve.stored_queries import BrokenQuery, check_stored_queries
from omnigraph.lance_store.reads.scan import bytes_per_row
from omnigraph.lance_store.store import Store
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.schema import steps as st
from omnigraph.schema.changes import (
    BRANCH_BEHIND,
    BREAKS_QUERIES,
    CODES,
    LARGE_REWRITE,
    FillSource,
    Granted,
    SchemaChanges,
    read_severity,
)
from omnigraph.schema.evolve import plan_changes
from omnigraph.schema.steps import PlannedStep, StepClass
from omnigraph.syntax.severities import SeverityLevel
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.values.plurals import counted

LARGE_BYTES = 1 << 30
"""A rewrite of more bytes gets the code `OG-LK-101`."""

PLAN_FORMAT = 1

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema text as its reader understood it."""

    catalog: Catalog
    source: str


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The parts of the engine that plan a schema change."""

    store: Store
    clock: Clock
    provider: Callable[[], EmbeddingProvider]
    memory_bytes: int
    reader: ManifestReader
    choose_checks: ChooseEngine = check_here
    """Where stored rows are checked."""


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """What applying a schema text would do. `supported` is False if it would be refused."""

    graph_id: str
    graph_branch: str
    base_commit_id: str
    base_schema_hash: str
    target_schema_hash: str
    schema_source: str
    granted: Granted
    steps: tuple[PlannedStep, ...]
    requires: tuple[str, ...] = ()
    violations: tuple[SchemaViolation, ...] = ()
    warnings: tuple[str, ...] = ()
    branches: tuple[BranchOutlook, ...] = ()
    """With `all_branches`: whether the other branches could follow."""
    stored_queries: tuple[BrokenQuery, ...] = ()
    """Queries of the given files that would no longer compile."""

    @property
    def supported(self) -> bool:
        refused = self.violations or self.refuses_queries
        return not refused and all(step.is_supported for step in self.steps)

    @property
    def refuses_queries(self) -> bool:
        """Queries break, and the caller weighs that as an error."""
        level = self.granted.level(BREAKS_QUERIES)
        return bool(self.stored_queries) and level is SeverityLevel.ERROR

    @property
    def has_changes(self) -> bool:
        return bool(self.steps)

    @property
    def refusals(self) -> tuple[st.UnsupportedChange, ...]:
        return tuple(s.step for s in self.steps if isinstance(s.step, st.UnsupportedChange))

    @property
    def is_lossy(self) -> bool:
        return any(step.step_class is StepClass.LOSSY for step in self.steps)

    @property
    def cost(self) -> dict[str, Any]:
        """The entities that are read and written, and the most expensive class of a step."""
        order = list(StepClass)
        classes = [step.step_class for step in self.steps if step.is_supported]
        written = [s for s in self.steps if s.step_class is StepClass.REWRITE]
        return {
            "class": max(classes, key=order.index).value if classes else None,
            "entities_read": sum(step.entities for step in self.steps),
            "entities_written": sum(step.entities for step in written),
            "bytes_estimate": sum(step.bytes_estimate for step in written),
        }

    def to_dict(self) -> dict[str, Any]:
        """The `schema plan` object of the command line and HTTP; `from_dict` reads it back."""
        return {
            "format": PLAN_FORMAT,
            "graph_id": self.graph_id,
            "graph_branch": self.graph_branch,
            "supported": self.supported,
            "step_count": len(self.steps),
            "steps": [step.to_dict() for step in self.steps],
            "requires": list(self.requires),
            "violations": [violation.to_dict() for violation in self.violations],
            "warnings": list(self.warnings),
            "stored_queries": [query.to_dict() for query in self.stored_queries],
            "branches": [branch.to_dict() for branch in self.branches],
            "base_commit_id": self.base_commit_id,
            "base_schema_hash": self.base_schema_hash,
            "target_schema_hash": self.target_schema_hash,
            "cost": self.cost,
            "schema_source": self.schema_source,
            "allow_data_loss": self.granted.allow_data_loss,
            "backfill": dict(self.granted.backfill),
            "reembed": self.granted.reembed,
            "severity": {code: level.value for code, level in self.granted.severity.items()},
        }

    def __str__(self) -> str:
        if not self.steps:
            return "no change"
        lines = [_line(step) for step in self.steps]
        lines += [f"! {violation}" for violation in self.violations]
        mark = "x" if self.refuses_queries else "!"
        lines += [f"{mark} {query}  [{query.code}]" for query in self.stored_queries]
        lines += [str(branch) for branch in self.branches]
        lines += [f"note: {warning}" for warning in self.warnings]
        return "\n".join(lines)


_MARKS = {
    StepClass.METADATA: " ",
    StepClass.VALIDATED: "?",
    StepClass.REWRITE: "~",
    StepClass.LOSSY: "-",
}


def _line(step: PlannedStep) -> str:
    mark = _MARKS[step.step_class] if step.is_supported else "x"
    notes = [step.step_class.value] if step.is_supported else ["refused"]
    notes += [f"{step.entities:,} {'entity' if step.entities == 1 else 'entities'}"] * bool(
        step.entities
    )
    notes += step.codes
    hint = f"\n    {step.suggestion}" if step.suggestion else ""
    return f"{mark} {step}  [{', '.join(notes)}]{hint}"


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The part of a saved plan that an apply needs."""

    graph_id: str
    graph_branch: str
    base_commit_id: str
    base_schema_hash: str
    target_schema_hash: str
    schema_source: str
    granted: Granted
    broken_queries: tuple[str, ...] = ()
    """Why the plan refused to break queries; an apply does not know the queries."""

    @staticmethod
    def of(data: SchemaPlan | Mapping[str, Any]) -> SavedPlan:
        body = data.to_dict() if isinstance(data, SchemaPlan) else data
        try:
            if body["format"] != PLAN_FORMAT:
                raise InvalidArgument(
                    f"this plan has format {body['format']!r}, this release reads {PLAN_FORMAT}: "
                    "plan again"
                )
            granted = Granted(
                _of_type(bool, body["allow_data_loss"]),
                _of_type(dict, body["backfill"]),
                _of_type(bool, body["reembed"]),
                read_severity(body["severity"]),
            )
            return SavedPlan(
                graph_id=str(body["graph_id"]),
                graph_branch=str(body["graph_branch"]),
                base_commit_id=str(body["base_commit_id"]),
                base_schema_hash=str(body["base_schema_hash"]),
                target_schema_hash=str(body["target_schema_hash"]),
                schema_source=_of_type(str, body["schema_source"]),
                granted=granted,
                broken_queries=tuple(str(found["message"]) for found in body["stored_queries"])
                if granted.level(BREAKS_QUERIES) is SeverityLevel.ERROR
                else (),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(
                f"this is no plan that `schema plan --out` wrote: {error!r}"
            ) from error


def _of_type(wanted: type[_V], value: Any) -> _V:
    if not isinstance(value, wanted):
        raise TypeError(f"{value!r} is no {wanted.__name__}")
    return value


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A plan with everything that applying it needs."""

    plan: SchemaPlan
    changes: SchemaChanges
    columns: Mapping[TableKey, NewColumns]
    """By the new key of each type that exists already."""

    def require_supported(self) -> None:
        """Raise what stands in the way: refused steps first, then violations of stored rows."""
        refusals, violations = self.plan.refusals, self.plan.violations
        if refusals:
            first = refusals[0]
            more = f" ({counted(len(refusals) - 1, 'more refusal')})" if len(refusals) > 1 else ""
            raise SchemaRefused(
                f"{first.entity}: {first.reason}{more}",
                refusal=first.code,
                step=first.entity,
                reason=first.reason,
                refusals=[st.step_to_json(refused) for refused in refusals],
                requires=list(self.plan.requires),
            )
        if violations:
            total = sum(violation.count for violation in violations)
            raise ValidationFailed(
                "stored entities break the new schema; nothing changed. "
                + "; ".join(str(violation) for violation in violations),
                violations=[violation.to_dict() for violation in violations],
                total=total,
                stored=True,
            )


def row_counts(snapshot: Snapshot) -> dict[TableKey, int]:
    return {key: pin.row_count for key, pin in snapshot.tables.items()}


def changes_of(snapshot: Snapshot, new: NewSchema, granted: Granted, clock: Clock) -> SchemaChanges:
    """The change without a look at the stored rows."""
    return plan_changes(
        snapshot.catalog,
        new.catalog,
        granted,
        rows=row_counts(snapshot),
        new_identity=lambda _: clock.new_ulid(),
    )


def prepare_change(
    context: PlanContext,
    snapshot: Snapshot,
    new: NewSchema,
    granted: Granted,
    graph_id: str,
    accepted_source: str,
) -> PreparedChange:
    """Plan the change of one state, with the answers of the stored rows."""
    changes = changes_of(snapshot, new, granted, context.clock)
    steps = changes.steps
    if not steps and new.source != accepted_source:
        steps = (PlannedStep(st.UpdateSource()),)
    columns, problems = _columns(context, changes)
    steps = (*steps, *problems, *_branches_behind(context, snapshot, changes))
    violations: list[SchemaViolation] = []
    if all(step.is_supported for step in steps):
        tables = CheckedTables(context.store, snapshot, changes, columns, context.memory_bytes)
        try:
            violations = run_checks(tables, context.choose_checks)
        except InvalidArgument as error:  # a backfill makes a value that does not fit
            steps = (*steps, PlannedStep(st.UnsupportedChange("backfill", error.message)))
    plan = SchemaPlan(
        graph_id=graph_id,
        graph_branch=snapshot.graph_branch,
        base_commit_id=snapshot.graph_commit_id,
        base_schema_hash=shape_hash(snapshot.catalog),
        target_schema_hash=shape_hash(changes.target),
        schema_source=new.source,
        granted=granted,
        steps=judged(
            [_with_cost(context.store, snapshot, step, changes) for step in steps], granted
        ),
        requires=changes.requires,
        violations=tuple(violations),
        warnings=changes.warnings,
    )
    return PreparedChange(plan, changes, columns)


def _branches_behind(
    context: PlanContext, snapshot: Snapshot, changes: SchemaChanges
) -> list[PlannedStep]:
    """Refuse new ids of a type that other branches hold, because a merge matches rows by id."""
    found = []
    rekeyed = [c.before for c in changes.tables if c.rekeys and c.before is not None]
    for entity in rekeyed:
        holders = [
            name
            for name, other in _other_branches(context, snapshot)
            if any(
                t.identity == entity.identity and other.pin(t.table_key).row_count
                for t in other.catalog.entity_types()
            )
        ]
        if holders:
            reason = (
                f"its ids would change, and {', '.join(holders)} "
                f"{'holds' if len(holders) == 1 else 'hold'} it, too: "
                "merge or delete the other branches first"
            )
            kind = entity.table_key.kind.value
            unsupported = st.UnsupportedChange(f"{kind}:{entity.name}", reason, BRANCH_BEHIND)
            found.append(PlannedStep(unsupported, codes=(BRANCH_BEHIND,)))
    return found


def _other_branches(context: PlanContext, snapshot: Snapshot) -> Iterator[tuple[str, Snapshot]]:
    for name in context.reader.branch_refs.names():
        if name == snapshot.graph_branch:
            continue
        try:
            yield name, context.reader.snapshot(*context.reader.branch(name))
        except NotFound:
            continue  # deleted after its name was listed


@dataclass(frozen=True, slots=True)
class BranchOutlook:
    """Whether another branch could follow the same change now."""

    name: str
    supported: bool
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.supported:
            return f"  branch {self.name} could follow"
        return f"! branch {self.name}: {'; '.join(self.reasons)}  [{BRANCH_BEHIND}]"

    def to_dict(self) -> dict[str, Any]:
        codes = [] if self.supported else [BRANCH_BEHIND]
        return {
            "name": self.name,
            "supported": self.supported,
            "codes": codes,
            "reasons": list(self.reasons),
        }


def with_branches(
    context: PlanContext, snapshot: Snapshot, plan: SchemaPlan, new: NewSchema
) -> SchemaPlan:
    """The plan with what the same schema would meet on every other branch."""
    found = []
    for name, other in _other_branches(context, snapshot):
        there = prepare_change(context, other, new, plan.granted, plan.graph_id, "").plan
        reasons = [str(refused) for refused in there.steps if not refused.is_supported]
        reasons += [str(violation) for violation in there.violations]
        found.append(BranchOutlook(name, there.supported, tuple(reasons)))
    return replace(plan, branches=tuple(found))


def with_stored_queries(
    prepared: PreparedChange, before: Catalog, sources: Sequence[SourceText]
) -> SchemaPlan:
    """The plan with the queries that it breaks."""
    plan, level = prepared.plan, prepared.plan.granted.level(BREAKS_QUERIES)
    if level is SeverityLevel.OFF or not sources:
        return plan
    found = check_stored_queries(sources, before, prepared.changes.target)
    warnings = (*plan.warnings, *found.warnings)
    return replace(plan, stored_queries=found.broken, warnings=warnings)


def judged(steps: Sequence[PlannedStep], granted: Granted) -> tuple[PlannedStep, ...]:
    """The steps with the severities of the caller: codes that are off left out, errors refused."""
    found: list[PlannedStep] = []
    refused: list[PlannedStep] = []
    for step in steps:
        if not step.is_supported:
            found.append(step)
            continue
        levels = {code: granted.level(code) for code in step.codes}
        shown = tuple(c for c, level in levels.items() if level is not SeverityLevel.OFF)
        found.append(replace(step, codes=shown))
        for code, level in levels.items():
            if level is SeverityLevel.ERROR:
                entity = st.entity_of(step.step)
                reason = f"{step}: {CODES[code]}, and the severity of {code} is error"
                refusal = st.UnsupportedChange(entity, reason, code)
                refused.append(PlannedStep(refusal, codes=(code,)))
    return (*found, *refused)


def _columns(
    context: PlanContext, changes: SchemaChanges
) -> tuple[dict[TableKey, NewColumns], Sequence[PlannedStep]]:
    found: dict[TableKey, NewColumns] = {}
    problems: list[PlannedStep] = []
    now = context.clock.now_micros() // 1000
    for key, change in changes_by_key(changes.tables).items():
        embeds = any(
            c.fill is not None and c.fill.source is FillSource.EMBEDDING for c in change.columns
        )
        provider = context.provider() if embeds else None
        try:
            found[key] = new_columns(change, changes.target, now, provider)
        except InvalidArgument as error:
            unsupported = st.UnsupportedChange(f"{key.kind.value}:{key.type_name}", error.message)
            problems.append(PlannedStep(unsupported))
    return found, problems


def _with_cost(
    store: Store, snapshot: Snapshot, step: PlannedStep, changes: SchemaChanges
) -> PlannedStep:
    """The step with the bytes that it writes: the share of its column in the rows."""
    if step.step_class is not StepClass.REWRITE or not step.entities:
        return step
    owner = getattr(step.step, "type_name", None)
    change = next((c for c in changes.tables if c.after and c.after.name == owner), None)
    if change is None or change.before is None:
        return step
    width = bytes_per_row(store.open(snapshot.pin(change.before.table_key).at))
    estimate = step.entities * max(1, width // max(1, len(change.before.properties) + 1))
    codes = (*step.codes, LARGE_REWRITE) if estimate > LARGE_BYTES else step.codes
    return replace(step, bytes_estimate=estimate, codes=codes)
