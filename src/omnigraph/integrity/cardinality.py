"""`@card(min..max)` for every source that a write touches, counted on the final image."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE
from omnigraph.integrity.deltas import NO_IDS, Deltas
from omnigraph.integrity.rules import EdgesPerSource
from omnigraph.integrity.stored_image import StoredImage
from omnigraph.integrity.violations import Report, Violation


def check_cardinality(
    rule: EdgesPerSource, image: StoredImage, deltas: Deltas, report: Report
) -> None:
    """Sources of edges written or removed and, with a minimum, sources that are new."""
    sources = _touched(rule, image, deltas)
    if len(sources) == 0:
        return
    missing = image.missing(rule.node, sources)
    # A source that is gone has no edges to count; edges written for it are reported as such.
    if len(missing):
        sources = sources.filter(pc.invert(pc.is_in(sources, value_set=missing)))
    counted = _count(rule, image, sources)
    high = rule.maximum
    bounds = f"{rule.minimum}..{'' if high is None else high}"
    broken = pc.less(counted, rule.minimum)
    if high is not None:
        broken = pc.or_(broken, pc.greater(counted, high))
    wrong, counts = sources.filter(broken), counted.filter(broken)
    report.add(
        rule.name,
        len(wrong),
        (
            Violation(
                rule.name,
                rule.table,
                wrong[row].as_py(),
                None,
                f"{rule.node.type_name} {wrong[row].as_py()!r} would have {counts[row].as_py()} "
                f"edges of {rule.table.type_name}, @card({bounds})",
            )
            for row in range(len(wrong))
        ),
    )


def _touched(rule: EdgesPerSource, image: StoredImage, deltas: Deltas) -> pa.Array:
    edges, nodes = deltas.get(rule.table), deltas.get(rule.node)
    needs_all = rule.minimum > 0 and edges is not None and edges.replaces
    if needs_all:
        return image.ids_after(rule.node)
    parts = [NO_IDS]
    if edges is not None:
        if edges.written is not None:
            parts += edges.written.column(SOURCE).chunks
        if rule.minimum > 0:
            # Fewer edges can only break a minimum; their sources are known to the stored rows.
            parts += image.before(rule.table, edges.gone, [SOURCE]).column(SOURCE).chunks
    if nodes is not None and rule.minimum > 0:
        parts.append(nodes.written_ids)
    return pc.unique(pa.concat_arrays(parts))


def _count(rule: EdgesPerSource, image: StoredImage, sources: pa.Array) -> pa.Array:
    """Edges per source after the write, in the order of `sources`."""
    stored = image.surviving(rule.table, SOURCE, sources, [ID, SOURCE]).column(SOURCE)
    written = image.delta(rule.table).written
    chunks = [*stored.chunks, *(written.column(SOURCE).chunks if written is not None else [])]
    counts = pc.value_counts(pa.chunked_array(chunks, pa.string()))
    place = pc.index_in(sources, value_set=counts.field("values"))
    return pc.fill_null(counts.field("counts").take(place), 0)
