"""Conditions on the properties of one entity, as they stand after `delete Type where`."""

from __future__ import annotations

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, LanguageError
from omnigraph.ir import expressions as ex
from omnigraph.ir.walk import rewrite
from omnigraph.ir.writes import Delete
from omnigraph.query.compiler import compile_query

ACTOR = "actor"
"""`$actor` in the condition of a policy is the id of the actor."""
_NAME = "condition"


def row_predicate(catalog: Catalog, type_name: str, condition: str) -> ex.Expression:
    """The condition over `RowProperty`; raises `InvalidArgument` with the reason."""
    return _compiled(catalog, type_name, condition, "")


def row_predicate_for(
    catalog: Catalog, type_name: str, condition: str, actor: str
) -> ex.Expression:
    """The condition with `$actor` replaced by this text."""
    found = _compiled(catalog, type_name, condition, f"${ACTOR}: String")
    value = ex.Constant(actor, ex.STRING)
    return rewrite(found, lambda node: value if _is_actor(node) else node)


def _is_actor(node: object) -> bool:
    return isinstance(node, ex.ParameterRef) and node.name == ACTOR


def _compiled(catalog: Catalog, type_name: str, condition: str, parameters: str) -> ex.Expression:
    source = f"query {_NAME}({parameters}) {{ delete {type_name} where {condition}\n}}"
    wrong = f"{condition!r} is no condition on the properties of {type_name}"
    try:
        statements = compile_query(source, catalog, _NAME, f"<{_NAME}>").statements
    except LanguageError as error:
        raise InvalidArgument(f"{wrong}: {error.message}", type=type_name) from error
    if len(statements) == 1 and isinstance(statements[0], Delete):
        return statements[0].predicate
    raise InvalidArgument(f"{wrong}: it is more than a condition", type=type_name)
