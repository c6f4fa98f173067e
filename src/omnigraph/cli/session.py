"""What the flags that every command takes say about this run."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import typer

from omnigraph.cli.operator_config import read_operator_config
from omnigraph.cli.output import EXIT_FAILED, WrongUsage, print_json
from omnigraph.progress import shown, somebody_watches
from omnigraph.settings.config_file import OperatorConfig
from omnigraph.settings.models import Settings


@dataclass(frozen=True, slots=True)
class Session:
    """`--json`, `--as`, `--quiet`, `--yes`, wherever they stood on the command line."""

    json: bool = False
    as_actor: str | None = None
    quiet: bool = False
    yes: bool = False

    def config(self) -> OperatorConfig:
        return read_operator_config(os.environ)

    def actor(self) -> str | None:
        """Who acts: `--as`, else the operator of the config file."""
        return self.as_actor if self.as_actor is not None else self.config().actor

    def settings(self) -> Settings:
        """How the engine behaves, by the config file."""
        return self.config().settings

    def note(self, text: str) -> None:
        """Say something that is not the result."""
        if not self.quiet:
            sys.stderr.write(f"{text}\n")

    def working(self, what: str) -> AbstractContextManager[None]:
        """A line that says what is going on, for somebody who waits at a terminal."""
        visible = somebody_watches() and not self.quiet and not self.json
        return shown(what) if visible else nullcontext()

    def confirm(self, question: str) -> None:
        """Ask before something that cannot be taken back; scripts say `--yes`."""
        if self.yes:
            return
        if not sys.stdin.isatty():
            raise WrongUsage(f"{question} Nobody is here to answer: add --yes")
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            if self.json:
                print_json({"error": "not confirmed, nothing was changed", "code": "not_confirmed"})
            raise typer.Exit(EXIT_FAILED)
