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

_MUTATES = "use mutate"
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


def _advice(error: OmnigraphError) -> list[str]:
    message = error.message
    match error:
        case er.LanguageError():
            return [
                "correct the query with the schema above and call again",
                "read omnigraph://best-practices/queries for the language",
            ]
        case er.PreconditionFailed():
            return ["read the newest state, decide again, and repeat with its graph_commit_id"]
        case er.IdempotencyConflict():
            return ["use a new idempotency_key: this one was used for another request"]
        case er.OutcomeUnknown() | er.RequestInFlight():
            return ["call again with the same idempotency_key: the change is made once"]
        case er.MergeConflicts():
            return [
                "decide all conflicts with `strategy`: ours (the target) or theirs (the source)",
                "or decide each one with `resolutions`: [{type_name, entity_id, property, take}]",
            ]
        case er.PolicyDenied():
            return [_denied(error)]
        case er.ReadOnlyGraph():
            return ["this graph is served for reading: no tool can change it"]
        case er.KeyConflict():
            return ["an entity with this id exists: use update, or load with mode merge"]
        case er.ValidationFailed():
            return ["correct the values that the message names; nothing was changed"]
        case er.ResourceLimit():
            return ["ask for less: a narrower match, fewer hops, or `limit` in the query"]
        case er.NotFound() if error.branch is not None:
            return ["call branch_list for the branches, or branch_create to make this one"]
        case er.NotFound() if error.commit is not None or error.at is not None:
            return ["call commit_list for the commits of a branch"]
        case er.NotFound() if error.type is not None:
            return ["call schema_get for the types"]
        case er.InvalidArgument() if _MUTATES in message or "with `mutate`" in message:
            return ["this text changes the graph: call graph_mutate with it, on a task branch"]
        case er.InvalidArgument() if _READS in message:
            return ["this text only reads: call graph_query with it"]
        case _ if error.retryable:
            return ["call again in a moment; for a change use the same idempotency_key"]
        case _:
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
