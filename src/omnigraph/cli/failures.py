"""Print errors as text or JSON, and choose the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from omnigraph.cli.change_lines import CONFLICTS_SHOWN, conflict_lines, way_out
from omnigraph.cli.output import (
    EXIT_BROKEN_PIPE,
    EXIT_CONFLICTS,
    EXIT_FAILED,
    EXIT_LOST_PRECONDITION,
    EXIT_REFUSED,
    EXIT_USAGE,
    painter,
    print_json,
    print_note,
)
from omnigraph.errors import (
    AdmissionRefused,
    MergeConflicts,
    NotServed,
    OmnigraphError,
    PreconditionFailed,
    ValidationFailed,
)
from omnigraph.values.plurals import counted

_SHOWN_DETAILS = 20
_SHOWN_KINDS = 20
DEBUG_VARIABLE = "OMNIGRAPH_DEBUG"


@contextmanager
def failures(as_json: bool) -> Iterator[None]:
    """Turn an error into an exit code, and print it: as JSON on stdout, or as text on stderr."""
    try:
        yield
        sys.stdout.flush()  # a closed pipe must raise here, not at exit
    except OmnigraphError as error:
        _report(error.to_dict(), "\n".join(_lines(error)), as_json)
        raise typer.Exit(_exit_code(error)) from None
    except BrokenPipeError:
        leave_broken_pipe()
        raise typer.Exit(EXIT_BROKEN_PIPE) from None
    except (typer.TyperException, typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        text = (
            f"internal error: {type(error).__name__}: {error} "
            f"(a bug; {DEBUG_VARIABLE}=1 shows where)"
        )
        _report({"error": text, "code": "internal"}, text, as_json)
        raise typer.Exit(EXIT_FAILED) from None


def _report(envelope: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(envelope)
    else:
        print_note(text)


def _lines(error: OmnigraphError) -> Iterator[str]:
    if isinstance(error, MergeConflicts):
        found = counted(error.total, "conflict")
        yield f"{error.source} into {error.target}: {found}, nothing was changed"
        yield from conflict_lines(
            error.conflicts, error.source, error.target, painter(sys.stderr), CONFLICTS_SHOWN
        )
        yield from way_out(error.total, CONFLICTS_SHOWN)
    elif isinstance(error, ValidationFailed) and error.total > 1 and error.summary:
        yield from _violations(error)
    else:
        yield error.message


def _violations(error: ValidationFailed) -> Iterator[str]:
    """How often each column breaks each rule, then examples."""
    headline, _, _ = error.message.partition(" (")
    yield f"{headline}, nothing was changed"
    kinds = error.summary or ()
    width = max(len(f"{kind['count']:,}") for kind in kinds)
    for kind in kinds[:_SHOWN_KINDS]:
        yield f"  {kind['count']:>{width},} {_kind(kind)}"
    if len(kinds) > _SHOWN_KINDS:
        yield f"  … and {counted(len(kinds) - _SHOWN_KINDS, 'more kind')} (--json shows them)"
    shown = error.violations[:_SHOWN_DETAILS]
    yield "all of them:" if len(shown) == error.total else f"the first {len(shown)}:"
    for known in shown:
        line = "" if known.get("line") is None else f":{known['line']}"
        place = f"{known['file']}{line}: " if known.get("file") else ""
        yield f"  {place}{_entity(known)}{known.get('message')}"


def _kind(kind: Mapping[str, Any]) -> str:
    if kind["type"] is None:
        return str(kind["rule"])
    column = "" if kind["property"] is None else f".{kind['property']}"
    return f"{kind['rule']} of {kind['type']}{column}"


def _entity(known: Mapping[str, Any]) -> str:
    """The type and id or ends of an entity; empty when not even its type is known."""
    if known.get("type") is None:
        return ""
    if "from" in known:
        return f"{known['type']} {known['from']!r} -> {known['to']!r}: "
    return (
        f"{known['type']} {known['entity_id']!r}: " if known["entity_id"] else f"{known['type']}: "
    )


def _exit_code(error: OmnigraphError) -> int:
    match error:
        case PreconditionFailed():
            return EXIT_LOST_PRECONDITION
        case MergeConflicts():
            return EXIT_CONFLICTS
        case NotServed():
            return EXIT_USAGE
        case AdmissionRefused():
            return EXIT_REFUSED
        case _:
            return EXIT_FAILED


def leave_broken_pipe() -> None:
    """Point stdout at the null device, so that the flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
