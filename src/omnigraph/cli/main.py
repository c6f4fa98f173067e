"""The `omnigraph` command: one typer app, the commands come from `cli.commands`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.commands import lint, query, recovery, schema, status, version

app = typer.Typer(
    name="omnigraph",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON, whatever the command.")
    ] = False,
) -> None:
    """A typed property graph over Lance."""


lint.register(app)
schema.register(app)
query.register(app)
recovery.register(app)
status.register(app)
version.register(app)


def run() -> None:
    """Entry point of the console script."""
    app()
