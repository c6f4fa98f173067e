"""What the pages show, as data: reads of a `Graph` that need no browser."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.diff.change import Change
from omnigraph.errors import OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.manifest.records import Commit
from omnigraph.values.json_values import json_value
from omnigraph.values.scalars import ScalarKind, ScalarType, VectorType

_AHEAD_LIMIT = 500
_LABELS = ("title", "name", "label", "subject", "text")
_SHOWN_TEXT = 2000


@dataclass(frozen=True, slots=True)
class ShownState:
    """The state that a page shows: the head of a branch, or one of its older commits or tags."""

    branch: str = "main"
    at: str | None = None


@dataclass(frozen=True, slots=True)
class EntityName:
    """An entity by type and id."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
class BranchDistance:
    """How many commits a branch has that main does not have, and the other way round."""

    name: str
    head: str
    ahead: int
    behind: int

    @property
    def text(self) -> str:
        ahead = f"{_AHEAD_LIMIT}+" if self.ahead >= _AHEAD_LIMIT else str(self.ahead)
        behind = f"{_AHEAD_LIMIT}+" if self.behind >= _AHEAD_LIMIT else str(self.behind)
        return f"{ahead} ahead, {behind} behind"


@dataclass(frozen=True, slots=True)
class NeighbourGroup:
    """The edges of one type on one side of an entity."""

    edge: str
    outgoing: bool
    other: str
    count: int

    @property
    def text(self) -> str:
        arrow = f"-{self.edge}→ {self.other}" if self.outgoing else f"←{self.edge}- {self.other}"
        return f"{arrow} ({self.count:,})"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An edge of an entity and the entity at its other end."""

    edge: dict[str, Any]
    entity: dict[str, Any]


def distances(graph: Graph, limit: int = 20) -> list[BranchDistance]:
    """The branches other than main, with how far they are from it."""
    main = [c.graph_commit_id for c in graph.commits.list("main", _AHEAD_LIMIT)]
    on_main = set(main)
    found: list[BranchDistance] = []
    for branch in graph.branches.list():
        if branch.name == "main":
            continue
        if len(found) == limit:
            break
        own = [c.graph_commit_id for c in graph.commits.list(branch.name, _AHEAD_LIMIT)]
        ahead = sum(commit not in on_main for commit in own)
        behind = sum(commit not in set(own) for commit in main)
        found.append(BranchDistance(branch.name, branch.head_commit_id, ahead, behind))
    return found


def ahead_of(graph: Graph, branch: str, base: str) -> list[Commit]:
    """The newest commits that `branch` has and `base` does not have, newest first."""
    known = {c.graph_commit_id for c in graph.commits.list(base, _AHEAD_LIMIT)}
    every = graph.commits.list(branch, _AHEAD_LIMIT)
    return [commit for commit in every if commit.graph_commit_id not in known]


def counts(graph: Graph, place: ShownState) -> dict[str, int | None]:
    """Entities by type; None where the number is not for the viewer."""
    snapshot = graph.snapshot(place.branch, at=place.at)
    return {dataset.type_name: dataset.entity_count for dataset in snapshot.datasets}


def read_entity(graph: Graph, place: ShownState, name: EntityName) -> dict[str, Any] | None:
    """All values of one entity but blobs and vectors; None when it is not there."""
    catalog = graph.schema.show(place.branch, at=place.at).catalog
    rows = graph.query(
        _one(catalog.resolve(name.type)), None, {"id": name.id}, place.branch, at=place.at
    )
    return rows[0]["entity"] if len(rows) else None


def _one(entity: EntityType) -> str:
    if isinstance(entity, EdgeType):
        pattern = f"$s: {entity.source} $s $x:{edge_word(entity.name)} $t"
    else:
        pattern = f"$x: {entity.name}"
    return (
        f"query one($id: String) {{ match {{ {pattern} $x.id = $id }} return {{ $x as entity }} }}"
    )


def edge_word(name: str) -> str:
    """An edge type as queries spell it."""
    return name[0].lower() + name[1:]


def find(
    graph: Graph, place: ShownState, type_name: str, text: str, how: str, limit: int = 30
) -> list[dict[str, Any]]:
    """Nodes of a type by `key`, by `text` of any property, or by `meaning`."""
    node = graph.schema.show(place.branch, at=place.at).catalog.node_types[type_name]
    if how == "key":
        found = read_entity(graph, place, EntityName(type_name, text))
        return [found] if found is not None else []
    if how == "meaning":
        vector = next((p.name for p in node.properties if isinstance(p.type, VectorType)), None)
        if vector is None:
            return []
        order = f"order {{ nearest($x.{vector}, $q) }}"
        pattern = f"$x: {type_name}"
    elif text.strip():
        names = text_properties(node)
        if not names:
            return []
        searched = " or ".join(f"search($x.{name}, $q)" for name in names)
        pattern, order = f"$x: {type_name} ({searched})", ""
    else:
        listing = f"match {{ $x: {type_name} }} return {{ $x as entity }} limit {limit}"
        return [row["entity"] for row in graph.query(listing, branch=place.branch, at=place.at)]
    source = (
        f"query found($q: String) {{ match {{ {pattern} }} return {{ $x as entity }} "
        f"{order} limit {limit} }}"
    )
    rows = graph.query(source, None, {"q": text}, place.branch, at=place.at)
    return [row["entity"] for row in rows]


def text_properties(node: NodeType) -> list[str]:
    return [
        p.name
        for p in node.properties
        if isinstance(p.type, ScalarType) and p.type.kind is ScalarKind.STRING
    ]


def sides(catalog: Catalog, type_name: str) -> Iterator[tuple[EdgeType, bool]]:
    """The edge types of a node type, each with whether it leaves the node."""
    for edge in catalog.edges:
        if edge.source == type_name:
            yield edge, True
        if edge.target == type_name:
            yield edge, False


def _hop(edge: EdgeType, outgoing: bool, type_name: str) -> str:
    word = edge_word(edge.name)
    if outgoing:
        return f"$a: {type_name} $a.id = $id $a $e:{word} $b"
    return f"$a: {type_name} $a.id = $id $b: {edge.source} $b $e:{word} $a"


def neighbour_groups(graph: Graph, place: ShownState, name: EntityName) -> list[NeighbourGroup]:
    """The edges of a node by type and side, with their number."""
    catalog = graph.schema.show(place.branch, at=place.at).catalog
    found = []
    for edge, outgoing in sides(catalog, name.type):
        source = (
            f"query near($id: String) {{ match {{ {_hop(edge, outgoing, name.type)} }} "
            "return { count($e) as number } }"
        )
        rows = graph.query(source, None, {"id": name.id}, place.branch, at=place.at)
        other = edge.target if outgoing else edge.source
        found.append(NeighbourGroup(edge.name, outgoing, other, int(rows[0]["number"])))
    return found


def neighbours(
    graph: Graph, place: ShownState, name: EntityName, group: NeighbourGroup, limit: int
) -> list[Neighbour]:
    catalog = graph.schema.show(place.branch, at=place.at).catalog
    pattern = _hop(catalog.edge_types[group.edge], group.outgoing, name.type)
    source = (
        f"query near($id: String) {{ match {{ {pattern} }} "
        f"return {{ $e.id as edge, $b.id as id }} limit {limit} }}"
    )
    found = graph.query(source, None, {"id": name.id}, place.branch, at=place.at).to_pylist()
    # Rows by id go through an index, also in a process that has not read the type before.
    shown = [p.name for p in catalog.node_types[group.other].properties if p.name in _LABELS]
    ids = list(dict.fromkeys(row["id"] for row in found))
    table = graph.read(group.other, place.branch, at=place.at, ids=ids, columns=["id", *shown])
    entities = {entity["id"]: entity for entity in table.to_pylist()}
    ends = ("from", "to") if group.outgoing else ("to", "from")
    return [
        Neighbour({"id": row["edge"], **dict(zip(ends, (name.id, row["id"]), strict=True))}, entity)
        for row in found
        if (entity := entities.get(row["id"])) is not None
    ]


def history_of(
    graph: Graph, place: ShownState, name: EntityName, commits: int = 50
) -> list[tuple[Commit, Change]]:
    """What the newest commits of a branch did to one entity, newest first."""
    found = []
    for commit in graph.commits.list(place.branch, commits, first_parent=True):
        if commit.parent_commit_id is None:
            continue
        try:
            changes = graph.commits.changes(commit.graph_commit_id, [name.type])
        except OmnigraphError:
            continue  # the type did not exist, or the state is no longer kept
        found += [(commit, change) for change in changes if change.id == name.id]
    return found


def label_of(entity: Mapping[str, Any]) -> str:
    """A short name for people: a title or a name if it has one, else the id."""
    for name in _LABELS:
        value = entity.get(name)
        if isinstance(value, str) and value:
            return shortened(value, 40)
    return shortened(str(entity.get("id", "")), 40)


def shortened(text: str, most: int = _SHOWN_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown_value(value: Any) -> str:
    """A value as one text; what is not text is JSON."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return shortened(value)
    return shortened(json.dumps(json_value(value), ensure_ascii=False, default=str))


def changed_rows(change: Change) -> list[tuple[str, str, str]]:
    """The properties of a change with their values before and after."""
    before, after = change.before or {}, change.after or {}
    names = change.changed_properties or tuple(dict.fromkeys([*before, *after]))
    return [
        (
            name,
            shown_value(before[name]) if name in before else "",
            shown_value(after[name]) if name in after else "",
        )
        for name in names
    ]


def of_authors(graph: Graph, commits: Sequence[Commit], author: str) -> set[tuple[str, str]]:
    """(type, id) of the entities that the commits of one author changed."""
    found: set[tuple[str, str]] = set()
    for commit in commits:
        if commit.actor_id == author and commit.parent_commit_id is not None:
            changes = graph.commits.changes(commit.graph_commit_id)
            found |= {(change.type.name, change.id) for change in changes}
    return found
