"""Plans a schema change: from the accepted and the new catalog to steps, tables and checks.

Pure: everything is decided from the two catalogs and the permissions of the caller. What only the
stored rows can tell is returned as `DataCheck`s, which the package `evolve` evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from omnigraph.catalog.declared_types import EDGE, INTERFACE, NODE, DeclaredType
from omnigraph.catalog.identity import (
    HintProblem,
    NameMatch,
    carry_identities,
    counterpart,
    match_all,
    match_identities,
    match_names,
    without_hints,
)
from omnigraph.catalog.model import (
    SOURCE,
    TARGET,
    Annotation,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
    allowances,
    default_of,
    embedding_of,
    is_protected,
    renamed_from,
    renamed_values,
)
from omnigraph.schema import steps as st
from omnigraph.schema.changes import (
    ALLOW_DATA_LOSS,
    BACKFILL,
    CARDINALITY,
    CONSTRAINT_REMOVED,
    DROPPED_EDGE,
    DROPPED_NODE,
    DROPPED_PROPERTY,
    DROPPED_VECTOR,
    ENDPOINTS,
    ENUM_NARROWING,
    KNOWN_ANNOTATIONS,
    NO_DEFAULT,
    NULLS,
    PROBABLE_RENAME,
    RANGE_OR_CHECK,
    REEMBED,
    RENAME_CYCLE,
    TYPE_CHANGE,
    UNIQUE,
    UNKNOWN_ANNOTATION,
    VECTORS_INVALID,
    WIDER,
    CheckKind,
    ColumnChange,
    DataCheck,
    Fill,
    FillSource,
    Granted,
    SchemaChanges,
    TableChange,
)
from omnigraph.schema.steps import PlannedStep, StepClass
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)


def plan_changes(
    old: Catalog,
    new: Catalog,
    granted: Granted | None = None,
    *,
    rows: Mapping[TableKey, int] | None = None,
    new_identity: Callable[[str], str] | None = None,
    by_identity: bool = False,
) -> SchemaChanges:
    """Plan the change from `old` to `new`.

    `rows` are the numbers of stored rows; an empty type needs no backfill. Without it every type is
    taken to hold rows. `new` has names and hints, and `new_identity` makes the identities of new
    types and properties. With `by_identity` both are accepted catalogs, and identities decide.
    """
    match = match_identities if by_identity else match_all
    target = new if by_identity else carry_identities(old, new, new_identity)
    plan = _Planner(old, new, target, granted or Granted(), rows, match)
    plan.interfaces()
    plan.types(old.nodes, new.nodes, plan.target.nodes, NODE)
    plan.types(old.edges, new.edges, plan.target.edges, EDGE)
    plan.follow_keys()
    plan.unused_backfills()
    plan.unclassified()
    return plan.result()


def widens(before: ValueType, after: ValueType) -> bool:
    """Every value of type `before` is a value of type `after`."""
    match before, after:
        case ScalarType(old), ScalarType(new):
            return new in WIDER.get(old, frozenset())
        case ListType(old), ListType(new):
            return new in WIDER.get(old, frozenset())
        case EnumType(), ScalarType(ScalarKind.STRING):
            return True
        case ScalarType(old), ListType(new):
            return old == new
        case EnumType(), ListType(ScalarKind.STRING):
            return True
        case EnumType(few), EnumType(more):
            return set(few) <= set(more)
        case _:
            return False


def has_other_storage(before: ValueType, after: ValueType) -> bool:
    """The two types have different Arrow types. An enum is stored as a string."""
    text = ScalarType(ScalarKind.STRING)
    a, b = (text if isinstance(kind, EnumType) else kind for kind in (before, after))
    return a != b


Matcher = Callable[..., NameMatch]
"""Finds out which of the new declarations is which of the old ones."""


class _Planner:
    def __init__(
        self,
        old: Catalog,
        new: Catalog,
        target: Catalog,
        granted: Granted,
        rows: Mapping[TableKey, int] | None,
        match: Matcher,
    ) -> None:
        self.old = old
        self.new = new
        self.granted = granted
        self.rows = rows
        self.target = target
        self.match = match
        self.steps: list[PlannedStep] = []
        self.tables: list[TableChange] = []
        self.checks: list[DataCheck] = []
        self.requires: list[str] = []
        self.warnings: list[str] = []
        self.used_backfills: set[str] = set()
        nodes, edges = match(old.nodes, new.nodes), match(old.edges, new.edges)
        self.type_names = {o: n for m in (nodes, edges) for n, o in m.sources.items()}

    def result(self) -> SchemaChanges:
        return SchemaChanges(
            self.target,
            tuple(self.steps),
            tuple(self.tables),
            tuple(dict.fromkeys(self.checks)),
            tuple(dict.fromkeys(self.requires)),
            tuple(self.warnings),
        )

    def add(
        self,
        step: st.SchemaStep,
        step_class: StepClass = StepClass.METADATA,
        *codes: str,
        table: TableKey | None = None,
        suggestion: str | None = None,
        allowed: str | None = None,
    ) -> None:
        touches = step_class in (StepClass.VALIDATED, StepClass.REWRITE)
        count = (self.rows or {}).get(table, 0) if table is not None and touches else 0
        self.steps.append(
            PlannedStep(step, step_class, codes, count, suggestion=suggestion, allowed=allowed)
        )

    def refuse(self, entity: str, reason: str, code: str | None = None) -> None:
        unsupported = st.UnsupportedChange(entity, reason, code)
        self.steps.append(PlannedStep(unsupported, codes=(code,) if code else ()))

    def require(self, name: str, entity: str, reason: str, code: str) -> None:
        """The change needs a permission that was not given."""
        self.requires.append(name)
        self.refuse(entity, reason, code)

    def problems(self, kind: str, owner: str, found: Sequence[HintProblem]) -> None:
        for problem in found:
            entity = f"{kind}:{owner}{problem.name}"
            reason = f"@rename_from({problem.source!r}): {problem.reason}"
            self.refuse(entity, reason, RENAME_CYCLE if problem.is_cycle else None)

    def has_rows(self, entity: EntityType) -> bool:
        return self.rows is None or self.rows.get(entity.table_key, 0) > 0

    # Interfaces

    def interfaces(self) -> None:
        match = match_all_interfaces(self.old.interfaces, self.new.interfaces)
        self.problems(INTERFACE, "", match.problems)
        known = {i.name: i for i in self.old.interfaces}
        for declared in self.target.interfaces:
            source = match.sources.get(declared.name)
            if source is None:
                self.add(st.AddType(INTERFACE, declared.name))
                continue
            if source != declared.name:
                self.add(st.RenameInterface(INTERFACE, source, declared.name))
            self._interface_content(known[source], declared)
        kept = set(match.sources.values())
        for name in known:
            if name not in kept:
                self.add(st.DropInterface(INTERFACE, name))

    def _interface_content(self, before: InterfaceType, after: InterfaceType) -> None:
        old = {p.name: p for p in before.properties}
        new = {p.name: p for p in after.properties}
        for name, declared in new.items():
            if name not in old:
                kind = DeclaredType(declared.type, declared.nullable)
                self.add(st.AddProperty(INTERFACE, after.name, name, kind))
        for name in old:
            if name not in new:
                self.add(st.DropProperty(INTERFACE, after.name, name))
        changed = any(new[n] != p and n in new for n, p in old.items() if n in new)
        constraints = set(before.constraints) != set(after.constraints)
        if changed or constraints or before.annotations != after.annotations:
            self.add(st.UpdateTypeMetadata(INTERFACE, after.name, after.annotations))

    # Types

    def types(
        self,
        old: Sequence[NodeType] | Sequence[EdgeType],
        new: Sequence[NodeType] | Sequence[EdgeType],
        target: Sequence[NodeType] | Sequence[EdgeType],
        kind: str,
    ) -> None:
        others = self.old.edges if kind == NODE else self.old.nodes
        other_kind = "an edge type" if kind == NODE else "a node type"
        elsewhere = {t.name: other_kind for t in others}
        match = self.match(old, new, elsewhere)
        self.problems(kind, "", match.problems)
        self.leftover(match)
        known = {t.name: t for t in old}
        declared = {t.name: t for t in new}
        for after in target:
            source = match.sources.get(after.name)
            before = known[source] if source is not None else None
            if before is None:
                self.add(st.AddType(kind, after.name))
                self._hints_of_new(declared[after.name], kind)
                self.tables.append(TableChange(None, after))
            else:
                self._type(before, after, declared[after.name], kind)
        kept = set(match.sources.values())
        for gone in old:
            if gone.name not in kept:
                self._dropped(gone, kind, [t for t in target if t.name not in match.sources])

    def leftover(self, match: NameMatch, owner: str = "") -> None:
        for name, source in match.unused:
            self.warnings.append(
                f"@rename_from({source!r}) of {owner}{name} does nothing: {owner}{name} exists"
            )

    def _hints_of_new(self, declared: EntityType, kind: str) -> None:
        """The properties of a new type cannot come from those of another type."""
        for prop in declared.properties:
            source = renamed_from(prop.annotations)
            if source is not None:
                reason = f"{declared.name} is new, so it had no '{source}'"
                self.problems(kind, f"{declared.name}.", [HintProblem(prop.name, source, reason)])

    def _dropped(self, gone: EntityType, kind: str, added: Sequence[EntityType]) -> None:
        code = DROPPED_NODE if kind == NODE else DROPPED_EDGE
        entity = f"{kind}:{gone.name}"
        if is_protected(gone.annotations):
            self.refuse(
                entity, "it is @protected: remove the annotation in a change of its own first", code
            )
        elif not self.granted.allow_data_loss and self.has_rows(gone):
            self.require(
                ALLOW_DATA_LOSS,
                entity,
                f"dropping {gone.name} loses its entities; allow it with allow_data_loss",
                code,
            )
        alike = next((t for t in added if _alike(gone, t)), None)
        hint = None if alike is None else f'write `{alike.name} @rename_from("{gone.name}")`'
        codes = (code, PROBABLE_RENAME) if alike else (code,)
        self.add(
            st.DropType(kind, gone.name),
            StepClass.LOSSY,
            *codes,
            table=gone.table_key,
            suggestion=hint,
        )
        self.tables.append(TableChange(gone, None))

    def _type(self, before: EntityType, after: EntityType, declared: EntityType, kind: str) -> None:
        if before.name != after.name:
            self.add(st.RenameType(kind, before.name, after.name))
        if _plain_notes(before.annotations) != _plain_notes(after.annotations):
            unknown = _unknown(after.annotations)
            codes = (UNKNOWN_ANNOTATION,) if unknown else ()
            self.add(
                st.UpdateTypeMetadata(kind, after.name, after.annotations),
                StepClass.METADATA,
                *codes,
            )
        rekeys = self._key(before, after, kind)
        columns = self._properties(before, after, declared, kind)
        self._constraints(before, after, kind)
        if isinstance(before, EdgeType) and isinstance(after, EdgeType):
            self._edge(before, after)
        if isinstance(before, NodeType) and isinstance(after, NodeType):
            self._implements(before, after)
        self.tables.append(TableChange(before, after, columns, rekeys))

    def _implements(self, before: NodeType, after: NodeType) -> None:
        names = match_all_interfaces(self.old.interfaces, self.new.interfaces).sources
        back = {old: new for new, old in names.items()}
        if tuple(back.get(name, name) for name in before.implements) != after.implements:
            step = st.ChangeImplements(NODE, after.name, before.implements, after.implements)
            self.add(step)

    def _key(self, before: EntityType, after: EntityType, kind: str) -> bool:
        """Plan another key; True if ids have to be spelled anew."""
        ids_before = {p.name: p.identity for p in before.properties}
        ids_after = {p.name: p.identity for p in after.properties}
        old = [ids_before.get(name, name) for name in before.key]
        new = [ids_after.get(name, name) for name in after.key]
        if old == new:
            return False
        table = after.table_key
        if before.key:
            self.add(
                st.DropConstraint(kind, after.name, Key(before.key)),
                StepClass.METADATA,
                CONSTRAINT_REMOVED,
            )
        if not after.key:
            return False
        self.add(
            st.AddConstraint(kind, after.name, Key(after.key)),
            StepClass.REWRITE,
            UNIQUE,
            table=before.table_key,
        )
        spelled = f"@key({', '.join(after.key)})"
        for name in after.key:
            self.check(CheckKind.REQUIRED, table, (name,), NULLS, spelled)
        self.check(CheckKind.UNIQUE, table, after.key, UNIQUE, spelled)
        return self.has_rows(before)

    def follow_keys(self) -> None:
        """Edges follow the new ids of their nodes; edges with a key then have new ids, too."""
        rekeyed = {
            change.after.table_key: change.after
            for change in self.tables
            if change.rekeys and isinstance(change.after, NodeType)
        }
        for place, change in enumerate(self.tables):
            edge = change.after
            if change.before is None or not isinstance(edge, EdgeType):
                continue
            ends = ((SOURCE, node_table(edge.source)), (TARGET, node_table(edge.target)))
            remaps = tuple((column, key) for column, key in ends if key in rekeyed)
            if remaps and self.has_rows(change.before):
                rekeys = change.rekeys or bool(edge.key)
                self.tables[place] = replace(change, remaps=remaps, rekeys=rekeys)

    def check(
        self, kind: CheckKind, table: TableKey, columns: tuple[str, ...], code: str, constraint: str
    ) -> None:
        self.checks.append(DataCheck(kind, table, columns, code, constraint))

    # Properties

    def _properties(
        self, before: EntityType, after: EntityType, declared: EntityType, kind: str
    ) -> tuple[ColumnChange, ...]:
        match = self.match(before.properties, declared.properties)
        self.problems(kind, f"{after.name}.", match.problems)
        self.leftover(match, f"{after.name}.")
        hinted = {p.name: p for p in declared.properties}
        columns = []
        for prop in after.properties:
            known = counterpart(prop, before.properties, match)
            if known is None:
                columns.append(self._added(before, after, prop, kind))
            else:
                columns.append(self._changed(before, after, known, prop, hinted[prop.name], kind))
        kept = set(match.sources.values())
        new = [prop for prop in after.properties if prop.name not in match.sources]
        for gone in before.properties:
            if gone.name not in kept:
                self._dropped_property(before, after, declared, gone, new, kind)
        return tuple(columns)

    def _dropped_property(
        self,
        before: EntityType,
        after: EntityType,
        declared: EntityType,
        gone: Property,
        added: Sequence[Property],
        kind: str,
    ) -> None:
        code = DROPPED_VECTOR if isinstance(gone.type, VectorType) else DROPPED_PROPERTY
        entity = f"{kind}:{after.name}.{gone.name}"
        reason = allowances(declared.annotations).get(code)
        allowed = self.granted.allow_data_loss or reason is not None
        if is_protected(gone.annotations):
            self.refuse(
                entity, "it is @protected: remove the annotation in a change of its own first", code
            )
        elif not allowed and self.has_rows(before):
            self.require(
                ALLOW_DATA_LOSS,
                entity,
                f"dropping {after.name}.{gone.name} loses its values; allow it with "
                f'allow_data_loss, or with `@allow({code}, "reason")` on {after.name}',
                code,
            )
        alike = next((p for p in added if p.type == gone.type), None)
        hint = None if alike is None else f'write `{alike.name}: … @rename_from("{gone.name}")`'
        codes = (code, PROBABLE_RENAME) if alike else (code,)
        step = st.DropProperty(kind, after.name, gone.name)
        self.add(step, StepClass.LOSSY, *codes, suggestion=hint, allowed=reason)

    def _added(
        self, before: EntityType, owner: EntityType, prop: Property, kind: str
    ) -> ColumnChange:
        declared = DeclaredType(prop.type, prop.nullable)
        fill = self._fill(owner, prop)
        lacks = not prop.nullable and fill is None and self.has_rows(before)
        codes = () if prop.nullable else (NO_DEFAULT,)
        self.add(st.AddProperty(kind, owner.name, prop.name, declared), StepClass.METADATA, *codes)
        if lacks:
            self.require(
                BACKFILL,
                f"{kind}:{owner.name}.{prop.name}",
                "existing entities need a value: make it nullable, give it a @default, or a "
                f"backfill for {owner.name}.{prop.name}",
                NO_DEFAULT,
            )
        if fill is None or not self.has_rows(before):
            return ColumnChange(prop)
        self._backfilled(before, owner, prop, fill, kind)
        return ColumnChange(prop, fill=fill)

    def _backfilled(
        self, before: EntityType, owner: EntityType, prop: Property, fill: Fill, kind: str
    ) -> None:
        value = fill.value if isinstance(fill.value, str | int | float | bool) else None
        source = FillSource.DEFAULT if fill.source is FillSource.DEFAULT else fill.source
        shown = fill.expression
        if shown is None and value is None:
            shown = str(fill.value)
        step = st.BackfillProperty(kind, owner.name, prop.name, source.value, value, shown)
        self.add(step, StepClass.REWRITE, table=before.table_key)
        name = f"{owner.name}.{prop.name}"
        self.check(CheckKind.VALUES, owner.table_key, (prop.name,), TYPE_CHANGE, name)
        if not prop.nullable:
            self.check(CheckKind.REQUIRED, owner.table_key, (prop.name,), NULLS, name)
        self._still_valid(owner, prop)

    def _still_valid(self, owner: EntityType, prop: Property) -> None:
        """New values of a property must keep its constraints, also those that it had before."""
        for constraint in owner.constraints:
            if prop.name in names_of(constraint):
                self._constraint_check(owner, constraint)

    def _constraint_check(self, owner: EntityType, constraint: Constraint) -> None:
        spelled = st.spell_constraint(constraint)
        match constraint:
            case Unique(names):
                self.check(CheckKind.UNIQUE, owner.table_key, names, UNIQUE, spelled)
            case Range(name) | Check(name):
                self.check(CheckKind.VALUES, owner.table_key, (name,), RANGE_OR_CHECK, spelled)
            case Key() | Index():
                pass

    def _fill(self, owner: EntityType, prop: Property) -> Fill | None:
        name = f"{owner.name}.{prop.name}"
        if name in self.granted.backfill:
            self.used_backfills.add(name)
            given = self.granted.backfill[name]
            if isinstance(given, str):
                return Fill(FillSource.EXPRESSION, expression=given)
            return None if given is None else Fill(FillSource.CONSTANT, given)
        default = default_of(prop)
        return None if default is None else Fill(FillSource.DEFAULT, default)

    def unused_backfills(self) -> None:
        known = {f"{t.name}.{p.name}" for t in self.target.entity_types() for p in t.properties}
        for name in self.granted.backfill:
            if name in self.used_backfills:
                continue
            if name not in known:
                self.refuse(f"backfill:{name}", f"the new schema has no property {name}")
            else:
                self.refuse(
                    f"backfill:{name}",
                    f"{name} needs no backfill: it is neither added nor made required",
                )

    def _changed(
        self,
        before: EntityType,
        owner: EntityType,
        old: Property,
        new: Property,
        declared: Property,
        kind: str,
    ) -> ColumnChange:
        if old.name != new.name:
            self.add(st.RenameProperty(kind, owner.name, old.name, new.name))
        column = ColumnChange(new, old)
        if old.type != new.type:
            column = self._type_change(before, owner, column, declared, kind)
        if column.before is None:  # its vectors are gone or made anew
            self._nullability(before, owner, replace(column, before=old), kind)
            self._notes(owner, old, new, kind)
            return column
        column = self._nullability(before, owner, column, kind)
        column = self._embedding(before, owner, column, kind)
        self._notes(owner, old, new, kind)
        return column

    def _notes(self, owner: EntityType, old: Property, new: Property, kind: str) -> None:
        embeds = [embedding_of(prop) is not None for prop in (old, new)]
        if _plain_notes(old.annotations) == _plain_notes(new.annotations) and len(set(embeds)) == 1:
            return
        codes = (UNKNOWN_ANNOTATION,) if _unknown(new.annotations) else ()
        step = st.UpdatePropertyMetadata(kind, owner.name, new.name, new.annotations)
        self.add(step, StepClass.METADATA, *codes)

    def _nullability(
        self, before: EntityType, owner: EntityType, column: ColumnChange, kind: str
    ) -> ColumnChange:
        old, new = column.before, column.after
        assert old is not None
        if new.nullable and not old.nullable:
            self.add(st.SetNullable(kind, owner.name, new.name))
        if new.nullable or not old.nullable:
            return column
        fill = self._fill(owner, new)
        table = before.table_key
        self.add(
            st.SetRequired(kind, owner.name, new.name), StepClass.VALIDATED, NULLS, table=table
        )
        self.check(
            CheckKind.REQUIRED, owner.table_key, (new.name,), NULLS, f"{owner.name}.{new.name}"
        )
        if fill is None or not self.has_rows(before):
            return column
        self._backfilled(before, owner, new, fill, kind)
        return replace(column, fill=fill)

    def _embedding(
        self, before: EntityType, owner: EntityType, column: ColumnChange, kind: str
    ) -> ColumnChange:
        old, new = column.before, column.after
        assert old is not None
        made_before, made_now = embedding_of(old), embedding_of(new)
        names = {p.name: p.identity for p in before.properties}
        now = {p.name: p.identity for p in owner.properties}
        same = (
            made_before is not None
            and made_now is not None
            and names.get(made_before.source) == now.get(made_now.source)
            and made_before.model == made_now.model
        )
        other_width = isinstance(old.type, VectorType) and old.type != new.type
        if made_now is None or made_before is None or (same and not other_width):
            return column
        width = (
            (old.type.width, new.type.width)
            if isinstance(new.type, VectorType) and isinstance(old.type, VectorType)
            else (0, 0)
        )
        self.add(
            st.ChangeEmbedding(
                kind,
                owner.name,
                new.name,
                (("source", made_before.source), ("model", made_before.model), ("dim", width[0])),
                (("source", made_now.source), ("model", made_now.model), ("dim", width[1])),
            ),
            StepClass.LOSSY,
            VECTORS_INVALID,
        )
        return self._vectors(before, owner, column, kind)

    def _vectors(
        self, before: EntityType, owner: EntityType, column: ColumnChange, kind: str
    ) -> ColumnChange:
        """Stored vectors are removed, or made again by the model."""
        new = column.after
        entity = f"{kind}:{owner.name}.{new.name}"
        if not self.has_rows(before):
            return ColumnChange(new, discards=True)
        if self.granted.reembed and embedding_of(new) is not None:
            if not new.nullable:
                name = f"{owner.name}.{new.name}"
                self.check(CheckKind.REQUIRED, owner.table_key, (new.name,), NULLS, name)
            return ColumnChange(new, fill=Fill(FillSource.EMBEDDING))
        if not new.nullable:
            self.require(
                REEMBED,
                entity,
                "it is required and its vectors do not fit any more: make them again with reembed",
                VECTORS_INVALID,
            )
        elif not self.granted.allow_data_loss:
            self.require(
                ALLOW_DATA_LOSS,
                entity,
                "its vectors do not fit any more: allow their loss with allow_data_loss, or make "
                "them again with reembed",
                VECTORS_INVALID,
            )
        return ColumnChange(new, discards=True)

    def _type_change(
        self,
        before: EntityType,
        owner: EntityType,
        column: ColumnChange,
        declared: Property,
        kind: str,
    ) -> ColumnChange:
        old, new = column.before, column.after
        assert old is not None
        if isinstance(old.type, EnumType) and isinstance(new.type, EnumType):
            return self._enum(before, owner, column, declared, kind)
        entity = f"{kind}:{owner.name}.{new.name}"
        if isinstance(old.type, VectorType) and isinstance(new.type, VectorType):
            if embedding_of(old) is None or embedding_of(new) is None:
                self._type_step(owner, column, st.Conversion.REEMBED, kind, StepClass.LOSSY)
                return self._vectors(before, owner, column, kind)
            return column  # `_embedding` plans it
        if any(isinstance(t, VectorType | BlobType) for t in (old.type, new.type)):
            self.refuse(
                entity,
                f"{old.type} cannot become {new.type}: drop the property and add a new one",
                TYPE_CHANGE,
            )
            return column
        if new.name in owner.key and not _spells_ids_alike(old.type, new.type):
            self.refuse(
                entity,
                f"it is part of the key, and {new.type} would spell the ids of existing "
                f"{kind}s differently: change the key in a change of its own",
                TYPE_CHANGE,
            )
            return column
        other = has_other_storage(old.type, new.type)
        if widens(old.type, new.type):
            wide = StepClass.REWRITE if other else StepClass.METADATA
            self._type_step(owner, column, st.Conversion.LOSSLESS, kind, wide, before)
            return replace(column, converts=other)
        if not other:
            name = f"{owner.name}.{new.name}"
            self._type_step(owner, column, st.Conversion.CAST, kind, StepClass.VALIDATED, before)
            self.check(CheckKind.VALUES, owner.table_key, (new.name,), TYPE_CHANGE, name)
            return column
        reason = allowances(declared.annotations).get(TYPE_CHANGE)
        allowed = self.granted.allow_data_loss or reason is not None
        kept = StepClass.LOSSY if allowed else StepClass.VALIDATED
        self._type_step(owner, column, st.Conversion.CAST, kind, kept, before, allowed=reason)
        name = f"{owner.name}.{new.name}"
        if not allowed:
            self.check(CheckKind.CONVERTIBLE, owner.table_key, (new.name,), TYPE_CHANGE, name)
        if not new.nullable:
            # A value that does not convert becomes NULL, and so does an empty list.
            self.check(CheckKind.REQUIRED, owner.table_key, (new.name,), NULLS, name)
        self._still_valid(owner, new)
        return replace(column, converts=True, is_lossy=allowed)

    def _type_step(
        self,
        owner: EntityType,
        column: ColumnChange,
        conversion: st.Conversion,
        kind: str,
        step_class: StepClass,
        before: EntityType | None = None,
        allowed: str | None = None,
    ) -> None:
        old, new = column.before, column.after
        assert old is not None
        step = st.ChangePropertyType(
            kind,
            owner.name,
            new.name,
            DeclaredType(old.type, old.nullable),
            DeclaredType(new.type, new.nullable),
            conversion,
        )
        codes = (VECTORS_INVALID,) if conversion is st.Conversion.REEMBED else (TYPE_CHANGE,)
        table = before.table_key if before is not None else None
        self.add(step, step_class, *codes, table=table, allowed=allowed)

    def _enum(
        self,
        before: EntityType,
        owner: EntityType,
        column: ColumnChange,
        declared: Property,
        kind: str,
    ) -> ColumnChange:
        old, new = column.before, column.after
        assert old is not None
        assert isinstance(old.type, EnumType)
        assert isinstance(new.type, EnumType)
        renamed = {
            a: b for a, b in renamed_values(declared.annotations).items() if a in old.type.values
        }
        added = tuple(
            v for v in new.type.values if v not in old.type.values and v not in renamed.values()
        )
        removed = tuple(v for v in old.type.values if v not in new.type.values and v not in renamed)
        if added:
            self.add(st.ExtendEnum(kind, owner.name, new.name, added))
        mapping = tuple(renamed.items())
        if mapping:
            step = st.RenameEnumValue(kind, owner.name, new.name, mapping)
            self.add(step, StepClass.REWRITE, table=before.table_key)
            self._still_valid(owner, new)
        if removed:
            self.add(
                st.NarrowEnum(kind, owner.name, new.name, removed),
                StepClass.VALIDATED,
                ENUM_NARROWING,
                table=before.table_key,
            )
            name = f"{owner.name}.{new.name}"
            self.check(CheckKind.VALUES, owner.table_key, (new.name,), ENUM_NARROWING, name)
        return replace(column, mapping=mapping if self.has_rows(before) else ())

    # Constraints

    def _constraints(self, before: EntityType, after: EntityType, kind: str) -> None:
        known = {p.identity: p.name for p in after.properties}
        names = {p.name: known[p.identity] for p in before.properties if p.identity in known}
        old = {with_names(c, names): c for c in before.constraints if not isinstance(c, Key)}
        new = [c for c in after.constraints if not isinstance(c, Key)]
        gone = {p.name for p in before.properties} - names.keys()
        for renamed, constraint in old.items():
            if renamed not in new and not gone & set(names_of(constraint)):
                step = st.DropConstraint(kind, after.name, constraint)
                codes = () if isinstance(constraint, Index) else (CONSTRAINT_REMOVED,)
                self.add(step, StepClass.METADATA, *codes)
        for constraint in new:
            if constraint not in old:
                self._constraint(before, after, constraint, kind)

    def _constraint(
        self, before: EntityType, after: EntityType, constraint: Constraint, kind: str
    ) -> None:
        step = st.AddConstraint(kind, after.name, constraint)
        match constraint:
            case Index():
                self.add(step)
            case Unique():
                self.add(step, StepClass.VALIDATED, UNIQUE, table=before.table_key)
            case Range() | Check():
                self.add(step, StepClass.VALIDATED, RANGE_OR_CHECK, table=before.table_key)
            case Key():
                pass
        self._constraint_check(after, constraint)

    def _edge(self, before: EdgeType, after: EdgeType) -> None:
        ends = tuple(self.type_names.get(name, name) for name in (before.source, before.target))
        table = before.table_key
        if ends != (after.source, after.target):
            step = st.ChangeEndpoints(
                EDGE,
                after.name,
                (before.source, before.target),
                (after.source, after.target),
            )
            self.add(step, StepClass.VALIDATED, ENDPOINTS, table=table)
            spelled = f"{after.source} -> {after.target}"
            self.check(CheckKind.ENDPOINTS, after.table_key, (), ENDPOINTS, spelled)
        if before.cardinality == after.cardinality:
            return
        change = st.ChangeCardinality(EDGE, after.name, before.cardinality, after.cardinality)
        if not is_tighter(before, after):
            codes = (CONSTRAINT_REMOVED,) if after.cardinality is None else ()
            self.add(change, StepClass.METADATA, *codes)
            return
        self.add(change, StepClass.VALIDATED, CARDINALITY, table=table)
        assert after.cardinality is not None
        high = after.cardinality.maximum
        spelled = f"@card({after.cardinality.minimum}..{'' if high is None else high})"
        self.check(CheckKind.CARDINALITY, after.table_key, (), CARDINALITY, spelled)

    def unclassified(self) -> None:
        """Two catalogs that differ must have a step, or the change would go unnoticed."""
        if self.steps:
            return
        if _in_any_order(self.old) != _in_any_order(self.target):
            self.refuse("schema", "the change is of a kind that is not known here")


def match_all_interfaces(old: Sequence[InterfaceType], new: Sequence[InterfaceType]) -> NameMatch:
    hints = {i.name: renamed_from(i.annotations) for i in new}
    return match_names([i.name for i in old], hints)


def is_tighter(before: EdgeType, after: EdgeType) -> bool:
    """Edges that keep the old cardinality may break the new one."""
    new = after.cardinality
    if new is None:
        return False
    old = before.cardinality
    low, high = (0, None) if old is None else (old.minimum, old.maximum)
    if new.minimum > low:
        return True
    return new.maximum is not None and (high is None or new.maximum < high)


def _spells_ids_alike(before: ValueType, after: ValueType) -> bool:
    """The id text of a key is the same in both types; a date changes as a DateTime."""
    texts = (EnumType, ScalarType)
    if not isinstance(before, texts) or not isinstance(after, texts):
        return False
    if not has_other_storage(before, after):
        return True
    is_date = isinstance(before, ScalarType) and before.kind is ScalarKind.DATE
    to_float = isinstance(after, ScalarType) and after.kind is ScalarKind.F64
    return widens(before, after) and not is_date and not to_float


def with_names(constraint: Constraint, names: Mapping[str, str]) -> Constraint:
    """The constraint about the same properties under other names."""
    match constraint:
        case Range() | Check():
            return replace(constraint, property=names.get(constraint.property, constraint.property))
        case Key() | Unique() | Index():
            renamed = tuple(names.get(name, name) for name in constraint.properties)
            return replace(constraint, properties=renamed)


def names_of(constraint: Constraint) -> tuple[str, ...]:
    match constraint:
        case Range() | Check():
            return (constraint.property,)
        case Key() | Unique() | Index():
            return constraint.properties


def _alike(a: EntityType, b: EntityType) -> bool:
    """Two types of one kind with equal properties."""
    if type(a) is not type(b) or not a.properties:
        return False
    mine, yours = ({(p.name, p.type) for p in t.properties} for t in (a, b))
    return mine == yours


def _plain_notes(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    return tuple(a for a in without_hints(annotations) if a.name != "embed")


def _unknown(annotations: tuple[Annotation, ...]) -> bool:
    return any(a.name not in KNOWN_ANNOTATIONS for a in annotations)


def _in_any_order(catalog: Catalog) -> object:
    """A catalog without the order of declarations."""
    return [{t.name: _unordered(t) for t in ts} for ts in (catalog.nodes, catalog.edges)] + [
        {i.name: _unordered(i) for i in catalog.interfaces}
    ]


def _unordered(entity: EntityType | InterfaceType) -> object:
    if not isinstance(entity, InterfaceType):
        entity = replace(entity, also=())
    return replace(
        entity,
        properties=tuple(
            replace(p, also=()) for p in sorted(entity.properties, key=lambda p: p.name)
        ),
        constraints=tuple(sorted(entity.constraints, key=repr)),
        annotations=tuple(sorted(entity.annotations, key=repr)),
    )
