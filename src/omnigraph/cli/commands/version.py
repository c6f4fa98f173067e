"""`omnigraph version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

from omnigraph.cli.output import JsonFlag, print_json, print_result

_UNINSTALLED = "0+uninstalled"


def register(app: typer.Typer) -> None:
    app.command("version")(show)


def show(json: JsonFlag = False) -> None:
    """Print the version.

    For example:

      omnigraph version

      omnigraph version --json
    """
    found = _installed()
    if json:
        print_json({"version": found, "python": platform.python_version()})
    else:
        print_result(f"omnigraph {found}")


def _installed() -> str:
    try:
        return version("omnigraph")
    except PackageNotFoundError:
        return _UNINSTALLED
