"""`omnigraph mutate`."""

from __future__ import annotations

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Branch, IdempotencyKey, IfCommit, Message, Store
from omnigraph.cli.output import already_done, counted, print_json, print_result
from omnigraph.cli.query_text import QueryCall, prepare, require_mutation
from omnigraph.cli.session import Session, address, on_branch, open_to_write


def mutate(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    message: Message = None,
    if_commit: IfCommit = None,
    idempotency_key: IdempotencyKey = None,
    store: Store = None,
) -> None:
    """Run the inserts, updates or deletes of a query: all of them in one commit, or nothing.

    For example:

    \b
      omnigraph mutate -e 'query q() { insert Person { name: "Ada" } }' --store people.omni
      omnigraph mutate promote -q people.gq -p name=Ada -m "spring round" --store people.omni
      omnigraph mutate forget -q people.gq -p name=Bob --if-commit 01M7H8QRSTGJB9M89XSVK2F5M5
    """
    source = call.read()
    graph = open_to_write(session, address(session, None, store), on_branch(branch))
    ready = prepare(call, source, graph.snapshot(branch).catalog)
    require_mutation(ready)
    with session.working("changing"):
        receipt = graph.mutate(
            ready.source,
            ready.name,
            ready.params,
            branch,
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
        )
    if session.json:
        print_json(receipt.to_dict())
        return
    if receipt.repeated and receipt.commit is not None:
        print_result(already_done(receipt.commit))
        return
    made = f"commit {receipt.commit.graph_commit_id}" if receipt.commit else "nothing changed"
    nodes, edges = receipt.affected_nodes, receipt.affected_edges
    print_result(f"{counted(nodes, 'node')}, {counted(edges, 'edge')} affected, {made}")
