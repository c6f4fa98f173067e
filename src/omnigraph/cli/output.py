"""Results on stdout, everything else on stderr, and the exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from omnigraph.errors import OmnigraphError

EXIT_FAILED = 1

GLOBAL_JSON = "json_output"


def _own_or_global(context: typer.Context, value: bool) -> bool:
    """`--json` counts before the command as well as behind it."""
    return value or bool(context.find_root().params.get(GLOBAL_JSON))


JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of text.", callback=_own_or_global)
]


def print_result(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@contextmanager
def failures(as_json: bool) -> Iterator[None]:
    """Turn library errors into exit code 1: the envelope on stdout, or the text on stderr."""
    try:
        yield
    except OmnigraphError as error:
        if as_json:
            print_json(error.to_dict())
        else:
            print_note(error.message)
        raise typer.Exit(EXIT_FAILED) from None
