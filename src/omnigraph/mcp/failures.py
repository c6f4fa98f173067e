"""An error as the answer of a tool: what is wrong, and what a model can do next."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from omnigraph import errors as er
from omnigraph.catalog.model import Catalog
from omnigraph.errors import OmnigraphError
from omnigraph.mcp.schema_texts import schema_excerpt
from omnigraph.mcp.tool_answers import Json, ToolAnswer, cut_text
from omnigraph.wire.envelopes import answer_of

logger = logging.getLogger(__name__)

_CHANGES = "changes the graph"
_READS = "only reads"
_SHOWN_CONFLICTS = 10


def failure_answer(
    error: OmnigraphError, *, query: str | None = None, catalog: Catalog | None = None
) -> ToolAnswer:
    """The envelope of the error with its status, and advice.

    `query` is the text that failed, and `catalog` the schema from which an excerpt is shown.
    """
    answer = answer_of(error)
    advice = _advice(error)
    body: Json = {**answer.envelope, "status": answer.status, "next": advice}
    lines = [str(answer.envelope["error"])]
    if isinstance(error, er.MergeConflicts):
        lines += _conflict_lines(error)
    if isinstance(error, er.LanguageError) and catalog is not None:
        excerpt = schema_excerpt(catalog, _words(query or ""))
        body["schema_excerpt"] = excerpt
        lines += ["", "The schema:", excerpt]
    lines += [f"Next: {line}" for line in advice]
    return ToolAnswer(body, cut_text("\n".join(lines)), is_error=True)


def unexpected_answer(tool: str, error: BaseException) -> ToolAnswer:
    """A failure of the program. Its text could tell what the caller may not know."""
    logger.error("the tool %s failed", tool, exc_info=error)
    message = f"{tool} failed in a way that was not expected; the log of the server says more"
    body: Json = {"error": message, "code": "internal", "status": 500, "next": []}
    return ToolAnswer(body, message, is_error=True)


def refusal_answer(message: str, advice: Sequence[str] = (), status: int = 404) -> ToolAnswer:
    """A call that no tool takes."""
    code = "not_found" if status == 404 else "bad_request"
    body: Json = {"error": message, "code": code, "status": status, "next": list(advice)}
    lines = [message, *(f"Next: {line}" for line in advice)]
    return ToolAnswer(body, "\n".join(lines), is_error=True)


_SAME_KEY = "call again with the same idempotency_key: the change is made once"
_ADVICE: dict[type[OmnigraphError], tuple[str, ...]] = {
    er.LanguageError: (
        "correct the query with the schema above and call again",
        "read omnigraph://best-practices/queries for the language",
    ),
    er.PreconditionFailed: (
        "read the newest state, decide again, and repeat with its graph_commit_id",
    ),
    er.IdempotencyConflict: ("use a new idempotency_key: this one was used for another request",),
    er.OutcomeUnknown: (_SAME_KEY,),
    er.RequestInFlight: (_SAME_KEY,),
    er.MergeConflicts: (
        "decide all conflicts with `strategy`: ours (the target) or theirs (the source)",
        "or decide each one with `resolutions`: [{type_name, entity_id, property, take}]",
    ),
    er.ReadOnlyGraph: ("this graph is served for reading: no tool can change it",),
    er.KeyConflict: ("an entity with this id exists: use update, or load with mode merge",),
    er.ValidationFailed: ("correct the values that the message names; nothing was changed",),
    er.ResourceLimit: ("ask for less: a narrower match, fewer hops, or `limit` in the query",),
}
"""By class; a class without an entry has that of the class above it."""


def _advice(error: OmnigraphError) -> list[str]:
    if isinstance(error, er.PolicyDenied):
        return [_denied(error)]
    if isinstance(error, er.NotFound):
        return _missing(error)
    if isinstance(error, er.InvalidArgument):
        return _wrong(error)
    for kind in type(error).__mro__:
        if kind in _ADVICE:
            return list(_ADVICE[kind])
    again = "call again in a moment; for a change use the same idempotency_key"
    return [again] if error.retryable else []


def _missing(error: er.NotFound) -> list[str]:
    if error.branch is not None:
        return ["call branch_list for the branches, or branch_create to make this one"]
    if error.commit is not None or error.at is not None:
        return ["call commit_list for the commits of a branch"]
    return ["call schema_get for the types"] if error.type is not None else []


def _wrong(error: er.InvalidArgument) -> list[str]:
    if _CHANGES in error.message:
        return ["this text changes the graph: call graph_mutate with it, on a task branch"]
    if _READS in error.message:
        return ["this text only reads: call graph_query with it"]
    return []


def _denied(error: er.PolicyDenied) -> str:
    match error.action:
        case "change":
            return "you may not change this branch: call begin_task, and work on its branch"
        case "branch_merge":
            return "you may not merge into this branch: leave the branch for a reviewer"
        case "branch_create" | "branch_delete":
            return "use another branch name, or a branch that is there already"
        case _:
            return "ask the operator of the graph for this right, or do without"


def _conflict_lines(error: er.MergeConflicts) -> list[str]:
    shown = error.conflicts[:_SHOWN_CONFLICTS]
    lines = [
        f"- {c.type_name} {c.entity_id} {c.property or ''}: was {c.base!r}, "
        f"target has {c.ours!r}, source has {c.theirs!r}"
        for c in shown
    ]
    more = len(error.conflicts) - len(shown)
    return [*lines, f"… and {more} more"] if more > 0 else lines


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in re.findall(r"[A-Za-z_]\w*", text))
