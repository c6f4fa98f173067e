"""`omnigraph version`."""

from __future__ import annotations

import platform

import typer

from omnigraph.cli.command import command
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.session import Session

_UNINSTALLED = "0+uninstalled"


def show(session: Session) -> None:
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
