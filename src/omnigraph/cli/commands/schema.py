"""`schema show|plan|apply|diff|history|fmt`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import (
    At,
    AutoEngine,
    Branch,
    BranchPlace,
    IdempotencyKey,
    IfCommit,
    Message,
    Page,
    Severities,
    Store,
    Uri,
    severities,
)
from omnigraph.cli.output import WrongUsage, already_done, print_json, print_result
from omnigraph.cli.scopes import ANY, LOCAL
from omnigraph.cli.session import Session, address, on_branch, open_to_read, open_to_write
from omnigraph.cli.source_files import Check, Files, Stdout, format_files, read_source
from omnigraph.errors import InvalidArgument
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.evolve.plan import SchemaPlan

_SCHEMA_FILE = typer.Option("--schema", "-s", metavar="FILE", help="The .pg file, `-` for stdin.")
SchemaFile = Annotated[str, _SCHEMA_FILE]


class SchemaFormat(StrEnum):
    """How a schema is printed."""

    TEXT = "text"
    IR = "ir"


group = typer.Typer(help="Show, change and format schemas.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="schema")


@command(group, "show", ANY)
def show(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    at: At = None,
    format: Annotated[
        SchemaFormat,
        typer.Option("--format", "-f", help="The text, or `ir`: JSON of every type with its ids."),
    ] = SchemaFormat.TEXT,
) -> None:
    """Print the schema of a branch as it was written; one made in Python in canonical form.

    For example:

    \b
      omnigraph schema show people.omni
      omnigraph schema show people.omni --at v1 --json
      omnigraph schema show people.omni --format ir
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch, at))
    found = graph.schema.show(branch, at=at)
    if format is SchemaFormat.IR:
        print_json(found.to_dict() | {"types": found.types()})
    elif session.json:
        print_json(found.to_dict())
    elif found.source:
        print_result(found.source)
    else:
        session.note("this schema was made in Python and has no text; here is its catalog")
        print_json(found.to_dict()["catalog"])


@dataclass(frozen=True)
class Grants:
    """What a schema change may do to stored entities."""

    allow_data_loss: Annotated[
        bool,
        typer.Option(
            "--allow-data-loss", help="Allow steps that lose values, such as dropping a property."
        ),
    ] = False
    backfill: Annotated[
        list[str] | None,
        typer.Option(
            "--backfill",
            metavar="TYPE.PROPERTY=EXPRESSION",
            help="Values for stored entities, from their own properties; repeatable.",
        ),
    ] = None
    reembed: Annotated[
        bool, typer.Option("--reembed", help="Make vectors again that do not fit any more.")
    ] = False
    severity: Severities = None

    def options(self) -> dict[str, Any]:
        """The arguments of `graph.schema.plan` and `apply`."""
        found: dict[str, str] = {}
        for given in self.backfill or ():
            name, equals, expression = given.partition("=")
            if not equals or "." not in name:
                raise WrongUsage(
                    f"--backfill {given!r} is not TYPE.PROPERTY=EXPRESSION, "
                    """for example 'Person.full=first + " " + last'"""
                )
            found[name.strip()] = expression.strip()
        return {
            "allow_data_loss": self.allow_data_loss,
            "backfill": found,
            "reembed": self.reembed,
            "severity": severities(self.severity),
        }


@command(group, "plan", ANY)
def plan(
    session: Session,
    schema: SchemaFile,
    place: BranchPlace,
    grants: Grants,
    query: Annotated[
        list[Path] | None,
        typer.Option(
            "--query",
            "-q",
            metavar="FILE",
            help="Tell which queries of a .gq file break; repeatable.",
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Save the plan for `apply --plan`.")
    ] = None,
    all_branches: Annotated[
        bool, typer.Option("--all-branches", help="Tell which other branches could follow.")
    ] = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit 0 without changes, 6 with changes."),
    ] = False,
    engine: Annotated[
        AutoEngine, typer.Option("--engine", help="Where stored entities are checked.")
    ] = AutoEngine.AUTO,
) -> None:
    """Show what a new schema would change; nothing is written.

    Stored entities are read where a step depends on them. The exit code is 1 when the change would
    be refused. A line starts with its class: ` ` metadata, `?` validated, `~` rewrite, `-` lossy,
    `x` refused.

    For example:

    \b
      omnigraph schema plan --schema people.pg people.omni
      omnigraph schema plan --schema people.pg people.omni --backfill 'Person.full=first + last'
      omnigraph schema plan --schema people.pg people.omni --query people.gq
      omnigraph schema plan --schema people.pg people.omni --severity OG-CD-101=error
      omnigraph schema plan --schema people.pg people.omni --out plan.json --detailed-exitcode
    """
    uri = address(session, place.uri, place.store)
    graph = open_to_read(session, uri, on_branch(place.branch, None))
    with session.working("planning"):
        found = graph.schema.plan(
            read_source(schema),
            branch=place.branch,
            queries=query or (),
            all_branches=all_branches,
            engine=engine.value,
            **grants.options(),
        )
    told = {"uri": uri, **found.to_dict()}
    if out is not None:
        _save(told, out)
    if session.json:
        print_json(told)
    else:
        print_result(str(found))
        _explain_refusal(session, found)
    if not found.supported:
        raise typer.Exit(1)
    if detailed_exitcode and found.has_changes:
        raise typer.Exit(6)


def _save(plan: dict[str, Any], file: str) -> None:
    text = json.dumps(plan, ensure_ascii=False, indent=2)
    try:
        Path(file).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write {file}: {error.strerror}", file=file) from error


def _explain_refusal(session: Session, found: SchemaPlan) -> None:
    flags = {
        "allow_data_loss": "--allow-data-loss",
        "backfill": "--backfill",
        "reembed": "--reembed",
    }
    needed = [flags[name] for name in found.requires]
    if needed:
        session.note(f"this change is refused without {', '.join(needed)}")


@command(group, "apply", ANY, writes=True)
def apply(
    session: Session,
    place: BranchPlace,
    grants: Grants,
    schema: Annotated[str | None, _SCHEMA_FILE] = None,
    saved: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="A plan that `plan --out` saved.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, and fail as the change would fail.")
    ] = False,
    message: Message = None,
    if_commit: IfCommit = None,
    idempotency_key: IdempotencyKey = None,
    engine: Annotated[
        AutoEngine,
        typer.Option("--engine", help="Where entities are checked and new values written."),
    ] = AutoEngine.AUTO,
) -> None:
    """Change the schema of a branch, as one commit.

    Other branches keep their schema until they are merged. A schema that is in force already makes
    no commit. If the change is refused, nothing has changed, and all reasons are named.

    For example:

    \b
      omnigraph schema apply --schema people.pg people.omni -m "people have an email"
      omnigraph schema apply --schema people.pg people.omni --branch review/schema
      omnigraph schema apply --plan plan.json people.omni
    """
    if (schema is None) == (saved is None):
        raise WrongUsage("give either --schema FILE or --plan FILE")
    uri = address(session, place.uri, place.store)
    if dry_run:
        if saved is not None:
            raise WrongUsage("--dry-run needs --schema: a saved plan was a dry run already")
        assert schema is not None
        plan(session, schema, place, grants, engine=engine)
        return
    graph = open_to_write(session, uri)
    with session.working("changing the schema"):
        result = graph.schema.apply(
            None if schema is None else read_source(schema),
            branch=place.branch,
            plan=None if saved is None else _saved_plan(saved),
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            engine=engine.value,
            **({} if saved is not None else grants.options()),
        )
    if session.json:
        print_json({"uri": uri, **result.to_dict()})
        return
    if result.commit is None:
        print_result("the schema is in force already")
        return
    if result.repeated:
        print_result(already_done(result.commit))
        return
    print_result(str(result.plan))
    print_result(f"applied as commit {result.commit.graph_commit_id}")


def _saved_plan(file: str) -> dict[str, Any]:
    try:
        found = json.loads(read_source(file).text)
    except ValueError as error:
        raise InvalidArgument(
            f"{file} is no plan that `schema plan --out` wrote: {error}"
        ) from error
    if not isinstance(found, dict):
        raise InvalidArgument(f"{file} is no plan that `schema plan --out` wrote")
    return found


From = Annotated[str, typer.Argument(metavar="A", help="A commit, tag, branch or time.")]
To = Annotated[str, typer.Argument(metavar="B", help="A commit, tag, branch or time.")]


@command(group, "diff", ANY)
def diff(session: Session, a: From, b: To = "main", store: Store = None) -> None:
    """Show the steps from the schema of one state to that of another.

    For example:

    \b
      omnigraph schema diff v1 main --store people.omni
      omnigraph schema diff main review/schema --store people.omni --json
    """
    graph = open_to_read(session, address(session, None, store))
    found = graph.schema.diff(a, b)
    if session.json:
        print_json(found.to_dict())
    else:
        print_result(str(found))


@command(group, "history", ANY)
def history(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    limit: Page = None,
) -> None:
    """List the commits that changed the schema of a branch, newest first.

    For example:

    \b
      omnigraph schema history people.omni
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch, None))
    found = graph.schema.history(branch, limit)
    if session.json:
        print_json({"schemas": [version.to_dict() for version in found]})
        return
    for version in found:
        commit = version.commit
        first = commit.parent_commit_id is None
        steps = "the first schema" if first else counted(len(version.steps), "step")
        told = f": {commit.message.splitlines()[0]}" if commit.message else ""
        print_result(f"{commit.graph_commit_id}  {commit.created_at_rfc3339}  {steps}{told}")


@command(group, "fmt", LOCAL)
def fmt(session: Session, files: Files, check: Check = False, stdout: Stdout = False) -> None:
    """Rewrite .pg files in canonical form; comments stay.

    For example:

    \b
      omnigraph schema fmt people.pg
      omnigraph schema fmt --check *.pg
      cat people.pg | omnigraph schema fmt -
    """
    format_files(session, files, check, stdout, _format)


def _format(source: SourceText) -> str:
    from omnigraph.schema.format import format_schema
    from omnigraph.schema.parser import parse_schema

    return format_schema(parse_schema(source), source)
