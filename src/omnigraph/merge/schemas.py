"""Three-way merge of schemas: interfaces and types by identity, then the schema as a whole.

`merge.declarations` merges one declaration. Here the declarations are put together: drops, names,
the ends of edges, interfaces and the types that implement them. What the sides contradict each
other in becomes `conflicts`; a schema that cannot be is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from omnigraph.catalog.model import (
    Catalog,
    EdgeType,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.diff.entity_rows import TypeIdentity, identity_of
from omnigraph.errors import SchemaRefused
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.decisions import Side, Take
from omnigraph.merge.declarations import (
    SIDE_NAMES,
    DeclarationSides,
    Declared,
    Disputes,
    Ends,
    Subject,
    is_like,
    join_declarations,
    kind_of,
    other_side,
    unordered,
)
from omnigraph.merge.merged_catalog import MergedCatalog, types_of
from omnigraph.schema.catalog_text import declaration_text, text_problem
from omnigraph.schema.changes import Granted, TableChange
from omnigraph.schema.evolve import plan_changes
from omnigraph.values.identifiers import fnv1a64_hex

_E = TypeVar("_E", NodeType, EdgeType)


class SideChanges(Protocol):
    """What the sides did to rows since the base."""

    def rows(self, identity: TypeIdentity, side: Side) -> bool:
        """Whether a side changed rows of a type."""

    def values(self, identity: TypeIdentity, declared: Property, side: Side) -> Sequence[str]:
        """Some ids of entities whose value of a property a side changed or set."""


class _NoChanges:
    def rows(self, identity: TypeIdentity, side: Side) -> bool:
        del identity, side
        return False

    def values(self, identity: TypeIdentity, declared: Property, side: Side) -> Sequence[str]:
        del identity, declared, side
        return ()


def merge_catalogs(
    base: Catalog,
    ours: Catalog,
    theirs: Catalog,
    changed: SideChanges | None = None,
    decide: Callable[[Conflict], Take | None] | None = None,
) -> MergedCatalog:
    """Our schema with what theirs added, changed and dropped.

    `decide` is asked for each contradiction. Undecided ones are the `conflicts` of the result.
    """
    if theirs == ours:
        return MergedCatalog(ours)
    join = _CatalogJoin(base, ours, theirs, changed or _NoChanges(), Disputes(decide))
    catalog = join.joined()
    if join.disputes.open:
        return MergedCatalog(ours, conflicts=tuple(join.disputes.open))
    _require_valid(ours, theirs, catalog)
    for side, name in ((ours, "target"), (theirs, "source")):
        _require_path(side, catalog, name)
    join.require_keys()
    return join.classified(catalog)


class _CatalogJoin:
    def __init__(
        self,
        base: Catalog,
        ours: Catalog,
        theirs: Catalog,
        changed: SideChanges,
        disputes: Disputes,
    ) -> None:
        self.catalogs = {Side.BASE: base, Side.OURS: ours, Side.THEIRS: theirs}
        self.base, self.ours, self.theirs = (types_of(c) for c in (base, ours, theirs))
        self.changed = changed
        self.disputes = disputes
        self.merged: dict[TypeIdentity, EntityType] = {}
        self.ends: dict[TypeIdentity, Ends] = {}
        self.interfaces: dict[str, InterfaceType] = {}

    def joined(self) -> Catalog:
        self._join_interfaces()
        for identity in {**self.ours, **self.theirs}:
            self._join_type(identity)
        self._settle_ends()
        self._settle_names()
        self._inherit()
        self._check_types()
        return self._catalog()

    def _side(self, side: Side) -> Mapping[TypeIdentity, EntityType]:
        return self.ours if side is Side.OURS else self.theirs

    # Types

    def _join_type(self, identity: TypeIdentity) -> None:
        mine, yours, before = (d.get(identity) for d in (self.ours, self.theirs, self.base))
        if mine is not None and yours is not None:
            three = (before, mine, yours)
            sides = (Side.BASE, Side.OURS, Side.THEIRS)
            ends = [
                _ends(e, self.catalogs[s]) if e is not None else None
                for e, s in zip(three, sides, strict=True)
            ]
            joined = join_declarations(
                self.disputes,
                DeclarationSides(
                    *three,
                    ends=(ends[0], ends[1], ends[2]),
                    values=lambda p, side: self.changed.values(identity, p, side),
                ),
            )
            assert not isinstance(joined.declared, InterfaceType)
            self.merged[identity] = joined.declared
            if joined.ends is not None:
                self.ends[identity] = joined.ends
            return
        kept, side = (mine, Side.OURS) if mine is not None else (yours, Side.THEIRS)
        assert kept is not None
        if before is None or self._stays(identity, before, kept, side):
            self._keep(identity, kept, side)

    def _keep(self, identity: TypeIdentity, kept: EntityType, side: Side) -> None:
        self.merged[identity] = kept
        ends = _ends(kept, self.catalogs[side])
        if ends is not None:
            self.ends[identity] = ends

    def _stays(
        self, identity: TypeIdentity, before: EntityType, kept: EntityType, side: Side
    ) -> bool:
        """Whether a type stays that the other side dropped."""
        user, dropper = SIDE_NAMES[side], SIDE_NAMES[other_side(side)]
        if not _says_the_same(before, kept, self.catalogs[Side.BASE], self.catalogs[side]):
            use = "declares it differently"
        elif self.changed.rows(identity, side):
            use = "changed its rows"
        else:
            return False
        said = f"dropped in the {dropper}, and the {user} {use}"
        return self._winner_of_drop(kept, side, said, before) is side

    def _winner_of_drop(
        self, kept: Declared, side: Side, said: str, before: Declared | None
    ) -> Side:
        text = declaration_text(kept)
        texts = [text if side is s else None for s in (Side.OURS, Side.THEIRS)]
        old = declaration_text(before) if before is not None else None
        subject = Subject(kind_of(kept), kept.name)
        return self.disputes.winner(subject, said, old, *texts)

    def _settle_ends(self) -> None:
        """An edge type of one side ends at a node type that the other side dropped."""
        for identity in [i for i in self.merged if i in self.ends]:
            for end in self.ends[identity]:
                node_id = ("node", end)
                if identity not in self.merged or node_id in self.merged:
                    continue
                side = Side.OURS if node_id in self.ours else Side.THEIRS
                node = self._side(side).get(node_id)
                if node is None:
                    continue
                user, dropper = SIDE_NAMES[side], SIDE_NAMES[other_side(side)]
                edge = self.merged[identity].name
                said = f"dropped in the {dropper}, and edge {edge} of the {user} ends at it"
                before = self.base.get(node_id)
                if self._winner_of_drop(node, side, said, before) is side:
                    self._keep(node_id, node, side)
                else:
                    del self.merged[identity]

    def _settle_names(self) -> None:
        """Two types of one name: each side gave the name to another one."""
        for _ in range(len(self.merged)):
            names = [entity.name for entity in self.merged.values()]
            name = next((n for n in names if names.count(n) > 1), None)
            if name is None:
                return
            here, there = (self._holder(s, name) for s in (self.ours, self.theirs))
            if here is None or there is None or here == there:
                return
            texts = (None, declaration_text(self.ours[here]), declaration_text(self.theirs[there]))
            said = "the name is that of two types, one in the target and one in the source"
            subject = Subject(kind_of(self.ours[here]), name)
            won = self.disputes.winner(subject, said, *texts)
            loser, winner = (there, self.ours) if won is Side.OURS else (here, self.theirs)
            if loser in winner and winner[loser].name != name:
                self.merged[loser] = replace(self.merged[loser], name=winner[loser].name)
            else:
                self._remove(loser)

    def _remove(self, identity: TypeIdentity) -> None:
        """Without this type, and without the edge types that end at it."""
        del self.merged[identity]
        for edge, ends in self.ends.items():
            if identity[0] == "node" and identity[1] in ends:
                self.merged.pop(edge, None)

    def _holder(self, side: Mapping[TypeIdentity, EntityType], name: str) -> TypeIdentity | None:
        found = (i for i, e in side.items() if e.name == name and i in self.merged)
        return next((i for i in found if self.merged[i].name == name), None)

    # Interfaces

    def _join_interfaces(self) -> None:
        base, ours, theirs = (
            {i.name: i for i in self.catalogs[s].interfaces}
            for s in (Side.BASE, Side.OURS, Side.THEIRS)
        )
        for name in {**ours, **theirs}:
            mine, yours, before = ours.get(name), theirs.get(name), base.get(name)
            if mine is not None and yours is not None:
                sides = DeclarationSides(before, mine, yours)
                joined = join_declarations(self.disputes, sides).declared
                assert isinstance(joined, InterfaceType)
                self.interfaces[name] = joined
                continue
            kept, side = (mine, Side.OURS) if mine is not None else (yours, Side.THEIRS)
            assert kept is not None
            if before is None:
                self.interfaces[name] = kept
            elif unordered(before) != unordered(kept):
                user, dropper = SIDE_NAMES[side], SIDE_NAMES[other_side(side)]
                said = f"dropped in the {dropper}, and the {user} declares it differently"
                if self._winner_of_drop(kept, side, said, before) is side:
                    self.interfaces[name] = kept

    def _inherit(self) -> None:
        """Types have the properties and constraints of the interfaces that they implement."""
        for identity, entity in list(self.merged.items()):
            if isinstance(entity, NodeType) and entity.implements:
                self.merged[identity] = self._inheriting(identity, entity)

    def _inheriting(self, identity: TypeIdentity, node: NodeType) -> NodeType:
        implemented = [
            self.interfaces[name] for name in node.implements if self._is_there(identity, name)
        ]
        node = replace(node, implements=tuple(i.name for i in implemented))
        inherited: dict[str, Property] = {}
        for interface in implemented:
            for declared in interface.properties:
                inherited.setdefault(declared.name, declared)
        own = {p.name: p for p in node.properties}
        first = []
        for name, declared in inherited.items():
            known = own.pop(name, None)
            if known is None:
                fresh = fnv1a64_hex(f"{node.identity}:{name}")
                first.append(replace(declared, identity=fresh))
            else:
                first.append(replace(known, type=declared.type, nullable=declared.nullable))
        rules = [c for interface in implemented for c in interface.constraints]
        found = replace(
            node,
            properties=(*first, *own.values()),
            constraints=tuple(dict.fromkeys([*rules, *node.constraints])),
        )
        return node if unordered(node) == unordered(found) and _in_order(node, inherited) else found

    def _is_there(self, identity: TypeIdentity, name: str) -> bool:
        """Whether an interface is in the result; a type may need one that a side dropped."""
        if name in self.interfaces:
            return True
        for side in (Side.OURS, Side.THEIRS):
            known = next((i for i in self.catalogs[side].interfaces if i.name == name), None)
            if known is None or identity not in self._side(side):
                continue
            user, dropper = SIDE_NAMES[side], SIDE_NAMES[other_side(side)]
            node = self.merged[identity].name
            said = f"dropped in the {dropper}, and node {node} of the {user} implements it"
            if self._winner_of_drop(known, side, said, known) is side:
                self.interfaces[name] = known
                return True
        return False

    # The whole

    def _check_types(self) -> None:
        """A type that no side declares like this must be valid; else one side is taken."""
        for identity, entity in list(self.merged.items()):
            mine, yours = self.ours.get(identity), self.theirs.get(identity)
            if mine is None or yours is None or is_like(entity, mine) or is_like(entity, yours):
                continue
            reason = text_problem(self._alone(entity))
            if reason is None or any(text_problem(c) for c in (_whole(mine), _whole(yours))):
                continue
            before = self.base.get(identity)
            texts = [declaration_text(e) if e is not None else None for e in (before, mine, yours)]
            said = f"the changes of the target and of the source do not go together: {reason}"
            won = self.disputes.winner(Subject(kind_of(entity), mine.name), said, *texts)
            taken = mine if won is Side.OURS else yours
            self.merged[identity] = replace(taken, name=entity.name, also=entity.also)
            if isinstance(taken, EdgeType):
                ends = _ends(taken, self.catalogs[won])
                assert ends is not None
                self.ends[identity] = ends

    def _alone(self, entity: EntityType) -> Catalog:
        if isinstance(entity, NodeType):
            used = tuple(self.interfaces[name] for name in entity.implements)
            return Catalog((entity,), interfaces=used)
        return _whole(entity)

    def _catalog(self) -> Catalog:
        names = {i[1]: e.name for i, e in self.merged.items() if i[0] == "node"}
        edges = []
        for identity, entity in self.merged.items():
            if isinstance(entity, EdgeType):
                source, target = self.ends[identity]
                edges.append(
                    replace(
                        entity,
                        source=names.get(source, entity.source),
                        target=names.get(target, entity.target),
                    )
                )
        catalog = replace(
            self.catalogs[Side.OURS],
            nodes=tuple(e for e in self.merged.values() if isinstance(e, NodeType)),
            edges=tuple(edges),
            interfaces=tuple(self.interfaces.values()),
        )
        return _arranged(catalog, self.catalogs[Side.THEIRS])

    def require_keys(self) -> None:
        """Ids are spelled from the key, so a side with another key may not have its own rows."""
        for side in (Side.OURS, Side.THEIRS):
            for identity, mine in self._side(side).items():
                entity = self.merged.get(identity)
                if entity is None or not entity.key or _key_ids(entity) == _key_ids(mine):
                    continue
                if self.changed.rows(identity, side):
                    name, key = SIDE_NAMES[side], ", ".join(entity.key)
                    raise SchemaRefused(
                        f"{entity.name} has @key({key}) in the merged schema, and the {name} wrote "
                        f"rows whose ids are not spelled from it: change the key in the {name}, "
                        "too, then merge",
                        types=[entity.name],
                        step=f"{identity[0]}:{entity.name}",
                        reason="rows have ids of another key",
                    )

    def classified(self, catalog: Catalog) -> MergedCatalog:
        """Which tables of ours are written anew, which only get other columns or another name."""
        ours, merged = self.catalogs[Side.OURS], types_of(catalog)
        changes = plan_changes(ours, catalog, Granted(allow_data_loss=True), by_identity=True)
        checked = {check.table for check in changes.checks}
        reshaped: list[TableChange] = []
        adjusted: list[TableChange] = []
        for change in changes.tables:
            if change.before is None or change.after is None:
                continue
            lacks = any(c.before is None and not c.after.nullable for c in change.columns)
            written = change.is_written or change.discards
            if written or lacks or change.after.table_key in checked:
                reshaped.append(change)
            elif change.moves_columns or change.before.name != change.after.name:
                adjusted.append(change)
        both = self.ours.keys() & self.theirs.keys()
        return MergedCatalog(
            catalog,
            tuple(e for i, e in merged.items() if i not in self.ours),
            tuple(reshaped),
            tuple(adjusted),
            tuple(e for i, e in self.ours.items() if i not in merged),
            one_sided=frozenset(i for i in merged if i in self.base and i not in both),
            returned={i: found for i in both if (found := self._returned(i, merged.get(i)))},
            void_ours=_discarded(changes.tables),
            void_theirs=_discarded(
                plan_changes(
                    self.catalogs[Side.THEIRS],
                    catalog,
                    Granted(allow_data_loss=True),
                    by_identity=True,
                ).tables
            ),
        )

    def _returned(self, identity: TypeIdentity, merged: EntityType | None) -> frozenset[str]:
        before = self.base.get(identity)
        if merged is None or before is None:
            return frozenset()
        known, old = ({p.identity for p in e.properties} for e in (self.ours[identity], before))
        return frozenset(
            p.identity for p in merged.properties if p.identity in old and p.identity not in known
        )


def _discarded(changes: Sequence[TableChange]) -> dict[TypeIdentity, frozenset[str]]:
    """Properties whose values are vectors of another width or of another model."""
    return {
        identity_of(c.after): frozenset(
            column.after.identity for column in c.columns if column.discards
        )
        for c in changes
        if c.after is not None and c.discards
    }


def _ends(entity: EntityType, catalog: Catalog) -> Ends | None:
    """The identities of the node types that an edge type connects."""
    if not isinstance(entity, EdgeType):
        return None
    nodes = catalog.node_types
    source, target = (
        nodes[name].identity if name in nodes else name for name in (entity.source, entity.target)
    )
    return source, target


def _says_the_same(before: EntityType, now: EntityType, old: Catalog, new: Catalog) -> bool:
    """Equal, apart from new names of the node types that an edge type connects."""
    if isinstance(before, EdgeType) and isinstance(now, EdgeType):
        if _ends(before, old) != _ends(now, new):
            return False
        now = replace(now, source=before.source, target=before.target)
    return unordered(before) == unordered(now)


def _whole(entity: EntityType) -> Catalog:
    """A catalog of this type, without interfaces and with bare node types as ends."""
    if isinstance(entity, NodeType):
        return Catalog((replace(entity, implements=()),))
    ends = dict.fromkeys([entity.source, entity.target])
    return Catalog(tuple(NodeType(name) for name in ends), (entity,))


def _in_order(node: NodeType, inherited: Mapping[str, Property]) -> bool:
    """Inherited properties come first, as in a schema text."""
    return [p.name for p in node.properties][: len(inherited)] == list(inherited)


def _arranged(merged: Catalog, theirs: Catalog) -> Catalog:
    """In the order of theirs if it has the same types."""
    mine, yours = types_of(merged), types_of(theirs)
    interfaces = [{i.name: unordered(i) for i in c.interfaces} for c in (merged, theirs)]
    if mine.keys() != yours.keys() or interfaces[0] != interfaces[1]:
        return merged
    if any(not is_like(mine[identity], entity) for identity, entity in yours.items()):
        return merged
    ordered = [mine[identity] for identity in yours]
    return replace(
        theirs,
        nodes=tuple(e for e in ordered if isinstance(e, NodeType)),
        edges=tuple(e for e in ordered if isinstance(e, EdgeType)),
    )


def _key_ids(entity: EntityType) -> tuple[str, ...]:
    ids = {p.name: p.identity for p in entity.properties}
    return tuple(ids.get(name, name) for name in entity.key)


def _require_valid(ours: Catalog, theirs: Catalog, merged: Catalog) -> None:
    """The merged schema is read as a text, like every schema that a user writes."""
    reason = text_problem(merged)
    if reason is None or text_problem(ours) is not None or text_problem(theirs) is not None:
        return
    raise SchemaRefused(
        f"the schemas do not make one together: {reason}: decide the conflicts of the schemas "
        "differently, or change the schema of one branch, then merge",
        reason=reason,
    )


def _require_path(side: Catalog, merged: Catalog, name: str) -> None:
    """Refuse a schema that the rows of this side cannot follow, by the rules of schema changes."""
    # Values that a row lacks are found when the rows are merged.
    free = _without_protection(side)
    for refused in plan_changes(free, merged, rows={}, by_identity=True).refusals:
        raise SchemaRefused(
            f"the rows of the {name} do not fit the merged schema: "
            f"{refused.entity}: {refused.reason}",
            refusal=refused.code,
            step=refused.entity,
            reason=refused.reason,
        )


def _without_protection(catalog: Catalog) -> Catalog:
    """The other side may have lifted a `@protected` before it dropped something."""
    return replace(
        catalog,
        nodes=tuple(_unprotected(n) for n in catalog.nodes),
        edges=tuple(_unprotected(e) for e in catalog.edges),
    )


def _unprotected(entity: _E) -> _E:
    return replace(
        entity,
        annotations=tuple(a for a in entity.annotations if a.name != "protected"),
        properties=tuple(
            replace(p, annotations=tuple(a for a in p.annotations if a.name != "protected"))
            for p in entity.properties
        ),
    )
