"""How a command is declared: shared flags, groups of options, help, and usage errors.

`command` makes a typer command of a handler. `RootGroup` is the outermost command.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from omnigraph.cli.failures import failures, leave_broken_pipe
from omnigraph.cli.imports import leave_pandas_out
from omnigraph.cli.output import EXIT_BROKEN_PIPE, WrongUsage, print_json
from omnigraph.cli.scopes import ANY, LOCAL, SCOPE_FLAGS, AddressFlags, Reach, ScopeKind
from omnigraph.cli.session import Session

Json = Annotated[bool, typer.Option("--json", help="Print results and errors as JSON.")]
As = Annotated[
    str | None,
    typer.Option("--as", metavar="ACTOR", help="Your name in the history of the graph."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print results only, no notes.")]
Yes = Annotated[bool, typer.Option("--yes", help="Answer every question with yes.")]
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]


Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="NAME|URL",
        help="The server that has the graph; default: OMNIGRAPH_SERVER.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="DIR|URI|NAME",
        help="The cluster that has the graph: its directory, its storage root, or its name.",
    ),
]
GraphId = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="ID",
        help="The graph of the server or cluster; default: OMNIGRAPH_GRAPH_ID, or the only one.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="A scope of the config file; default: OMNIGRAPH_PROFILE.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="The token for the server. Other users of this machine can see it here: better use "
        "`omnigraph login`, or set OMNIGRAPH_BEARER_TOKEN.",
    ),
]

PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Rules that bind --as on a store; default: OMNIGRAPH_POLICY.",
    ),
]

Handler = Callable[..., None]


def command(
    group: typer.Typer,
    name: str,
    reach: Reach | None = None,
    *,
    writes: bool = False,
    frames: bool = False,
) -> Callable[[Handler], Handler]:
    """Add `handler(session, …)` to a group; its other parameters become options.

    A parameter whose type is a dataclass stands for several options: the fields of the dataclass.
    `reach` says on which kinds of scopes the command works, and gives it the flags that name them.
    `writes` says whether the command may change something, so that `--as` has a meaning.
    `frames` says whether the command may use pandas. Work on Spark may, too: see `--engine`.
    """

    def register(handler: Handler) -> Handler:
        _, *own = inspect.signature(handler, eval_str=True).parameters.values()
        objects = gathered(own)
        options = list(spread(own))
        names = {option.name for option in options}
        chosen = reach or (ANY if _STORE in names else LOCAL)
        on_graph = bool(chosen.kinds)

        @functools.wraps(handler)
        def run(ctx: typer.Context, **given: Any) -> None:
            if on_graph and not frames and given.get(_ENGINE, _LOCAL_ENGINE) == _LOCAL_ENGINE:
                leave_pandas_out()
            session = _session(ctx, given, chosen)
            bound = session.policy() is not None
            if session.as_actor is not None and reach is not None and not (writes or bound):
                raise WrongUsage(
                    f"--as names the author of a change, and `{session.command}` makes none in a "
                    "store: leave it out"
                )
            with failures(session.json):
                if given.get(_BRANCH) == MAIN and _is_default(ctx, _BRANCH):
                    given[_BRANCH] = session.branch(given.get("uri"), given.get(_STORE)) or MAIN
                for made in objects:
                    made.gather(given)
                handler(session, **given)

        scope = [flag for flag in _scope_flags(chosen) if flag.name not in names]
        parameters = [_parameter("ctx", typer.Context), *options, *scope, *_GLOBAL]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        )
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.declared = Declared(reach, writes=writes)  # type: ignore[attr-defined]
        # Passed explicitly, because typer would cut off a short help taken from the docstring.
        group.command(name, cls=Command, short_help=_first_sentence(handler))(run)
        return handler

    return register


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """What a command says about itself; `reach` is None if it says nothing."""

    reach: Reach | None
    writes: bool


def declared(found: TyperCommand) -> Declared:
    """The declaration of a registered command."""
    says: Declared = found.callback.declared  # type: ignore[union-attr]
    return says


def _is_default(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is None or source.name.startswith("DEFAULT")


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


MAIN = "main"
DEFAULT_COMMAND = "run"
"""The command of a group that runs if no command of the group is named."""
_STORE, _BRANCH, _ENGINE = "store", "branch", "engine"
_LOCAL_ENGINE = "local"
_SCOPE_PARAMETERS = {
    "server_url": (_parameter("server_url", Server, None), {ScopeKind.SERVER}),
    "cluster": (_parameter("cluster", Cluster, None), {ScopeKind.CLUSTER}),
    "graph_id": (_parameter("graph_id", GraphId, None), {ScopeKind.SERVER, ScopeKind.CLUSTER}),
    "profile": (_parameter("profile", Profile, None), set(ScopeKind)),
    "server_token": (_parameter("server_token", Token, None), {ScopeKind.SERVER}),
    "policy_file": (_parameter("policy_file", PolicyFile, None), {ScopeKind.STORE}),
}
"""The flags that name a scope, and the kinds of scopes for which a command has them."""


def _scope_flags(reach: Reach) -> list[inspect.Parameter]:
    return [parameter for parameter, kinds in _SCOPE_PARAMETERS.values() if kinds & reach.kinds]


def _session(ctx: typer.Context, given: dict[str, Any], reach: Reach) -> Session:
    """The shared flags may stand before the command or after it."""
    before = ctx.find_root().params
    own = {p.name: given.pop(p.name) for p in _GLOBAL}
    return Session(
        json=own["json_output"] or bool(before.get("json_output")),
        as_actor=own["as_actor"] if own["as_actor"] is not None else before.get("as_actor"),
        quiet=own["quiet"] or bool(before.get("quiet")),
        yes=own["yes"] or bool(before.get("yes")),
        flags=AddressFlags(
            server=given.pop("server_url", None),
            cluster=given.pop("cluster", None),
            graph=given.pop("graph_id", None),
            profile=given.pop("profile", None),
        ),
        token=given.pop("server_token", None),
        policy_file=given.pop("policy_file", None),
        command=command_words(ctx),
        reach=reach,
    )


def command_words(ctx: Any) -> str:
    """The command as users write it, without the program and without `run` of `query run`."""
    words: list[str] = []
    while ctx.parent is not None:
        unnamed = isinstance(ctx.parent.command, DefaultCommandGroup)
        if not unnamed or ctx.info_name != DEFAULT_COMMAND:
            words.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return " ".join(words)


@dataclasses.dataclass(frozen=True, slots=True)
class Gathered:
    """A parameter of a handler that is a dataclass, made of several options."""

    name: str
    kind: type
    fields: tuple[str, ...]

    def gather(self, given: dict[str, Any]) -> None:
        """Replace the values of the options by the dataclass."""
        given[self.name] = self.kind(**{field: given.pop(field) for field in self.fields})


def spread(parameters: Sequence[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """The parameters of a handler as single options, in order."""
    for parameter in parameters:
        made = _dataclass_of(parameter)
        if made is None:
            yield parameter
            continue
        types = get_type_hints(made, include_extras=True)
        for field in dataclasses.fields(made):
            missing = field.default is dataclasses.MISSING
            default = inspect.Parameter.empty if missing else field.default
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(field.name, kind, default=default, annotation=types[field.name])


def gathered(parameters: Sequence[inspect.Parameter]) -> tuple[Gathered, ...]:
    return tuple(
        Gathered(parameter.name, made, tuple(field.name for field in dataclasses.fields(made)))
        for parameter in parameters
        if (made := _dataclass_of(parameter)) is not None
    )


def _dataclass_of(parameter: inspect.Parameter) -> Any:
    return parameter.annotation if dataclasses.is_dataclass(parameter.annotation) else None


SHARED = ("json_output", "as_actor", "quiet", "yes", "help")
SCOPE = tuple(_SCOPE_PARAMETERS)


class Command(TyperCommand):
    """Prints help: own options before shared ones, `[NAME]` for optional arguments, no types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_without_braces(piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        params = self.get_params(ctx)
        own = [p for p in params if p.name not in (*SHARED, *SCOPE)]
        sections = {
            "Arguments": [p for p in own if p.param_type_name == "argument"],
            "Options": [p for p in own if p.param_type_name == "option"],
            "Which graph": [p for p in params if p.name in SCOPE],
            "Options of every command": [p for p in params if p.name in SHARED],
        }
        for title, members in sections.items():
            if members:
                with formatter.section(title):
                    formatter.write_dl([help_record(p, ctx) for p in members])


def help_record(parameter: Any, ctx: Any) -> tuple[str, str]:
    names, text = parameter.get_help_record(ctx) or ("", "")
    return names.removesuffix(" <str>"), text


def _without_braces(piece: str) -> str:
    return piece.replace("{", "").replace("}", "")


class DefaultCommandGroup(TyperGroup):
    """A group that passes unknown first words and options to its default command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            args = ["--help"]
        if args[0] not in self.commands and DEFAULT_COMMAND in self.commands:
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


class RootGroup(TyperGroup):
    """The outermost command: prints usage errors, ends quietly on closed pipes, has sections."""

    sections: Sequence[tuple[str, Sequence[str]]] = ()
    other_names: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Other name of a command -> the command, and the options that the other name implies."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        meant = self.other_names.get(args[0], args[:1])
        return super().resolve_command(ctx, [*meant, *args[1:]])

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
        if words[:1] == ["help"]:
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
        """The commands in sections, in the order in which a new user needs them."""
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


def clarify(error: typer.TyperException) -> None:
    """Make the message of a typer error clearer before it is shown."""
    details = getattr(error.__cause__, "errors", None)
    if details is not None:
        first = details()[0]
        error.message = _of_value(first) or error.message
        return
    ctx = getattr(error, "ctx", None)
    command = getattr(ctx, "command", None)
    flag = getattr(error, "option_name", None)
    if flag in SCOPE_FLAGS and isinstance(command, Command):
        reach = declared(command).reach or LOCAL
        error.message = reach.refusal(command_words(ctx), flag)
        error.possibilities = None  # type: ignore[attr-defined]
        return
    if command is not None and "unexpected extra argument" in error.message:
        names = {parameter.name for parameter in command.params}
        options = [("query", "-q FILE"), ("data", "--data FILE"), ("store", "--store URI")]
        wanted = [option for name, option in options if name in names]
        if wanted:
            error.message += f"; name files and graphs with {', '.join(wanted)}"


def _of_value(found: dict[str, Any]) -> str | None:
    """A value that does not fit its option, as pydantic reports it."""
    given, context = found["input"], found.get("ctx", {})
    match found["type"]:
        case "value_error":
            return f"{context['error']}"
        case "int_parsing" | "int_from_float":
            return f"{given!r} is not a whole number"
        case "float_parsing":
            return f"{given!r} is not a number"
        case "greater_than_equal":
            return f"{given} is less than {context['ge']:g}"
        case "less_than_equal":
            return f"{given} is more than {context['le']:,}"
        case _:
            return None
