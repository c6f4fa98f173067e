"""A gate with rules about types, properties and rows, given as data, without a policy file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.ir import writes
from omnigraph.ir.data_scope import DataScope, TypeScope
from omnigraph.ir.expressions import Expression
from omnigraph.query.compiler import compile_query

Rules = Mapping[str, tuple[Sequence[str], str | None]]
"""Type -> (hidden properties, predicate over its rows). A type that is not listed is hidden."""


class ScopedGate:
    """Allows every action, within the same rules for all actors."""

    def __init__(self, rules: Rules) -> None:
        self.rules = {name: (tuple(hidden), rows) for name, (hidden, rows) in rules.items()}

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        """Nothing is refused."""

    def allows(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None = None,
        query: str | None = None,
    ) -> bool:
        return True

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        return data_scope(self.rules, catalog)


def data_scope(rules: Rules, catalog: Catalog) -> DataScope:
    """The scope of these rules in a catalog; rules about unknown types are left out."""
    known = {entity.name for entity in catalog.entity_types()}
    types = {
        name: TypeScope(frozenset(hidden), row_predicate(name, rows, catalog))
        for name, (hidden, rows) in rules.items()
        if name in known
    }
    listed: Any = {name: [sorted(hidden), rows] for name, (hidden, rows) in rules.items()}
    return DataScope(json.dumps(listed, sort_keys=True), types)


def row_predicate(type_name: str, text: str | None, catalog: Catalog) -> Expression | None:
    if text is None:
        return None
    compiled = compile_query(f"query rule() {{ delete {type_name} where {text} }}", catalog)
    statement = compiled.statements[0]
    assert isinstance(statement, writes.Delete)
    return statement.predicate
