"""Which operation serves which method of `Graph`, and which methods a server does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Signature
from typing import Any

from omnigraph.errors import NotServed, OmnigraphError, ReadOnlyGraph
from omnigraph.remote import history_operations as history
from omnigraph.remote import load_operations as loads
from omnigraph.remote import read_operations as reads
from omnigraph.remote import stored_query_operations as stored
from omnigraph.remote import upkeep_operations as upkeep
from omnigraph.remote import write_operations as writes
from omnigraph.remote.exchanges import Exchange, RemoteRequest

Operation = Callable[..., Exchange[Any]]

OPERATIONS: dict[str, Operation] = {
    "Graph.snapshot": reads.snapshot,
    "Graph.read": reads.read,
    "Graph.query": reads.query,
    "Graph.explain": reads.explain,
    "Graph.profile": reads.profile,
    "Graph.export": reads.export,
    "Graph.mutate": writes.mutate,
    "Graph.apply": writes.apply,
    "Graph.load": loads.load,
    "Graph.embed": writes.embed,
    "Graph.merge": history.merge,
    "Graph.preview_merge": history.preview_merge,
    "Graph.revert": history.revert,
    "Graph.cherry_pick": history.cherry_pick,
    "Graph.diff": history.diff,
    "Graph.changes": history.changes,
    "Graph.baseline": history.baseline,
    "Graph.optimize": upkeep.optimize,
    "Graph.ensure_indices": upkeep.ensure_indices,
    "Graph.index_status": upkeep.index_status,
    "Graph.status": upkeep.status,
    "Graph.cleanup": upkeep.cleanup,
    "Graph.verify": upkeep.verify,
    "Graph.recoveries": upkeep.recoveries,
    "Branches.create": history.create_branch,
    "Branches.list": history.list_branches,
    "Branches.show": history.show_branch,
    "Branches.rename": history.rename_branch,
    "Branches.delete": history.delete_branch,
    "Tags.create": history.create_tag,
    "Tags.list": history.list_tags,
    "Tags.delete": history.delete_tag,
    "Commits.list": history.list_commits,
    "Commits.by_key": history.commits_by_key,
    "Commits.show": history.show_commit,
    "Commits.schema_steps": history.schema_steps,
    "Commits.graph": history.draw_commits,
    "Commits.changes": history.commit_changes,
    "Queries.list": stored.list_queries,
    "Queries.run": stored.run_query,
    "Queries.validate": stored.validate_queries,
    "Schema.show": upkeep.show_schema,
    "Schema.plan": upkeep.plan_schema,
    "Schema.apply": upkeep.apply_schema,
    "Schema.diff": upkeep.diff_schemas,
    "Schema.history": upkeep.schema_history,
}
"""By the qualified name of the method. Parameters have the names of those of the method."""

_STORE = "open the store itself, with omnigraph.open(uri), where the server runs"

NOT_SERVED: dict[str, str] = {
    "Graph.engine": _STORE,
    "Graph.as_actor": "open the graph again with the token of the other actor",
    "Graph.require": "nothing is needed: the server asks its policy in every call",
    "Graph.state": "use Graph.snapshot, which is the state for reads",
    "Graph.load_options": _STORE,
    "Graph.seen": "nothing is needed: the server shows what its policy allows",
    "Graph.repair": _STORE,
    "Graph.for_repair": _STORE,
    "Graph.backup": f"{_STORE}; writers of the server may go on",
    "Graph.kept_answer": "`query` is answered from what the server has kept",
    "Queries.reload": "send the server SIGHUP, or POST /admin/reload",
    "Graph.refresh": "nothing is needed: the server recovers what dead writers left by itself",
}
"""Methods that need the store itself, and what to do instead."""


def not_served(name: str) -> NotServed:
    method = name.removeprefix("Graph.")
    instead = NOT_SERVED[name]
    return NotServed(f"a server does not offer {method}: {instead}", method=method, instead=instead)


def arguments_of(
    signature: Signature, owner: object, positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, with the defaults of the method and without its owner."""
    given = signature.bind(owner, *positional, **named)
    given.apply_defaults()
    _, *arguments = given.arguments.items()
    return dict(arguments)


def only_reads(exchange: Exchange[Any], url: str) -> Exchange[Any]:
    """The exchange of a handle that was opened to read: it ends before a request that writes."""
    try:
        asked = next(exchange)
        while True:
            if isinstance(asked, RemoteRequest) and asked.writes:
                if asked.as_read is None:
                    raise ReadOnlyGraph(f"{url} was opened with read_only=True")
                asked = asked.as_read
            try:
                reply = yield asked
            except OmnigraphError as error:
                asked = exchange.throw(error)
            else:
                asked = exchange.send(reply)
    except StopIteration as end:
        return end.value
