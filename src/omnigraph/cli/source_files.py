"""Source files given on the command line: read them, and format them (`schema|query fmt`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.output import EXIT_FAILED, print_report, print_result
from omnigraph.cli.session import Session
from omnigraph.errors import InvalidArgument
from omnigraph.syntax.source_text import SourceText, decoded, read_source_file

STDIN = "-"


def read_source(path: str) -> SourceText:
    """The text of a file; `-` is standard input."""
    if path == STDIN:
        return SourceText(decoded(sys.stdin.buffer.read(), "<stdin>"), "<stdin>")
    return read_source_file(path)


Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="Files to format, `-` for standard input.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Change nothing; exit 1 when a file is not formatted.")
]
Stdout = Annotated[
    bool, typer.Option("--stdout", help="Print the result instead of rewriting the file.")
]


def format_files(
    session: Session,
    files: list[str],
    check: bool,
    to_stdout: bool,
    formatter: Callable[[SourceText], str],
) -> None:
    """Format each file in place; a file that does not parse is an error and is not changed."""
    changed: list[str] = []
    for file in files:
        source = read_source(file)
        formatted = formatter(source)
        if formatted != source.text:
            changed.append(file)
        if to_stdout or (file == STDIN and not check):
            print_result(formatted)
        elif formatted != source.text and not check:
            _rewrite(file, formatted)
    if session.json and not to_stdout and (check or STDIN not in files):
        unformatted = f"not formatted: {', '.join(changed)}" if check and changed else None
        body = {"files": files, "changed": changed, "checked": check}
        print_report(body, unformatted, "not_formatted")
    elif not to_stdout:
        for file in changed:
            session.note(f"{'would format' if check else 'formatted'} {file}")
    if check and changed:
        raise typer.Exit(EXIT_FAILED)


def _rewrite(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write {file}: {error.strerror}", file=file) from None
