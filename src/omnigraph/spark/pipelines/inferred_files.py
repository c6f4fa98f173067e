"""The two files that `infer` writes: `pipeline.yaml` and the schema, with comments."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.spark.pipelines.found_tables import (
    SAMPLE_ROWS,
    FoundReference,
    FoundTable,
    InferredPipeline,
    edge_name,
    find_tables,
)
from omnigraph.spark.pipelines.infer_names import snake_name
from omnigraph.spark.pipelines.samples import BAD_RECORD, SampleColumn, lines_of

PIPELINE_FILE = "pipeline.yaml"


def infer(
    files: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    name: str | None = None,
    rows: int = SAMPLE_ROWS,
    replace: bool = False,
) -> InferredPipeline:
    """Write a first pipeline and its schema from sample data into the folder `out`.

    `rows` of each table are looked at. Files that exist are kept unless `replace`.

    Raises:
        InvalidArgument: a file has another format or no rows, or a result exists.
        NotFound: a file is missing.
    """
    folder = Path(out)
    tables, left_out = find_tables(files, rows)
    name = name or snake_name(folder.resolve().name).replace("_", "-")[:64] or "pipeline"
    paths = {folder / PIPELINE_FILE: "", folder / f"{name}.pg": ""}
    for path in paths:
        if path.exists() and not replace:
            raise InvalidArgument(
                f"{path} exists already: remove it, or give --replace (replace=True)",
                file=str(path),
            )
    edges = _named_edges(tables)
    pipeline, schema = paths
    folder.mkdir(parents=True, exist_ok=True)
    schema.write_text("\n".join(_schema_lines(tables, edges)) + "\n", encoding="utf-8")
    lines = _pipeline_lines(name, tables, edges, folder)
    pipeline.write_text("\n".join(lines) + "\n", encoding="utf-8")
    evidence = [_evidence(table, edges) for table in tables]
    return InferredPipeline(
        pipeline=str(pipeline),
        schema=str(schema),
        tables=evidence,
        left_out=[str(path) for path in left_out],
    )


Edges = list[tuple[str, FoundTable, FoundReference]]
"""Edges that a column of a node table makes: (type, table, reference)."""


def _named_edges(tables: Sequence[FoundTable]) -> Edges:
    taken = {table.type_name.lower() for table in tables}
    return [
        (edge_name(table, reference, taken), table, reference)
        for table in tables
        if not table.is_edge
        for reference in table.references
    ]


# --- the schema -------------------------------------------------------------------------------


def _schema_lines(tables: Sequence[FoundTable], edges: Edges) -> Iterator[str]:
    yield "// A first schema, made by `omnigraph pipeline infer`. Comments have the evidence."
    for table in tables:
        if not table.is_edge:
            yield ""
            yield from _node_lines(table)
    for table in tables:
        if table.is_edge:
            yield ""
            yield from _edge_lines(table)
    for edge, table, reference in edges:
        yield ""
        yield f"// column {reference.column.header!r} of {table.step}: {_matched(reference)}"
        yield f"edge {edge}: {table.type_name} -> {reference.to.type_name} {{ @key(src, dst) }}"


def _node_lines(table: FoundTable) -> Iterator[str]:
    yield f"// {'; '.join(lines_of(table.sample))}"
    yield f"node {table.type_name} {{"
    if table.key is None:
        yield f"  row_key: String @key  // {_key_reason(table)}"
    else:
        yield f"  {table.key_property}: {table.key.type.name} @key  // {_key_reason(table)}"
    yield from _property_lines(table)
    yield "}"


def _edge_lines(table: FoundTable) -> Iterator[str]:
    start, end = table.references
    yield f"// {'; '.join(lines_of(table.sample))}; no column is unique, and two of them refer:"
    for each in (start, end):
        yield f"// {each.column.header!r}: {_matched(each)}"
    yield f"edge {table.type_name}: {start.to.type_name} -> {end.to.type_name} {{"
    yield from _property_lines(table)
    yield f"  {_pair_line(table)}"
    yield "}"


def _pair_line(table: FoundTable) -> str:
    start, end = table.references
    pairs = len(set(zip(start.column.texts, end.column.texts, strict=True)))
    if pairs == table.sample.rows:
        return "@key(src, dst)  // no pair of ends is repeated"
    repeated = table.sample.rows - pairs
    return f"// {repeated:,} rows repeat the ends of another row, so ends are no key"


def _property_lines(table: FoundTable) -> Iterator[str]:
    for column in table.own_columns():
        name, found = table.properties[column.header], column.type
        missing = (
            f"{column.missing:,} of {table.sample.rows:,} missing"
            if column.missing
            else "none missing"
        )
        notes = [missing, f"{len(column.distinct()):,} different"]
        if name != column.header:
            notes.insert(0, f"column {column.header!r}")
        if found.note:
            notes.append(found.note)
        yield f"  {name}: {found.name}?  // {'; '.join(notes)}".replace("\n", " ")


def _key_reason(table: FoundTable) -> str:
    if table.key is not None and table.repeated:
        known = f"{len(table.key.distinct()):,} different values in {table.sample.rows:,} rows"
        return f"{known}; rows without one or with that of another go to quarantine"
    if table.key is not None:
        return f"{table.sample.rows:,} rows, none missing, all different"
    if table.parts:
        both = " and ".join(repr(each.header) for each in table.parts)
        return f"no column is unique, but {both} are together"
    return "no column or pair of columns is unique, so a hash of all values"


def _matched(reference: FoundReference) -> str:
    key = reference.to.key
    header = "" if key is None else f" {key.header!r}"
    return (
        f"{reference.matched:,} of {reference.values:,} different values "
        f"({reference.share:.0%}) are in{header} of {reference.to.step}"
    )


# --- the pipeline -----------------------------------------------------------------------------


def _pipeline_lines(
    name: str, tables: Sequence[FoundTable], edges: Edges, folder: Path
) -> Iterator[str]:
    yield "# A first pipeline, made by `omnigraph pipeline infer`: read it, edit it, then run"
    yield f"#   omnigraph pipeline validate {PIPELINE_FILE}"
    yield f"#   omnigraph pipeline run {PIPELINE_FILE}"
    yield "version: 1"
    yield f"name: {name}"
    yield f"graph: {name}.omni"
    yield f"schema: {name}.pg"
    yield "sources:"
    for table in tables:
        yield from _source_lines(table, folder)
    yield "steps:"
    for table in tables:
        yield from _table_step(table)
    for edge, table, reference in edges:
        yield from _reference_step(edge, table, reference)
    yield "targets:"
    for table in tables:
        if table.is_edge:
            ends = "{from: from_key, to: to_key}"
            yield f"  - {{type: {table.type_name}, from: {table.step}, mode: merge, ends: {ends}}}"
        else:
            yield f"  - {{type: {table.type_name}, from: {table.step}, mode: merge}}"
    for edge, _, _ in edges:
        ends = "{from: from_key, to: to_key}"
        yield f"  - {{type: {edge}, from: {_step_name(edge)}, mode: merge, ends: {ends}}}"
    yield "# `via: merge` with `review: true` leaves a branch for review, and main is not changed"
    yield f'publish: {{branch: main, via: commit, message: "{name}"}}'


def _source_lines(table: FoundTable, folder: Path) -> Iterator[str]:
    sample = table.sample
    yield f"  # {'; '.join(lines_of(sample))}"
    for part, name in zip(sample.parts, _source_names(table), strict=True):
        yield f"  {name}:"
        files = _files(part.paths, folder)
        if isinstance(files, list):
            yield "    # only these files, because others of the same names are different"
        yield f"    files: {_text(files)}"
        yield f"    format: {sample.format}"
        if part.options:
            options = ", ".join(f"{name}: {_text(value)}" for name, value in part.options.items())
            yield f"    options: {{{options}}}"
        if part.schema is not None:
            yield f"    schema: {_text(part.schema)}"
        yield "    # incremental: files   # each file once; without it every run reads all files"


def _source_names(table: FoundTable) -> list[str]:
    count = len(table.sample.parts)
    return [table.source, *(f"{table.source}_part{n}" for n in range(2, count + 1))]


def _from(table: FoundTable) -> str:
    """FROM with all sources of a table; a column that the files of one lack is NULL there."""
    sample, names = table.sample, _source_names(table)
    if len(names) == 1 and not table.repeated:
        return f"FROM {names[0]}"
    selects = []
    for part, name in zip(sample.parts, names, strict=True):
        has = {header.casefold() for header in part.headers}
        items = [
            each.access if each.header.casefold() in has else f"NULL AS {each.access}"
            for each in sample.columns
        ]
        if len(names) == 1 or sample.format == "json":  # all files of JSON have the same columns
            items = ["*"]
        elif sample.bad_records:
            items.append(BAD_RECORD)
        if table.repeated:
            # Behind the window function Spark does not know it any more.
            items.append(f"input_file_name() AS {_free_name(table, 'source_file')}")
        selects.append(f"SELECT {', '.join(items)} FROM {name}")
    return "\n".join(("FROM (", "  " + "\n  UNION ALL ".join(selects), ")"))


def _files(paths: Sequence[Path], folder: Path) -> Any:
    """One path or glob, relative to the folder of the pipeline."""
    start = folder.resolve()
    relative = [Path(os.path.relpath(path.resolve(), start)).as_posix() for path in paths]
    if len(relative) == 1:
        # A file with a number is the first of a series.
        pattern = re.sub(r"([-_. ])\d[\d\-_T]*((\.\w+)+)$", r"\1*\2", relative[0])
    else:
        first = re.sub(r"\d[\d\-_.T]*$", "", _common_start(relative))
        last = _common_start([each[::-1] for each in relative])[::-1].lstrip("0123456789")
        pattern = f"{first}*{last}"
    inside = sorted(Path(each).resolve() for each in glob(f"{start}/{pattern}"))  # noqa: PTH207
    if inside == sorted(path.resolve() for path in paths):
        return pattern
    return relative[0] if len(relative) == 1 else relative


def _common_start(texts: Sequence[str]) -> str:
    low, high = min(texts), max(texts)
    same = (place for place, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return low[: next(same, len(low))]


def _table_step(table: FoundTable) -> Iterator[str]:
    items: list[str] = []
    checks: list[str] = []
    if table.is_edge:
        start, end = table.references
        yield from _edge_step(table, start, end)
        return
    if table.key is None:
        items.append(f"{_row_key(table)} AS row_key")
    else:
        items += _items(table, table.key, [])
        checks.append(f"{table.key_property} IS NOT NULL")
        if table.repeated:
            copy = _free_name(table, "copy")
            one = f"PARTITION BY {_clean(table.key)} ORDER BY {_all_values(table)}"
            items.append(f"row_number() OVER ({one}) AS {copy}")
            checks.append(f"{copy} = 1")
            items.append(_free_name(table, "source_file"))
    # References are read by the steps of their edges.
    for reference in table.references:
        items += _items(table, reference.column, [])
    for column in table.own_columns():
        items += _items(table, column, checks)
    _keep_bad_records(table, items, checks)
    yield from _step_lines(table.step, items, _from(table), checks)


def _keep_bad_records(table: FoundTable, items: list[str], checks: list[str]) -> None:
    """Records that Spark cannot read go to quarantine, with their text."""
    if table.sample.bad_records:
        name = _free_name(table, "bad_record")
        items.append(f"{BAD_RECORD} AS {name}")
        checks.insert(0, f"{name} IS NULL")


def _free_name(table: FoundTable, name: str) -> str:
    while name in table.properties.values():
        name += "_"
    return name


def _edge_step(table: FoundTable, start: FoundReference, end: FoundReference) -> Iterator[str]:
    inner: list[str] = []
    checks: list[str] = []
    joins: list[str] = []
    for reference, alias in ((start, "a"), (end, "b")):
        inner += _items(table, reference.column, [])
        value = table.properties[reference.column.header]
        key = reference.to.key_property
        joins.append(f"LEFT JOIN {reference.to.step} {alias} ON {alias}.{key} = r.{value}")
    for column in table.own_columns():
        inner += _items(table, column, checks)
    _keep_bad_records(table, inner, checks)
    ends = f"a.{start.to.key_property} AS from_key, b.{end.to.key_property} AS to_key"
    yield f"  # rows whose ends are missing go to quarantine: {_matched(start)}; {_matched(end)}"
    yield from _step_lines(
        table.step,
        inner,
        _from(table),
        ["from_key IS NOT NULL", "to_key IS NOT NULL", *checks],
        around=(f"SELECT {ends}, r.* FROM (", ") r", *joins),
    )


def _reference_step(edge: str, table: FoundTable, reference: FoundReference) -> Iterator[str]:
    name = table.properties[reference.column.header]
    key, other = table.key_property, reference.to.key_property
    yield f"  # {_matched(reference)}; rows without a match go to quarantine"
    value = f"explode(array_distinct({name}))" if reference.column.is_list else name
    yield from _step_lines(
        _step_name(edge),
        [f"{key} AS from_key", f"{value} AS value"],
        f"FROM {table.step} WHERE {name} IS NOT NULL",
        ["to_key IS NOT NULL"],
        around=(
            f"SELECT r.*, t.{other} AS to_key FROM (",
            ") r",
            f"LEFT JOIN {reference.to.step} t ON t.{other} = r.value",
        ),
    )


def _step_name(edge: str) -> str:
    return snake_name(edge)


def _step_lines(
    step: str,
    items: Sequence[str],
    source: str,
    checks: Sequence[str],
    around: Sequence[str] = (),
) -> Iterator[str]:
    """A step in SQL; `around` has the lines of a query around it, the first comes before."""
    yield f"  {step}:"
    yield "    sql: |-"
    indent = " " * (8 if around else 6)
    yield from (f"      {line}" for line in around[:1])
    yield f"{indent}SELECT"
    for place, item in enumerate(items):
        yield f"{indent}  {item}{',' if place < len(items) - 1 else ''}"
    yield from (f"{indent}{line}" for line in source.split("\n"))
    yield from (f"      {line}" for line in around[1:])
    if checks:
        yield "    expect:"
    for check in checks:
        yield f"      - {{check: {_text(check)}, on_fail: quarantine}}"


def _items(table: FoundTable, column: SampleColumn, checks: list[str]) -> list[str]:
    """What the step selects for a column.

    A typed column is selected twice: as text, and as `try_cast` of the text, so that the check can
    tell a value that does not fit from one that is missing.
    """
    name, found = table.properties[column.header], column.type
    if column.is_list or column.arrow_type is not None:
        return [f"{found.cast.replace('{}', column.access)} AS {name}"]
    text = _clean(column)
    if found.values:
        listed = ", ".join(f"'{value}'" for value in found.values)
        checks.append(f"{name} IS NULL OR {name} IN ({listed})")
    if found.is_text or found.values:
        return [f"{found.cast.replace('{}', text)} AS {name}"]
    as_text = _free_name(table, f"{name}_text")
    checks.append(f"{name} IS NOT NULL OR {as_text} IS NULL")
    return [f"{text} AS {as_text}", f"{found.attempt.replace('{}', text)} AS {name}"]


def _clean(column: SampleColumn) -> str:
    value = f"trim({column.access})"
    texts = sorted({text.lower() for text in column.null_texts} | {""})
    if texts == [""]:
        return f"nullif({value}, '')"
    listed = ", ".join("'" + text.replace("\\", "\\\\") + "'" for text in texts)
    return f"if(lower({value}) IN ({listed}), NULL, {value})"


def _row_key(table: FoundTable) -> str:
    if table.parts:
        parts = ", ".join(_clean(each) for each in table.parts)
        return f"concat_ws('/', {parts})"
    return f"sha2({_all_values(table)}, 256)"


def _all_values(table: FoundTable) -> str:
    columns = ", ".join(each.access for each in table.sample.columns)
    return f"to_json(struct({columns}))"


def _text(value: Any) -> str:
    """JSON text is YAML text, too."""
    return json.dumps(value, ensure_ascii=False)


def _evidence(table: FoundTable, edges: Edges) -> dict[str, Any]:
    return {
        "name": table.step,
        "type": table.type_name,
        "kind": "edge" if table.is_edge else "node",
        "files": [str(path) for path in table.sample.paths],
        "rows": table.sample.rows,
        "complete": table.sample.complete,
        "notes": table.sample.notes,
        "key": None if table.is_edge else table.key_property,
        "columns": [
            {
                "column": column.header,
                "property": table.properties[column.header],
                "type": column.type.name,
                "missing": column.missing,
                "different": len(column.distinct()),
                "note": column.type.note,
            }
            for column in table.sample.columns
        ],
        "references": [
            {
                "column": each.column.header,
                "to": each.to.type_name,
                "edge": next((e for e, t, r in edges if r is each), table.type_name),
                "matched": each.matched,
                "values": each.values,
            }
            for each in table.references
        ],
    }
