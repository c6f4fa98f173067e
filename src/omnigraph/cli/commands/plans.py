"""`explain` and `profile`: how a query is answered."""

from __future__ import annotations

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, Store, Timeout
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.query_text import QueryCall, prepare, require_read
from omnigraph.cli.session import Session, address, on_branch, open_to_read


def explain(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    at: At = None,
    store: Store = None,
) -> None:
    """Show the plan of a query, one operator a line, without running it.

    The plan is the same for all parameters, so they may be left out; given, they are checked.

    For example:

    \b
      omnigraph explain friends_of --query people.gq --store people.omni
      omnigraph explain friends_of --query people.gq -p name=Ada --store people.omni
    """
    source = call.read()
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    ready = prepare(call, source, graph.snapshot(branch, at=at).catalog)
    require_read(ready)
    params = ready.params if call.has_params else None
    _print_plan(session, ready.name, graph.explain(ready.source, ready.name, params, branch, at=at))


def profile(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    at: At = None,
    timeout: Timeout = None,
    store: Store = None,
) -> None:
    """Run a query and show its plan with the rows and milliseconds of every operator.

    For example:

    \b
      omnigraph profile friends_of --query people.gq -p name=Ada --store people.omni
    """
    source = call.read()
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    ready = prepare(call, source, graph.snapshot(branch, at=at).catalog)
    require_read(ready)
    asked = (ready.source, ready.name, ready.params, branch)
    with session.working("searching"):
        plan = graph.profile(*asked, at=at, timeout=timeout)
    _print_plan(session, ready.name, plan)


def _print_plan(session: Session, name: str, plan: str) -> None:
    if session.json:
        print_json({"query_name": name, "plan": plan.splitlines()})
    else:
        print_result(plan)
