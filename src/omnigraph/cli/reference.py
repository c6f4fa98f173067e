"""The reference part of docs/cli.md, generated from the commands (`make docs`)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.command import SCOPE, SHARED, command_words, help_record
from omnigraph.cli.main import Omnigraph, app

MARKER = "<!-- Everything below is made by `make docs`. -->\n"


def with_reference(page: str) -> str:
    """The page with everything below the marker generated again."""
    head, _, _ = page.partition(MARKER)
    return head + MARKER + reference()


def reference() -> str:
    root = get_command(app)
    context = typer.Context(root, info_name="omnigraph")
    parts = []
    for title, names in Omnigraph.sections:
        parts.append(f"\n## {title}\n")
        parts += [_describe(command, ctx) for command, ctx in _commands(root, context, names)]
    return "".join(parts)


def _commands(group: Any, context: Any, names: Iterable[str]) -> Iterator[tuple[Any, Any]]:
    for name in names:
        command = group.commands[name]
        ctx = typer.Context(command, info_name=name, parent=context)
        if isinstance(command, TyperGroup):
            yield from _commands(command, ctx, command.commands)
        else:
            yield command, ctx


def _describe(command: Any, ctx: Any) -> str:
    text, _, examples = inspect.cleandoc(command.help).partition("\nFor example:\n")
    usage = f"omnigraph {command_words(ctx)}{_arguments(command)}"
    rows = [
        f"| `{names.replace('|', chr(92) + '|')}` | {help} |"
        for parameter in command.params
        if parameter.name not in (*SHARED, *SCOPE)
        for names, help in [help_record(parameter, ctx)]
        if parameter.param_type_name == "option"
    ]
    table = "\n| option | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    lines = [line.removeprefix("  ") for line in examples.replace("\b", "").strip("\n").split("\n")]
    shown = "\n".join(lines).strip("\n")
    return f"\n### `{usage}`\n\n{text.strip()}\n\n```sh\n{shown}\n```\n{table}"


def _arguments(command: Any) -> str:
    found = ""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = parameter.metavar or parameter.name.upper()
            found += f" {name}" if parameter.required else f" [{name}]"
    return found


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_reference(page.read_text(encoding="utf-8")), encoding="utf-8")
