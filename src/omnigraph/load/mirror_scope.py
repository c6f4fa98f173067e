"""The stored entities that a mirror may remove: those for which its scope is true."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.catalog.model import ID, Catalog
from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.row_expressions import over_rows
from omnigraph.ir import expressions as ex
from omnigraph.ir.storage_conditions import conditions_of
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset
from omnigraph.query.row_predicates import row_predicate
from omnigraph.values.clock import SYSTEM_CLOCK

_IDS = pa.schema([(ID, pa.string())])


def scope_predicate(catalog: Catalog, type_name: str, condition: str) -> ex.Expression:
    """The condition of a `delete … where …`, which is what a scope is."""
    try:
        return row_predicate(catalog, type_name, condition)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"scope of {type_name}: {error.message}", option="scope", type=type_name
        ) from error


def ids_in_scope(dataset: Dataset, predicate: ex.Expression) -> pa.RecordBatchReader:
    """The ids of the stored entities for which the predicate is true, a batch at a time."""
    return pa.RecordBatchReader.from_batches(_IDS, _batches(dataset, predicate))


def _batches(dataset: Dataset, predicate: ex.Expression) -> Iterator[pa.RecordBatch]:
    evaluator = Evaluator({}, SYSTEM_CLOCK.now_micros() // 1000)
    judged = over_rows(predicate)
    columns = list(dict.fromkeys([ID, *judged.columns]))
    conditions = conditions_of([predicate], evaluator.plain)
    for batch in read_batches(dataset, columns, conditions):
        hit = judged.true_rows(pa.Table.from_batches([batch]), evaluator)
        yield from hit.select([ID]).cast(_IDS).to_batches()
