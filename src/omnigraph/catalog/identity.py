"""Identities of types and properties, which survive renames, and the schema fingerprint.

A new schema text has names only. `match_names` finds out which declaration is which type or
property of the accepted catalog. `carry_identities` gives it that identity, and a new one to
everything else; `with_identities` gives the first identities.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    Constraint,
    EdgeType,
    EntityType,
    Key,
    NodeType,
    Property,
    renamed_from,
)
from omnigraph.catalog.serialize import catalog_to_json
from omnigraph.values.identifiers import fnv1a64_hex

_T = TypeVar("_T", NodeType, EdgeType, Property)
_E = TypeVar("_E", NodeType, EdgeType)
_FINGERPRINT = "_fingerprint"


def with_identities(catalog: Catalog) -> Catalog:
    """Give every type and property without an identity one that is derived from its name."""
    return replace(
        catalog,
        nodes=tuple(_identify_node(node) for node in catalog.nodes),
        edges=tuple(_identify_edge(edge) for edge in catalog.edges),
    )


def fingerprint(catalog: Catalog) -> str:
    """A hash of the catalog; equal catalogs have equal fingerprints."""
    # Kept beside the frozen fields, because the cache of compiled queries needs it on every call.
    known: str | None = catalog.__dict__.get(_FINGERPRINT)
    if known is None:
        canonical = json.dumps(catalog_to_json(catalog), sort_keys=True, separators=(",", ":"))
        known = hashlib.sha256(canonical.encode()).hexdigest()
        catalog.__dict__[_FINGERPRINT] = known
    return known


def shape_hash(catalog: Catalog) -> str:
    """A hash of what users declared: two graphs with the same schema have the same hash."""
    bare = replace(
        catalog,
        nodes=tuple(_anonymous(node) for node in catalog.nodes),
        edges=tuple(_anonymous(edge) for edge in catalog.edges),
    )
    return fingerprint(bare)


def _anonymous(entity: _E) -> _E:
    properties = tuple(replace(p, identity="", also=()) for p in entity.properties)
    return replace(entity, identity="", also=(), properties=properties)


def _identify_node(node: NodeType) -> NodeType:
    return replace(
        node,
        identity=node.identity or fnv1a64_hex(f"node:{node.name}"),
        properties=_identify_properties(node.properties),
    )


def _identify_edge(edge: EdgeType) -> EdgeType:
    return replace(
        edge,
        identity=edge.identity or fnv1a64_hex(f"edge:{edge.name}"),
        properties=_identify_properties(edge.properties),
    )


def _identify_properties(properties: tuple[Property, ...]) -> tuple[Property, ...]:
    return tuple(replace(p, identity=p.identity or fnv1a64_hex(p.name)) for p in properties)


@dataclass(frozen=True, slots=True)
class HintProblem:
    """A `@rename_from` that cannot be followed."""

    name: str
    source: str
    reason: str
    is_cycle: bool = False


@dataclass(frozen=True, slots=True)
class NameMatch:
    """Which old name each new name continues."""

    sources: Mapping[str, str]
    """New name -> old name. Absent: the type or property is new."""
    problems: tuple[HintProblem, ...] = ()
    unused: tuple[tuple[str, str], ...] = ()
    """Hints without effect, as (name, source), because the name is known already."""


def match_names(
    old: Sequence[str], hints: Mapping[str, str | None], elsewhere: Mapping[str, str] = {}
) -> NameMatch:
    """Match new names (the keys of `hints`) with old ones.

    A name that exists already keeps what it is, and its hint does nothing. Another name takes the
    identity of the name in its hint. If that name is declared, too, its holder makes room by
    following its own hint, so a chain of renames works in one text. `elsewhere` says what a name
    is that belongs to another kind or owner, for the error.
    """
    known = set(old)
    sources = {name: name for name in hints if name in known}
    problems: list[HintProblem] = list(_cycles(known, hints))
    waiting = [name for name in hints if name not in known and hints[name] is not None]
    claimed: dict[str, str] = {}
    while waiting:
        name = waiting.pop(0)
        source = hints[name]
        assert source is not None
        if source not in known:
            what = elsewhere.get(source)
            reason = f"'{source}' is {what}" if what else f"there is no '{source}'"
            problems.append(HintProblem(name, source, reason))
            continue
        if source in claimed:
            reason = f"'{claimed[source]}' comes from '{source}' already"
            problems.append(HintProblem(name, source, reason))
            continue
        claimed[source] = name
        if sources.get(source) == source:
            del sources[source]
            if hints[source] is None:
                problems.append(HintProblem(name, source, f"'{source}' is still declared"))
            else:
                waiting.append(source)
        sources[name] = source
    unused = tuple(
        (name, source)
        for name, source in hints.items()
        if source is not None and sources.get(name) == name
    )
    return NameMatch(sources, tuple(problems), unused)


def _cycles(known: set[str], hints: Mapping[str, str | None]) -> Iterator[HintProblem]:
    """Names that are all known and come from each other: following them would swap every time."""
    for name in hints:
        chain, place = [name], hints[name]
        while place in known and place in hints and place not in chain:
            chain.append(place)
            place = hints[place]
        if place == name and len(chain) > 1 and name == min(chain) and name in known:
            swapped = " and ".join(f"'{member}'" for member in sorted(chain))
            yield HintProblem(
                name,
                str(hints[name]),
                f"{swapped} swap their names; rename one of them to a temporary name first, "
                "in a change of its own",
                is_cycle=True,
            )


def counterpart(new: _T, old: Sequence[_T], match: NameMatch) -> _T | None:
    """What `new` is in the old catalog."""
    source = match.sources.get(new.name)
    return next((item for item in old if item.name == source), None)


def match_all(old: Sequence[_T], new: Sequence[_T], elsewhere: Mapping[str, str] = {}) -> NameMatch:
    hints = {item.name: renamed_from(item.annotations) for item in new}
    return match_names([item.name for item in old], hints, elsewhere)


def match_identities(
    old: Sequence[_T], new: Sequence[_T], elsewhere: Mapping[str, str] = {}
) -> NameMatch:
    """Match the parts of two accepted catalogs."""
    del elsewhere
    names = {item.identity: item.name for item in old}
    return NameMatch({item.name: names[item.identity] for item in new if item.identity in names})


def carry_identities(
    old: Catalog, new: Catalog, new_identity: Callable[[str], str] | None = None
) -> Catalog:
    """`new`, with the identities of `old` for everything that `old` has, and without hints.

    `new_identity` makes the identity of a new type or property from its name. Without it, names are
    hashed; then two branches may give one identity to two properties.
    """
    taken = {x.identity for t in old.entity_types() for x in (t, *t.properties)}
    fresh = new_identity or partial(_hashed, taken)
    nodes, edges = match_all(old.nodes, new.nodes), match_all(old.edges, new.edges)
    return replace(
        new,
        nodes=tuple(_carry(n, counterpart(n, old.nodes, nodes), fresh) for n in new.nodes),
        edges=tuple(_carry(e, counterpart(e, old.edges, edges), fresh) for e in new.edges),
        interfaces=tuple(
            replace(
                i,
                annotations=without_hints(i.annotations),
                properties=tuple(
                    replace(p, annotations=without_hints(p.annotations)) for p in i.properties
                ),
            )
            for i in new.interfaces
        ),
    )


def _hashed(taken: set[str], name: str) -> str:
    """A hash of the name that no part of the old catalog has."""
    identity, attempt = fnv1a64_hex(name), 1
    while identity in taken:
        attempt += 1
        identity = fnv1a64_hex(f"{name}#{attempt}")
    return identity


def without_hints(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    """Without annotations that are instructions for one change and no fact about the type."""
    return tuple(a for a in annotations if a.name not in HINTS)


HINTS = frozenset({"rename_from", "rename_value", "allow"})


def _carry(new: _E, before: _E | None, fresh: Callable[[str], str]) -> _E:
    old = before.properties if before else ()
    match = match_all(old, new.properties)
    properties = []
    for declared in new.properties:
        known = counterpart(declared, old, match)
        identity = known.identity if known else fresh(declared.name)
        notes = without_hints(declared.annotations)
        also = known.also if known else ()
        properties.append(replace(declared, identity=identity, annotations=notes, also=also))
    return replace(
        new,
        identity=before.identity if before else fresh(f"{new.table_key.kind.value}:{new.name}"),
        also=before.also if before else (),
        properties=tuple(properties),
        constraints=_keep_key_order(new, before, tuple(properties)),
        annotations=without_hints(new.annotations),
    )


def _keep_key_order(
    new: EntityType, before: EntityType | None, properties: tuple[Property, ...]
) -> tuple[Constraint, ...]:
    """Ids spell the key in the order fixed at creation, so the old order stays after a rename."""
    if before is None:
        return new.constraints
    identity = {p.name: p.identity for p in before.properties}
    name_now = {p.identity: p.name for p in properties}
    old_order = [
        name_now.get(identity[name], "") if name in identity else name for name in before.key
    ]
    return tuple(
        Key(tuple(old_order)) if isinstance(c, Key) and set(c.properties) == set(old_order) else c
        for c in new.constraints
    )
