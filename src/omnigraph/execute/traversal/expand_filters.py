"""Judge edges and the nodes they lead to before rows are made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.traversal.expand import Judge, Mask
from omnigraph.execute.views.entity_view import EntityView, Positions
from omnigraph.execute.views.frame import Binding, Frame
from omnigraph.ir import expressions as ex
from omnigraph.plan.physical import Follow


def judge_entries(op: Follow, evaluator: Evaluator) -> Judge:
    def judge(
        target_view: EntityView,
        nodes: Positions,
        edge_view: EntityView | None,
        edges: Positions | None,
    ) -> Mask:
        wanted = np.ones(len(nodes), bool)
        if op.where_target:
            wanted &= _mask(op.where_target, op.expand.target.id, target_view, nodes, evaluator)
        if op.where_edge and edge_view is not None and edges is not None:
            assert op.expand.edge is not None
            wanted &= _mask(op.where_edge, op.expand.edge.id, edge_view, edges, evaluator)
        return wanted

    return judge


def _mask(
    predicates: Sequence[ex.Expression],
    variable: int,
    view: EntityView,
    positions: Positions,
    evaluator: Evaluator,
) -> Mask:
    """Entry by entry, or once per entity where there are more entries than entities."""
    once = len(positions) > view.count
    asked = view.all_positions if once else positions
    frame = Frame(len(asked), {variable: Binding(view, asked)})
    found = np.ones(len(asked), bool)
    for predicate in predicates:
        found &= evaluator.mask(predicate, frame)
    return found[positions] if once else found
