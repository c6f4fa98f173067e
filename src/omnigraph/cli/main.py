"""The `omnigraph` command: one typer app with the commands of `cli.commands`, and `version`."""

from __future__ import annotations

import logging
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import typer

from omnigraph.cli.command import As, Json, Quiet, RootGroup, Version, Yes, command
from omnigraph.cli.commands import (
    backup,
    blobs,
    branches,
    cluster,
    commits,
    console,
    data,
    demo,
    feed,
    graphs,
    lint,
    mcp,
    operator,
    pipeline,
    policy,
    queries,
    query,
    schema,
    serve,
    tags,
    upkeep,
    verify,
)
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.scopes import LOCAL
from omnigraph.cli.session import Session

_UNINSTALLED = "0+uninstalled"

FAMILIES = (
    demo,
    graphs,
    query,
    data,
    blobs,
    branches,
    tags,
    commits,
    feed,
    schema,
    queries,
    lint,
    pipeline,
    policy,
    upkeep,
    verify,
    backup,
    serve,
    mcp,
    console,
    cluster,
    operator,
)


class Omnigraph(RootGroup):
    """The sections of the overview, in the order in which a new user needs them."""

    sections = (
        ("Start", ("demo", "init", "load", "embed")),
        (
            "Query and change",
            ("query", "mutate", "export", "blob", "explain", "profile", "snapshot"),
        ),
        ("Branches and history", ("branch", "tag", "commit", "changes")),
        ("Schemas and query files", ("schema", "queries", "lint")),
        ("Pipelines on Spark", ("pipeline",)),
        (
            "Upkeep",
            ("status", "verify", "optimize", "repair", "cleanup", "backup", "restore", "recovery"),
        ),
        ("Server, cluster and console", ("serve", "mcp", "policy", "cluster", "console")),
        ("You and your servers", ("login", "logout", "graphs", "alias")),
        ("This program", ("version",)),
    )
    # Names of the original OmniGraph. Its `ingest` merges, and creates a branch that is missing.
    other_names: ClassVar[Mapping[str, Sequence[str]]] = {
        "read": ("query",),
        "change": ("mutate",),
        "ingest": ("load", "--mode", "merge", "--from", "main"),
        "check": ("lint",),
    }


app = typer.Typer(
    name="omnigraph",
    cls=Omnigraph,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    json_output: Json = False,
    as_actor: As = None,
    quiet: Quiet = False,
    yes: Yes = False,
    version_wanted: Version = False,
) -> None:
    """A typed property graph with Git-style branches, on a directory or an S3 prefix.

    \b
      omnigraph init --schema people.pg people.omni
      omnigraph load --data people.ndjson people.omni
      omnigraph query friends_of --query people.gq -p name=Ada --store people.omni
      omnigraph branch create review/ages --store people.omni

    omnigraph COMMAND --help explains one command. Results go to stdout, everything else to stderr.
    Exit codes: 0 done, 1 failed, 2 wrong usage, 4 lost precondition, 5 merge conflicts, 6 a plan
    with changes, 7 warnings, 75 refused by a busy server before it began.

    The config file is ~/.omnigraph/config.yaml, or the file that OMNIGRAPH_CONFIG names. It sets
    your name, servers, profiles, the default graph, and how the engine works.
    """
    if version_wanted:
        show_version(Session(json=json_output))
    elif context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@command(app, "version", LOCAL)
def show_version(session: Session) -> None:
    """Print the version.

    For example:

    \b
      omnigraph version
      omnigraph version --json
    """
    found = _installed()
    if session.json:
        print_json({"version": found, "python": platform.python_version()})
    else:
        print_result(f"omnigraph {found}")


def _installed() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("omnigraph")
    except PackageNotFoundError:
        return _UNINSTALLED


for family in FAMILIES:
    family.register(app)


def run() -> Any:
    """Run the app; `cli.entry` calls this once Ctrl-C is handled."""
    for stream in (sys.stdout, sys.stderr):
        # Otherwise a file name or value that is not valid text would end in a traceback.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    # Other libraries enable logging for the whole process; ours stays quiet below warnings.
    logging.getLogger("omnigraph").setLevel(logging.WARNING)
    app()
