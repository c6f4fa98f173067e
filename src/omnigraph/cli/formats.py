"""Print the rows of a query as a table, JSON, CSV or Arrow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omnigraph.cli.options import ResultFormat
from omnigraph.cli.output import WrongUsage, print_result
from omnigraph.cli.session import Session
from omnigraph.cli.tables import print_records, print_table
from omnigraph.values.cell_text import cell_text
from omnigraph.values.json_values import json_text
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.execute.query_types import QueryResult

_BATCH_ROWS = 8192


def choose_format(
    session: Session,
    chosen: ResultFormat | None,
    metadata: bool = False,
    usual: str | None = None,
) -> ResultFormat:
    """`--json`, else `--format`, else `usual`, else `defaults.output` of the config file."""
    default = ResultFormat(usual or session.config().output or ResultFormat.TABLE)
    how = ResultFormat.JSON if session.json else chosen or default
    if how is ResultFormat.ARROW and sys.stdout.isatty():
        raise WrongUsage("--format arrow writes binary data: redirect it into a file")
    if metadata and how is not ResultFormat.JSONL:
        raise WrongUsage(f"--metadata is for --format jsonl, not for {how}")
    return how


def write_result(
    session: Session, result: QueryResult, how: ResultFormat, metadata: bool = False
) -> None:
    match how:
        case ResultFormat.TABLE:
            cut = print_table(result.columns, _row_values(result), session.config().table)
            rows = counted(result.row_count, "row")
            session.note(rows + (", long values cut: --format json shows them" if cut else ""))
        case ResultFormat.KV:
            print_records(
                result.columns, ([cell_text(v) for v in row] for row in _row_values(result))
            )
        case ResultFormat.JSON:
            _write_json(result)
        case ResultFormat.JSONL:
            if metadata:
                print_result(json_text({"kind": "metadata", **result.heading()}))
            for row in _rows(result):
                print_result(json_text(row))
        case ResultFormat.CSV:
            _write_csv(result)
        case ResultFormat.ARROW:
            _write_arrow(result)


def _rows(result: QueryResult) -> Iterator[dict[str, Any]]:
    for batch in result.batches(_BATCH_ROWS):
        yield from batch.to_pylist()


def _row_values(result: QueryResult) -> Iterator[list[Any]]:
    return (list(row.values()) for row in _rows(result))


def _write_json(result: QueryResult) -> None:
    """One object with one row a line, written row by row so that memory stays small."""
    sys.stdout.write(json_text(result.heading(), indent=2).removesuffix("\n}") + ',\n  "rows": [')
    between = "\n    "
    for row in _rows(result):
        sys.stdout.write(between + json_text(row))
        between = ",\n    "
    print_result("\n  ]\n}")


def _write_csv(result: QueryResult) -> None:
    """RFC 4180 with plain line ends; NULL is an empty field, the empty string is quoted."""
    from omnigraph.execute.answer_formats import csv_chunks

    for chunk in csv_chunks(result, "\n"):
        sys.stdout.write(chunk.decode())


def _write_arrow(result: QueryResult) -> None:
    from omnigraph.execute.answer_formats import arrow_chunks

    sys.stdout.flush()
    for chunk in arrow_chunks(result):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
