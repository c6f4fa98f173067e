"""Where variables come from: all entities of a type, those a predicate leaves, or those named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.storage_reads import wanted_ids
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.views.entity_view import MISSING, EntityView, Positions
from omnigraph.execute.views.frame import Binding, Frame, Index
from omnigraph.ir import expressions as ex
from omnigraph.plan.physical import Find, LookUp
from omnigraph.values.entity_ids import canonical_text


def scan_nodes(variable: ex.Variable, frame: Frame, view: EntityView, limits: QueryLimits) -> Frame:
    """Every row with every node."""
    return _cross(frame, variable, view, view.all_positions, limits)


def find_nodes(
    op: Find, frame: Frame, view: EntityView, evaluator: Evaluator, limits: QueryLimits
) -> Frame:
    """Every row with the nodes that are named or left by the predicates."""
    look_up = op.look_up
    if look_up is None:
        positions = view.all_positions
    elif look_up.per_row:
        return _joined(op, look_up, frame, view, evaluator)
    else:
        positions = _named(look_up, view, evaluator)
    if op.where and len(positions):
        alone = Frame(len(positions), {op.variable.id: Binding(view, positions)})
        for predicate in op.where:
            alone = alone.keep(evaluator.mask(predicate, alone))
        positions = alone.bindings[op.variable.id].positions
    return _cross(frame, op.variable, view, positions, limits)


def _named(look_up: LookUp, view: EntityView, evaluator: Evaluator) -> Positions:
    """Where the ids or keys are that the query itself gives, ascending."""
    ids = wanted_ids(look_up, evaluator)
    tables = view.tables
    found: list[int] = []
    start = 0
    for table in tables:
        if len(ids) == 1:
            position = table.find_one(ids[0])
            found += () if position == MISSING else (start + position,)
        else:
            positions = table.find(pa.array(ids, pa.string()))
            found += (positions[positions != MISSING] + start).tolist()
        start += table.count if len(tables) > 1 else 0
    return np.array(found, np.int32)


def _joined(
    op: Find, look_up: LookUp, frame: Frame, view: EntityView, evaluator: Evaluator
) -> Frame:
    """A join on the id: each row with the one node of each type that its value names."""
    values = evaluator.array(look_up.wanted, frame)
    ids = values if look_up.property == "id" else _spelled_all(look_up, values)
    rows: list[Index] = []
    nodes: list[Positions] = []
    start = 0
    for table in view.tables:
        positions = table.find(ids)
        hits = np.flatnonzero(positions != MISSING)
        rows.append(hits)
        nodes.append((positions[hits] + start).astype(np.int32))
        start += table.count
    index, met = np.concatenate(rows), np.concatenate(nodes)
    result = frame.take(index).bind(op.variable.id, Binding(view, met))
    for predicate in op.where:
        result = result.keep(evaluator.mask(predicate, result))
    return result


def _spelled_all(look_up: LookUp, values: pa.Array) -> pa.Array:
    encoded = values.dictionary_encode()
    texts = [canonical_text(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _cross(
    frame: Frame,
    variable: ex.Variable,
    view: EntityView,
    positions: Positions,
    limits: QueryLimits,
) -> Frame:
    each = len(positions)
    ascends = view.ranks is None
    if frame.length == 1 and frame.is_bare and not frame.bindings and frame.weights is None:
        sorted_by = (variable.id,) if ascends else ()
        return Frame(each, {variable.id: Binding(view, positions)}, sorted_by=sorted_by)
    if frame.length > 1:
        limits.reserve(frame.length * each, len(frame.bindings) + 1)
    rows = np.repeat(np.arange(frame.length), each)
    column = positions if frame.length == 1 else np.tile(positions, frame.length)
    ascends = ascends and (frame.length == 1 or bool(frame.sorted_by))
    result = frame.take(rows, ordered=True).bind(variable.id, Binding(view, column))
    return replace(result, sorted_by=(*frame.sorted_by, variable.id) if ascends else ())
