"""Checks mutation statements against the catalog: assignments, required properties, filters."""

from __future__ import annotations

from omnigraph.catalog.model import (
    ENDPOINT_COLUMNS,
    ID,
    SOURCE,
    TARGET,
    EdgeType,
    EntityType,
    GeneratedDefault,
    Property,
    default_of,
    embedding_of,
    generated_defaults,
)
from omnigraph.ir import expressions as ex
from omnigraph.ir.writes import Assignment, Delete, Insert, Update
from omnigraph.query import ast, codes
from omnigraph.query.conversions import DoesNotFit, constant_of, is_text, stored_as
from omnigraph.query.scope import Scope
from omnigraph.query.typecheck_calls import check_filter_call
from omnigraph.query.typecheck_expressions import ExpressionChecker
from omnigraph.syntax.source_text import Name
from omnigraph.values.known_names import did_you_mean


class WriteChecker:
    """Checks the statements of a mutation; None means that an error has been reported."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._found = scope.found
        self._catalog = scope.catalog

    def insert(self, written: ast.InsertStatement) -> Insert | None:
        entity = self._entity(written.type)
        if entity is None:
            return None
        checker = ExpressionChecker(
            self._scope, check_filter_call, self._no_row, codes.MUTATION_VARIABLE
        )
        assignments = self._assignments(written, entity, checker)
        defaults = self._defaults(written, entity)
        if assignments is None:
            return None
        self._check_required(written, entity)
        given = {assignment.name.text for assignment in written.assignments}
        generated = tuple(name for name in generated_defaults(entity) if name not in given)
        return Insert(entity.table_key, assignments, defaults, written.skip_on_match, generated)

    def update(self, written: ast.UpdateStatement) -> Update | None:
        entity = self._entity(written.type)
        if entity is None:
            return None
        checker = self._row_checker(entity)
        self._refuse_fixed(written, entity)
        assignments = self._assignments(written, entity, checker)
        predicate = checker.check_predicate(written.where)
        if assignments is None or predicate is None:
            return None
        return Update(entity.table_key, assignments, predicate)

    def delete(self, written: ast.DeleteStatement) -> Delete | None:
        entity = self._entity(written.type)
        if entity is None:
            return None
        predicate = self._row_checker(entity).check_predicate(written.where)
        return None if predicate is None else Delete(entity.table_key, predicate)

    # --- names

    def _entity(self, name: Name) -> EntityType | None:
        known: dict[str, EntityType] = {t.name: t for t in self._catalog.entity_types()}
        found = known.get(name.text)
        if found is None:
            is_interface = any(name.text == i.name for i in self._catalog.interfaces)
            self._found.error(
                codes.MUTATION_TYPE,
                f"'{name.text}' is an interface and has no rows"
                if is_interface
                else f"there is no type '{name.text}'",
                name.span,
                "name one of the types that implement it"
                if is_interface
                else did_you_mean(name.text, known),
            )
        return found

    def _no_row(self, ref: ast.NameExpr) -> None:
        self._found.error(
            codes.MUTATION_PROPERTY,
            f"an insert has no row to read '{ref.name}' from",
            ref.span,
            f"use a parameter: `${ref.name}`",
        )

    def _row_checker(self, entity: EntityType) -> ExpressionChecker:
        def resolve(ref: ast.NameExpr) -> ex.Expression | None:
            if ref.name == ID:
                return ex.RowProperty(ID, ex.STRING)
            if isinstance(entity, EdgeType) and ref.name in ENDPOINT_COLUMNS:
                return ex.RowProperty(ENDPOINT_COLUMNS[ref.name], ex.STRING)
            declared = _property(entity, ref.name)
            if declared is None:
                self._unknown_property(entity, Name(ref.name, ref.span))
                return None
            return ex.RowProperty(declared.name, declared.type, declared.nullable)

        return ExpressionChecker(self._scope, check_filter_call, resolve, codes.MUTATION_VARIABLE)

    def _unknown_property(self, entity: EntityType, name: Name) -> None:
        names = [p.name for p in entity.properties]
        names += ["from", "to"] if isinstance(entity, EdgeType) else []
        self._found.error(
            codes.MUTATION_PROPERTY,
            f"{entity.name} has no property '{name.text}'",
            name.span,
            did_you_mean(name.text, names),
        )

    # --- assignments

    def _assignments(
        self,
        written: ast.InsertStatement | ast.UpdateStatement,
        entity: EntityType,
        checker: ExpressionChecker,
    ) -> tuple[Assignment, ...] | None:
        if not written.assignments:
            self._found.error(
                codes.MUTATION_TYPE, f"nothing is assigned to {entity.name}", written.type.span
            )
            return None
        built: dict[str, Assignment | None] = {}
        for assignment in written.assignments:
            column = self._column_of(entity, assignment.name)
            value = checker.check_any(assignment.value)
            if column is None:
                continue
            if column in built:
                self._found.error(
                    codes.DUPLICATE,
                    f"'{assignment.name.text}' is assigned twice",
                    assignment.name.span,
                )
                continue
            built[column] = self._assignment(entity, column, assignment, value)
        complete = [a for a in built.values() if a is not None]
        return tuple(complete) if len(complete) == len(built) else None

    def _is_column(self, entity: EntityType, name: str) -> bool:
        is_end = isinstance(entity, EdgeType) and name in ENDPOINT_COLUMNS
        return is_end or name == ID or _property(entity, name) is not None

    def _column_of(self, entity: EntityType, name: Name) -> str | None:
        if not self._is_column(entity, name.text):
            self._unknown_property(entity, name)
            return None
        return (
            ENDPOINT_COLUMNS.get(name.text, name.text)
            if isinstance(entity, EdgeType)
            else name.text
        )

    def _assignment(
        self,
        entity: EntityType,
        column: str,
        written: ast.PropertyValue,
        value: ex.Expression | None,
    ) -> Assignment | None:
        if value is None:
            return None
        declared = _property(entity, column)
        try:
            if column in (SOURCE, TARGET) and isinstance(entity, EdgeType):
                return Assignment(column, self._endpoint(entity, column, value))
            if declared is None:
                return Assignment(column, stored_as(value, ex.STRING))
            if isinstance(value.type, ex.NullType) and not declared.nullable:
                raise DoesNotFit("it is not nullable")
            return Assignment(column, stored_as(value, declared.type))
        except DoesNotFit as reason:
            kind = declared.type if declared else ex.STRING
            self._found.error(
                codes.MUTATION_PROPERTY,
                f"'{written.name.text}' is {kind}: {reason}",
                written.value.span,
            )
            return None

    def _endpoint(self, edge: EdgeType, column: str, value: ex.Expression) -> ex.Expression:
        """The id of an endpoint as text, or its key if the key has one property."""
        if is_text(value.type):
            return stored_as(value, ex.STRING)
        node = self._catalog.node_types[edge.source if column == SOURCE else edge.target]
        if len(node.key) != 1:
            raise DoesNotFit(f"an endpoint is given by the id of a {node.name}, a String")
        declared = _property(node, node.key[0])
        assert declared is not None
        return ex.KeyText(stored_as(value, declared.type), nullable=value.nullable)

    def _refuse_fixed(self, written: ast.UpdateStatement, entity: EntityType) -> None:
        for assignment in written.assignments:
            name = assignment.name.text
            is_end = isinstance(entity, EdgeType) and name in ENDPOINT_COLUMNS
            if name == ID or name in entity.key or is_end:
                what = "the key" if name in entity.key else "an endpoint" if is_end else "the id"
                self._found.error(
                    codes.MUTATION_PROPERTY,
                    f"'{name}' is {what} of {entity.name} and never changes",
                    assignment.name.span,
                    "delete the entity and insert it again",
                )

    # --- what an insert leaves out

    def _check_required(self, written: ast.InsertStatement, entity: EntityType) -> None:
        given = {assignment.name.text for assignment in written.assignments}
        if any(not self._is_column(entity, name) for name in given):
            return  # a misspelt name is reported already, so it does not count as missing
        missing = [
            p.name
            for p in entity.properties
            if not p.nullable
            and p.name not in given
            and default_of(p) is None
            and embedding_of(p) is None
        ]
        if isinstance(entity, EdgeType):
            ends = {ENDPOINT_COLUMNS[name] for name in given if name in ENDPOINT_COLUMNS}
            missing += [
                word for word, column in (("from", SOURCE), ("to", TARGET)) if column not in ends
            ]
        if missing:
            listed = ", ".join(f"'{name}'" for name in missing)
            self._found.error(
                codes.REQUIRED_MISSING,
                f"insert {entity.name} needs {listed}",
                written.type.span,
                "nullable properties and those with a @default may be left out",
            )

    def _defaults(self, written: ast.InsertStatement, entity: EntityType) -> tuple[Assignment, ...]:
        given = {assignment.name.text for assignment in written.assignments}
        return tuple(
            Assignment(p.name, default)
            for p in entity.properties
            if p.name not in given and (default := _default(p)) is not None
        )


def _property(entity: EntityType, name: str) -> Property | None:
    return next((p for p in entity.properties if p.name == name), None)


def _default(declared: Property) -> ex.Constant | None:
    value = default_of(declared)
    if value is None or isinstance(value, GeneratedDefault):
        return None
    return constant_of(ex.Constant(value, declared.type), declared.type)
