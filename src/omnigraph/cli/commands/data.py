"""`load`, `export`, `embed`: entities in and out in bulk."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import (
    At,
    AutoEngine,
    Branch,
    Engine,
    ExternalBlobs,
    IdempotencyKey,
    IfCommit,
    Message,
    Store,
    Types,
    Uri,
    WorkEngine,
)
from omnigraph.cli.output import WrongUsage, already_done, print_json, print_result
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import Session, address, on_branch, open_to_read, open_to_write
from omnigraph.cli.source_files import STDIN
from omnigraph.errors import KeyConflict, ValidationFailed
from omnigraph.progress import hidden
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.load.options import LoadReceipt, TypeCounts


class Mode(StrEnum):
    """What a load does with entities that exist already."""

    APPEND = "append"
    MERGE = "merge"
    PATCH = "patch"
    OVERWRITE = "overwrite"
    MIRROR = "mirror"


class BadRow(StrEnum):
    """What a load does with rows that break a rule."""

    FAIL = "fail"
    SKIP = "skip"


class ExportFormat(StrEnum):
    """The formats that `load` can read again."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


Data = Annotated[
    list[str],
    typer.Option(
        "--data",
        "-d",
        metavar="FILE",
        help="A file, glob or directory, `-` for NDJSON from stdin; repeatable.",
    ),
]
LoadMode = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="append refuses ids that exist, merge replaces whole entities, patch changes only the "
        "columns or keys that the data has, overwrite replaces the types that occur in the data, "
        "mirror merges and removes entities that the data does not have.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="BRANCH", help="If the branch does not exist, fork it from this one."
    ),
]
Loading = Annotated[
    AutoEngine,
    typer.Option("--engine", help="Where the load runs; auto takes Spark for very large inputs."),
]
TypeName = Annotated[
    str | None,
    typer.Option(
        "--type",
        "-t",
        metavar="T",
        help="The type of JSON rows that do not name theirs, or of a file that is not named after "
        "its type.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        "--column",
        metavar="COLUMN=PROPERTY",
        help="The property of a column that has another name; repeatable.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="C",
        help="Between the cells of CSV, `tab` for a tab. By default a comma, a tab in .tsv files, "
        "or the `;`, tab or `|` of a header without a comma.",
    ),
]
Quote = Annotated[
    str | None, typer.Option("--quote", metavar="C", help='Around cells of CSV; by default `"`.')
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Of text files, such as cp1252; by default UTF-8, or what their first bytes say.",
    ),
]
OnBadRow = Annotated[
    BadRow,
    typer.Option(
        "--on-error",
        help="fail refuses data with a row that breaks a rule; skip loads the other rows, without "
        "those that depend on a rejected one.",
    ),
]
MaxErrors = Annotated[
    int | None,
    typer.Option(
        "--max-errors",
        metavar="N",
        min=0,
        help="With skip: fail if more rows are rejected; by default 1000, 0 allows a million.",
    ),
]
Rejects = Annotated[
    str | None,
    typer.Option(
        "--rejects",
        metavar="FILE",
        help="Write the rejected rows to this file as NDJSON: file, line, rule, message, row.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show counts and violations, without a commit."),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="PATH", help="A file, or a directory for csv and parquet."
    ),
]
Format = Annotated[ExportFormat, typer.Option("--format", "-f", help="The file format.")]


def register(app: typer.Typer) -> None:
    command(app, "load", ANY, writes=True)(load)
    command(app, "export", ANY)(export)
    command(app, "embed", ANY, writes=True)(embed)


def load(
    session: Session,
    data: Data,
    uri: Uri = None,
    store: Store = None,
    mode: LoadMode = Mode.APPEND,
    branch: Branch = "main",
    source: From = None,
    engine: Loading = AutoEngine.AUTO,
    type: TypeName = None,
    map: Columns = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    encoding: Encoding = None,
    on_error: OnBadRow = BadRow.FAIL,
    max_errors: MaxErrors = None,
    rejects: Rejects = None,
    message: Message = None,
    if_commit: IfCommit = None,
    idempotency_key: IdempotencyKey = None,
    dry_run: DryRun = False,
    external_blobs: ExternalBlobs = None,
) -> None:
    """Load NDJSON, CSV, Parquet or Arrow files as one commit, after all of it was checked.

    An NDJSON file may mix types. A file of another format holds one type, after which it is named
    (Person.csv); files of edges have the columns `from` and `to`. JSON rows without a type, such as
    {"name": "Ada"}, have the type that --type names. Text may be compressed (.gz or .zst). An error
    names its file and line, and the graph is not changed. To correct many rows, let --rejects
    collect them with what is wrong; --on-error skip loads the other rows.

    On a terminal the command asks before a load removes more entities than it loads; --yes answers.
    Without a terminal, as in scripts, it does not ask. --dry-run shows what a load would do.

    For example:

    \b
      omnigraph load --data people.ndjson people.omni
      omnigraph export other.omni | omnigraph load --data - people.omni
      omnigraph load --data Person.csv --data Knows.csv --mode merge people.omni
      omnigraph load --data ages.csv --type Person --mode patch people.omni
      omnigraph load --data Person.csv --mode overwrite --dry-run people.omni
      omnigraph load --data new.ndjson --branch import/today --from main people.omni
      omnigraph load --data staff.csv --type Person --map "Full name=name" people.omni
      omnigraph load --data rows.json --type Person people.omni
      omnigraph load --data Person.csv --delimiter ";" --encoding cp1252 people.omni
      omnigraph load --data crm/ --rejects bad.ndjson --on-error skip people.omni
    """
    mapping = _mapping(map or [])
    session = session.allowing(external_blobs)
    where = address(session, uri, store)
    _ask_before_replacing(session, where, mode, dry_run)
    graph = open_to_write(session, where, on_branch(branch))
    try:
        receipt = graph.load(
            _inputs(data),
            mode.value,
            branch,
            from_branch=source,
            engine=engine.value,
            type=type,
            map=mapping or None,
            delimiter=delimiter,
            quote=quote,
            encoding=encoding,
            on_error=on_error.value,
            max_errors=max_errors,
            rejects=rejects,
            progress=False if session.quiet or session.json else None,
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            # Without a terminal there is no question, and a server need not plan the load first.
            before_commit=partial(_ask_before_removing, session) if sys.stdin.isatty() else None,
        )
    except (ValidationFailed, KeyConflict):
        if rejects and not session.json:
            session.note(f"{rejects} lists the rejected rows")
        raise
    if session.json:
        print_json(receipt.to_dict())
        return
    if receipt.repeated and receipt.commit is not None:
        print_result(already_done(receipt.commit))
        return
    if receipt.engine == AutoEngine.SPARK:
        session.note(f"loaded by Spark: {receipt.engine_reason}")
    for counts in (*receipt.nodes, *receipt.edges):
        print_result(_told(counts))
    if receipt.rejected:
        listed = f", listed in {rejects}" if rejects else ""
        print_result(f"{counted(receipt.rejected, 'row')} rejected{listed}")
    if receipt.dry_run:
        read = counted(receipt.total_entities, "entity")
        print_result(f"{read} read, nothing was changed, because this was a dry run")
        return
    if receipt.commit is None:
        print_result(_unchanged(receipt))
        return
    made = f"commit {receipt.commit.graph_commit_id}"
    loaded = counted(receipt.total_entities, "entity")
    print_result(f"{loaded} loaded into {receipt.branch}, {made}")


def _unchanged(receipt: LoadReceipt) -> str:
    if receipt.total_entities:
        read = counted(receipt.total_entities, "entity")
        return f"{read} read, {receipt.branch} has them already"
    what = "no row is left" if receipt.rejected else "no rows in the data"
    return f"{what}, {receipt.branch} is unchanged"


def _ask_before_replacing(session: Session, where: str, mode: Mode, dry_run: bool) -> None:
    """A load that removes entities from a graph on another machine needs a yes."""
    if mode in (Mode.OVERWRITE, Mode.MIRROR) and not dry_run:
        session.confirm_remote(where, f"Remove entities with --mode {mode} from")


def _ask_before_removing(session: Session, planned: LoadReceipt) -> None:
    """Ask on a terminal before a load removes more entities than it loads."""
    if planned.total_removed <= planned.total_entities or not sys.stdin.isatty():
        return
    losing = [c for c in (*planned.nodes, *planned.edges) if c.removed or c.cascaded]
    named = ", ".join(f"{c.removed + c.cascaded:,} of {c.name}" for c in losing)
    removed = counted(planned.total_removed, "entity")
    loaded = counted(planned.total_entities, "entity")
    with hidden():
        session.confirm(f"This load has {loaded} and removes {removed} ({named}). Go on?")


def _told(counts: TypeCounts) -> str:
    """`Person: 1 inserted, 2 unchanged`; counts of zero are left out."""
    parts = {
        "inserted": counts.inserted,
        "updated": counts.updated,
        "unchanged": counts.unchanged,
        "removed": counts.removed,
        "removed with their nodes": counts.cascaded,
    }
    told = [f"{count:,} {what}" for what, count in parts.items() if count]
    if counts.properties_nulled:
        told.append(f"{counted(counts.properties_nulled, 'value')} set to NULL")
    return f"{counts.name}: {', '.join(told) or 'no rows'}"


def _inputs(given: list[str]) -> list[str | BinaryIO]:
    if given.count(STDIN) > 1:
        raise WrongUsage("--data - names standard input twice")
    return [sys.stdin.buffer if item == STDIN else item for item in given]


def _mapping(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        header, equals, name = pair.rpartition("=")
        if not equals or not header or not name:
            raise WrongUsage(f"--map {pair!r}: write it as COLUMN=PROPERTY")
        found[header] = name
    return found


def export(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    at: At = None,
    types: Types = None,
    format: Format = ExportFormat.NDJSON,
    output: Output = None,
    engine: Engine = WorkEngine.LOCAL,
) -> None:
    """Write a branch or a past state in a form that `load` reads; by default NDJSON to stdout.

    For example:

    \b
      omnigraph export people.omni > people.ndjson
      omnigraph export people.omni --type Person --at v1
      omnigraph export people.omni --format csv --output people/
      omnigraph export people.omni --format csv --type Person > Person.csv
      omnigraph export people.omni --format parquet --output people/
      omnigraph export people.omni --format parquet --output people/ --engine spark
    """
    one_csv = format is ExportFormat.CSV and len(types or ()) == 1
    if output is None and format is not ExportFormat.NDJSON and not one_csv:
        raise WrongUsage(
            f"--format {format.value} writes one file per type: name a directory with -o"
        )
    graph = open_to_read(session, address(session, uri, store), on_branch(branch, at))
    # A progress line would disturb the exported lines on the same terminal.
    on_screen = output is None and sys.stdout.isatty()
    with nullcontext() if on_screen else session.working("exporting"):
        receipt = graph.export(
            output, branch, at=at, types=types, format=format.value, engine=engine.value
        )
    if output is None:
        session.note(f"{receipt.total_entities:,} entities")
    elif session.json:
        print_json(receipt.to_dict())
    else:
        print_result(f"{receipt.total_entities:,} entities written to {receipt.path}")


def embed(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    types: Types = None,
    engine: Engine = WorkEngine.LOCAL,
    message: Message = None,
) -> None:
    """Fill the missing and outdated vectors of `@embed` properties, in one commit.

    For example:

    \b
      omnigraph embed people.omni
      omnigraph embed people.omni --type Person --branch review/ages
      omnigraph embed people.omni --engine spark
    """
    graph = open_to_write(session, address(session, uri, store), on_branch(branch))
    with session.working("looking for texts without a vector"):
        receipt = graph.embed(branch, types, message=message, engine=engine.value)
    if session.json:
        print_json(receipt.to_dict())
    elif receipt.write.commit is None:
        print_result("nothing to do: no @embed property lacks a vector")
    else:
        made = f"commit {receipt.write.commit.graph_commit_id}"
        known = f" ({receipt.resumed:,} known from an earlier run)" if receipt.resumed else ""
        print_result(f"{counted(receipt.embedded, 'vector')} made{known}, {made}")
