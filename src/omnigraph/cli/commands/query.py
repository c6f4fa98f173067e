"""`query`, `mutate`, `explain` and `profile`: the commands that take a query; `query fmt`.

`omnigraph query [NAME] -e …` and `omnigraph query fmt FILE` share one word, as do `profile [NAME]`
and `profile list`. The group passes everything that is not the name of a subcommand to
`DEFAULT_COMMAND`. A query that is called `fmt` is run with `omnigraph query run fmt`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from omnigraph.cli.command import DEFAULT_COMMAND, DefaultCommandGroup, command
from omnigraph.cli.formats import choose_format, write_result
from omnigraph.cli.options import (
    At,
    Branch,
    Engine,
    ExternalBlobs,
    Format,
    IdempotencyKey,
    IfCommit,
    Message,
    Metadata,
    QueriesPlace,
    Store,
    Timeout,
    WorkEngine,
)
from omnigraph.cli.output import WrongUsage, already_done, print_json, print_result
from omnigraph.cli.query_text import (
    QueryCall,
    prepare,
    require_mutation,
    require_read,
    stored_params,
)
from omnigraph.cli.scopes import ANY, LOCAL
from omnigraph.cli.session import Session, address, on_branch, open_to_read, open_to_write
from omnigraph.cli.source_files import Check, Files, Stdout, format_files
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.execute.query_types import QueryResult
    from omnigraph.graph.handle import Graph
    from omnigraph.mutate.mutation import MutationReceipt
    from omnigraph.plan.plan_text import QueryPlan


class QueryNames(StrEnum):
    """Which names of types and properties a query of an older state uses."""

    THEN = "then"
    CURRENT = "current"


NamesOf = Annotated[
    QueryNames,
    typer.Option("--names", help="With --at: the names of that state, or those of the head."),
]


Timings = Annotated[
    bool,
    typer.Option(
        "--timings",
        help="Show the plan with the rows and milliseconds of every operator instead of the rows; "
        "--profile without a name is the same.",
    ),
]


class QueryGroup(DefaultCommandGroup):
    """`--profile NAME` is a scope; `--profile` without a name asks for timings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        following = [*args[1:], "-"]
        meant = [
            "--timings" if word == "--profile" and after.startswith("-") else word
            for word, after in zip(args, following[: len(args)], strict=True)
        ]
        return super().parse_args(ctx, meant)


group = typer.Typer(help="Run a query. (`query fmt` formats files.)", cls=QueryGroup)
profiles = typer.Typer(
    help="Run a query and show its timings. (`profile list` and `profile show` show saved scopes.)",
    cls=DefaultCommandGroup,
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="query")
    command(app, "mutate", ANY, writes=True)(mutate)
    command(app, "explain", ANY)(explain)
    app.add_typer(profiles, name="profile")


@command(group, DEFAULT_COMMAND, ANY)
def run(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    at: At = None,
    names: NamesOf = QueryNames.THEN,
    timeout: Timeout = None,
    engine: Engine = WorkEngine.LOCAL,
    format: Format = None,
    metadata: Metadata = False,
    timings: Timings = False,
    queries: QueriesPlace = None,
    store: Store = None,
) -> None:
    """Run a query and print its rows.

    The word `run` may be left out. The query reads the head of a branch, or a past state with --at.
    NULL is printed as NULL in tables, null in JSON and an empty field in CSV. Without a text NAME
    is a stored query of the server, or of the directory --queries.

    For example:

    \b
      omnigraph query friends_of --query people.gq -p name=Ada --store people.omni
      omnigraph query -e 'match { $p: Person } return { $p.name }' --store people.omni
      cat people.gq | omnigraph query friends_of -q - --params '{"name": "Ada"}' --format csv
      omnigraph query friends_of -q people.gq --params @ada.json --at v1 --json
      omnigraph query everybody -q people.gq --format jsonl --metadata --store people.omni
      omnigraph query friends_of -p name=Ada --server prod --graph people
      omnigraph query friends_of -q people.gq -p name=Ada --store people.omni --profile
    """
    if timings:
        profile(session, call, branch, at, names, timeout, store)
        return
    how = choose_format(session, format, metadata)
    if call.is_stored:
        if engine is not WorkEngine.LOCAL or names is not QueryNames.THEN:
            raise WrongUsage("--engine and --names are for a query that you give as text")
        uri = address(session, None, store)
        graph = open_to_read(session, uri, on_branch(branch, at), queries=queries)
        found = run_stored(session, graph, call, branch, at=at, timeout=timeout)
        write_result(session, found, how, metadata)
        return
    source = call.read()
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    current = graph.snapshot(branch).catalog if names is QueryNames.CURRENT else None
    ready = prepare(call, source, graph.snapshot(branch, at=at).catalog, current)
    require_read(ready)
    with session.working("searching"):
        result = graph.query(
            ready.source,
            ready.name,
            ready.params,
            branch,
            at=at,
            timeout=timeout,
            engine=engine.value,
            names=names.value,
        )
    write_result(session, result, how, metadata)


@command(group, "fmt", LOCAL)
def fmt(session: Session, files: Files, check: Check = False, stdout: Stdout = False) -> None:
    """Rewrite .gq files in canonical form; comments stay.

    For example:

    \b
      omnigraph query fmt queries/people.gq
      omnigraph query fmt --check queries/*.gq
      cat people.gq | omnigraph query fmt -
    """
    format_files(session, files, check, stdout, _format)


def _format(source: SourceText) -> str:
    from omnigraph.query.format import format_queries
    from omnigraph.query.parser import parse_queries

    return format_queries(parse_queries(source), source)


def run_stored(
    session: Session, graph: Graph, call: QueryCall, branch: str, **terms: Any
) -> QueryResult:
    """Run a stored read."""
    params = stored_params(call, graph, branch)
    with session.working("searching"):
        found = graph.queries.run(call.name or "", params, branch, expect_mutation=False, **terms)
    return cast("QueryResult", found)


def mutate(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    message: Message = None,
    if_commit: IfCommit = None,
    idempotency_key: IdempotencyKey = None,
    queries: QueriesPlace = None,
    store: Store = None,
    external_blobs: ExternalBlobs = None,
) -> None:
    """Run the inserts, updates or deletes of a query: all of them in one commit, or nothing.

    Without a text NAME is a stored query of the server, or of the directory --queries.

    For example:

    \b
      omnigraph mutate -e 'insert Person { name: "Ada" }' --store people.omni
      omnigraph mutate promote -q people.gq -p name=Ada -m "spring round" --store people.omni
      omnigraph mutate forget -q people.gq -p name=Bob --if-commit 01M7H8QRSTGJB9M89XSVK2F5M5
    """
    terms: dict[str, Any] = {
        "message": message,
        "if_commit": if_commit,
        "idempotency_key": idempotency_key,
    }
    source = None if call.is_stored else call.read()
    session = session.allowing(external_blobs)
    uri = address(session, None, store)
    graph = open_to_write(session, uri, on_branch(branch), queries=queries)
    if source is None:
        params = stored_params(call, graph, branch)
        with session.working("changing"):
            found = graph.queries.run(
                call.name or "", params, branch, expect_mutation=True, **terms
            )
        _print_receipt(session, cast("MutationReceipt", found))
        return
    ready = prepare(call, source, graph.snapshot(branch).catalog)
    require_mutation(ready)
    with session.working("changing"):
        receipt = graph.mutate(ready.source, ready.name, ready.params, branch, **terms)
    _print_receipt(session, receipt)


def _print_receipt(session: Session, receipt: MutationReceipt) -> None:
    if session.json:
        print_json(receipt.to_dict())
        return
    if receipt.repeated and receipt.commit is not None:
        print_result(already_done(receipt.commit))
        return
    made = f"commit {receipt.commit.graph_commit_id}" if receipt.commit else "nothing changed"
    nodes, edges = receipt.affected_nodes, receipt.affected_edges
    print_result(f"{counted(nodes, 'node')}, {counted(edges, 'edge')} affected, {made}")


def explain(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    at: At = None,
    names: NamesOf = QueryNames.THEN,
    store: Store = None,
) -> None:
    """Show the plan of a query, one operator a line, without running it.

    The plan does not depend on the parameters. They may be left out; if given, they are checked.

    For example:

    \b
      omnigraph explain friends_of --query people.gq --store people.omni
      omnigraph explain friends_of --query people.gq -p name=Ada --store people.omni
    """
    source = call.read()
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    current = graph.snapshot(branch).catalog if names is QueryNames.CURRENT else None
    ready = prepare(call, source, graph.snapshot(branch, at=at).catalog, current)
    require_read(ready)
    params = ready.params if call.has_params else None
    _print_plan(
        session, graph.explain(ready.source, ready.name, params, branch, at=at, names=names.value)
    )


@command(profiles, DEFAULT_COMMAND, ANY)
def profile(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    at: At = None,
    names: NamesOf = QueryNames.THEN,
    timeout: Timeout = None,
    store: Store = None,
) -> None:
    """Run a query and show its plan with the rows and milliseconds of every operator.

    The word `run` may be left out, unless the query is called `list` or `show`.

    For example:

    \b
      omnigraph profile friends_of --query people.gq -p name=Ada --store people.omni
    """
    source = call.read()
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    current = graph.snapshot(branch).catalog if names is QueryNames.CURRENT else None
    ready = prepare(call, source, graph.snapshot(branch, at=at).catalog, current)
    require_read(ready)
    with session.working("searching"):
        plan = graph.profile(
            ready.source,
            ready.name,
            ready.params,
            branch,
            at=at,
            timeout=timeout,
            names=names.value,
        )
    _print_plan(session, plan)


def _print_plan(session: Session, plan: QueryPlan) -> None:
    if session.json:
        print_json(plan.to_dict())
        return
    print_result(str(plan))
    if plan.seconds is not None:
        session.note(f"{counted(plan.actual_rows or 0, 'row')} in {plan.seconds * 1000:,.2f} ms")
