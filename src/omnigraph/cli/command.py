"""How a command is declared: the flags all commands share, help, and errors as exit codes."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from omnigraph.cli.failures import failures, leave_broken_pipe
from omnigraph.cli.help import Command
from omnigraph.cli.option_groups import gathered, spread
from omnigraph.cli.output import EXIT_BROKEN_PIPE, print_json
from omnigraph.cli.session import Session
from omnigraph.cli.usage_errors import clarify

Json = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
As = Annotated[
    str | None, typer.Option("--as", metavar="ACTOR", help="Who acts; kept in the history.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only results, no notes.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]

Handler = Callable[..., None]


def command(group: typer.Typer, name: str) -> Callable[[Handler], Handler]:
    """Add `handler(session, …)` to a group; its other parameters are its options."""

    def register(handler: Handler) -> Handler:
        _, *own = inspect.signature(handler, eval_str=True).parameters.values()
        objects = gathered(own)

        @functools.wraps(handler)
        def run(ctx: typer.Context, **given: Any) -> None:
            session = _session(ctx, given)
            for made in objects:
                made.gather(given)
            with failures(session.json):
                handler(session, **given)

        parameters = [_parameter("ctx", typer.Context), *spread(own), *_GLOBAL]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        )
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        # Given by us, it is wrapped in overviews; taken from the docstring, it would be cut.
        group.command(name, cls=Command, short_help=_first_sentence(handler))(run)
        return handler

    return register


def _first_sentence(handler: Handler) -> str:
    paragraph = inspect.cleandoc(handler.__doc__ or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> Any:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


_GLOBAL = (
    _parameter("json_output", Json, False),
    _parameter("as_actor", As, None),
    _parameter("quiet", Quiet, False),
    _parameter("yes", Yes, False),
)


def _session(ctx: typer.Context, given: dict[str, Any]) -> Session:
    """The shared flags count before the command as well as behind it."""
    before = ctx.find_root().params
    own = {p.name: given.pop(p.name) for p in _GLOBAL}
    return Session(
        json=own["json_output"] or bool(before.get("json_output")),
        as_actor=own["as_actor"] if own["as_actor"] is not None else before.get("as_actor"),
        quiet=own["quiet"] or bool(before.get("quiet")),
        yes=own["yes"] or bool(before.get("yes")),
    )


class RootGroup(TyperGroup):
    """The outermost command: usage errors as JSON too, readers that went away, sections in help."""

    sections: Sequence[tuple[str, Sequence[str]]] = ()

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        if words[:1] == ["help"]:  # what one types first
            words = [*words[1:], "--help"]
        if not standalone_mode:
            return super().main(words, prog_name, complete_var, False, **extra)
        sys.exit(self._run(words, prog_name, complete_var, extra))

    def _run(
        self,
        words: list[str],
        prog_name: str | None,
        complete_var: str | None,
        extra: dict[str, Any],
    ) -> int:
        try:
            code = super().main(words, prog_name or self.name, complete_var, False, **extra)
            sys.stdout.flush()
            return code or 0
        except typer.TyperException as error:
            clarify(error)
            if "--json" in words:
                print_json({"error": error.format_message(), "code": "usage"})
            else:
                error.show()  # type: ignore[attr-defined]
            return error.exit_code
        except typer.Abort:
            return 1
        except BrokenPipeError:
            leave_broken_pipe()
            return EXIT_BROKEN_PIPE

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Commands in sections, in the order of a first day with a graph."""
        width = max(len(name) for name in self.commands)
        for title, names in self.sections:
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(formatter.width - width))
                for name in names
                if name in self.commands
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
