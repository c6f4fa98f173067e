"""Results on stdout, everything else on stderr, and the exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.errors import MergeConflicts, OmnigraphError, PreconditionFailed
from omnigraph.values.json_values import finite, json_form

if TYPE_CHECKING:
    from omnigraph.merge.conflicts import Conflict

EXIT_FAILED = 1
EXIT_LOST_PRECONDITION = 4
EXIT_CONFLICTS = 5
EXIT_BROKEN_PIPE = 141  # what the shell shows for any tool whose reader went away

_SHOWN_DETAILS = 20

DEBUG_VARIABLE = "OMNIGRAPH_DEBUG"


class WrongUsage(typer.BadParameter):
    """The command line contradicts itself or lacks something: exit code 2."""

    def format_message(self) -> str:
        return self.message


def print_result(text: str) -> None:
    """Print a text, ended by exactly one line break of ours if it has none."""
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")


def print_json(value: Any) -> None:
    print_result(json_text(value, indent=2))


def counted(number: int, thing: str) -> str:
    """`1 node`, `2,000 nodes`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON in the forms the loader reads: RFC 3339 moments, `base64:` bytes, finite numbers."""
    try:
        return json.dumps(
            value, ensure_ascii=False, indent=indent, default=json_form, allow_nan=False
        )
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False, indent=indent, default=json_form)


def print_note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@contextmanager
def failures(as_json: bool) -> Iterator[None]:
    """Turn errors into an exit code: the envelope on stdout, or the text on stderr."""
    try:
        yield
        sys.stdout.flush()  # a reader that went away must be noticed here, not at exit
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
    if not isinstance(error, MergeConflicts):
        yield error.message
        yield from _details(error)
        return
    conflicts = error.fields.get("conflicts") or ()
    total = len(conflicts)
    counted = "1 conflict" if total == 1 else f"{total:,} conflicts"
    yield f"{error.fields['source']} into {error.fields['target']}: {counted}, nothing was changed"
    for conflict in islice(conflicts, _SHOWN_DETAILS):
        yield f"  {conflict_line(conflict)}"
    if total > _SHOWN_DETAILS:
        yield f"  … and {total - _SHOWN_DETAILS:,} more (--json shows all)"
    yield "decide them with --strategy ours|theirs, or one by one with --resolutions FILE"


def conflict_line(conflict: Conflict) -> str:
    return f"! {conflict.kind}  {conflict.message}"


def _details(error: OmnigraphError) -> Iterator[str]:
    """The mistakes after the first, which is the message itself, one line each."""
    for found in islice(error.fields.get("violations") or (), 1, _SHOWN_DETAILS):
        known = found if isinstance(found, dict) else found.to_dict()
        line = "" if known.get("line") is None else f":{known['line']}"
        place = f"{known['file']}{line}: " if known.get("file") else ""
        yield f"  {place}{_entity(known)}{known.get('message')}"


def _entity(known: dict[str, Any]) -> str:
    """Empty for a line that does not even say what it is; a row without its key has no name."""
    if known.get("type") is None:
        return ""
    return (
        f"{known['type']} {known['entity_id']!r}: " if known["entity_id"] else f"{known['type']}: "
    )


def _exit_code(error: OmnigraphError) -> int:
    match error:
        case PreconditionFailed():
            return EXIT_LOST_PRECONDITION
        case MergeConflicts():
            return EXIT_CONFLICTS
        case _:
            return EXIT_FAILED


def leave_broken_pipe() -> None:
    """Let the interpreter flush into nothing at exit instead of complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
