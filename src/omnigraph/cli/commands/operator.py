"""`graphs list`, `profile list|show`, `login`, `logout` and `alias`: the side of the operator.

These commands use the config file (`settings.config_file`) and the credentials file beside it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import MAIN, command
from omnigraph.cli.commands.query import profiles, run_stored
from omnigraph.cli.formats import choose_format, write_result
from omnigraph.cli.options import Format, ResultFormat
from omnigraph.cli.output import WrongUsage, print_json, print_result
from omnigraph.cli.query_text import QueryCall
from omnigraph.cli.scopes import (
    LOCAL,
    SERVED,
    AddressFlags,
    active_profile,
    found_profile,
    resolve,
    scope_of_profile,
)
from omnigraph.cli.session import Session, address, credentials, on_branch, open_to_read
from omnigraph.cli.tables import print_table
from omnigraph.values.json_values import json_text
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.settings.config_file import AliasEntry, ProfileEntry

ServerName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The server, as `servers:` of the config file names it."),
]
NewToken = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="The token. Other users of this machine can see it here: better give it on stdin.",
    ),
]
NoVerify = Annotated[bool, typer.Option("--no-verify", help="Do not try the token on the server.")]
ProfileName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The profile; default: the active one."),
]
AliasName = Annotated[
    str | None, typer.Argument(metavar="NAME", help="The alias; without it all are listed.")
]
AliasWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="VALUE", help="Values of the parameters that the alias names, in order."
    ),
]

graphs_group = typer.Typer(help="The graphs of a server.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(graphs_group, name="graphs")
    command(app, "login", LOCAL)(login)
    command(app, "logout", LOCAL)(logout)
    command(app, "alias", LOCAL)(alias)


@command(graphs_group, "list", SERVED)
def list_graphs(session: Session) -> None:
    """List the graphs of a server, and those that it could not open.

    A server lists its graphs to actors whom its policy allows that.

    For example:

    \b
      omnigraph graphs list --server prod
      omnigraph graphs list --server https://graphs.example.com --json
    """
    from omnigraph.remote.address import parse_graph_server
    from omnigraph.remote.server_graphs import server_graphs

    server = parse_graph_server(session.scope().target)
    found = server_graphs(server, session.server_token(server), session.settings().client)
    if session.json:
        print_json(found)
        return
    rows = [(graph["graph_id"], "served", graph.get("uri", "-")) for graph in found["graphs"]]
    rows += [
        (graph["graph_id"], "quarantined", graph["message"])
        for graph in found.get("quarantined", ())
    ]
    if rows:
        print_table(("graph", "state", "about"), rows)
    session.note(f"{server}: {counted(len(found['graphs']), 'graph')}")


@command(profiles, "list", LOCAL)
def list_profiles(session: Session) -> None:
    """List the profiles of the config file, and which one is active.

    `OMNIGRAPH_PROFILE` makes a profile active for every command that names no graph.

    For example:

    \b
      omnigraph profile list
      OMNIGRAPH_PROFILE=prod omnigraph profile list --json
    """
    found = [_told(session, profile) for profile in session.config().profiles.values()]
    if session.json:
        print_json({"profiles": found})
        return
    if found:
        columns = ("name", "scope_kind", "target", "default_graph", "active")
        rows = [
            (
                f"{each['name']}",
                each["scope_kind"],
                each["target"] if each["valid"] else each["error"],
                each["default_graph"] or "-",
                "yes" if each["active"] else "-",
            )
            for each in found
        ]
        print_table(columns, rows)
    session.note(counted(len(found), "profile"))


@command(profiles, "show", LOCAL)
def show_profile(session: Session, name: ProfileName = None) -> None:
    """Show what a profile names: its server, cluster or store, and its graph and branch.

    For example:

    \b
      omnigraph profile show prod
      OMNIGRAPH_PROFILE=prod omnigraph profile show --json
    """
    chosen = active_profile(name, os.environ)
    if chosen is None:
        raise WrongUsage("no profile is active: give its NAME, or set OMNIGRAPH_PROFILE")
    config = session.config()
    told = _told(session, found_profile(chosen, config))
    told["branch"] = config.profiles[chosen].branch or config.branch
    told["endpoint"] = told["target"]
    if told["scope_kind"] == "server" and told["default_graph"] is not None:
        told["endpoint"] = f"{told['target']}/graphs/{told['default_graph']}"
    told["output_format"] = config.output or "table"
    if session.json:
        print_json(told)
        return
    for key, value in told.items():
        shown = {None: "-", True: "yes", False: "no"}.get(value, value)
        print_result(f"{key:14} {shown}")


def _told(session: Session, profile: ProfileEntry) -> dict[str, Any]:
    """A profile as JSON. A wrong one is told with its error."""
    told: dict[str, Any] = {
        "name": profile.name,
        "binding": profile.binding,
        "scope_kind": "invalid",
        "target": None,
        "valid": False,
        "default_graph": profile.default_graph,
        "active": profile.name == active_profile(None, os.environ),
    }
    try:
        scope = scope_of_profile(profile, session.config())
    except WrongUsage as error:
        return {**told, "error": error.message}
    found = {"scope_kind": scope.kind.value, "target": scope.target, "default_graph": scope.graph}
    return {**told, **found, "valid": True}


def login(
    session: Session, name: ServerName, token: NewToken = None, no_verify: NoVerify = False
) -> None:
    """Keep the token of a server for later commands, after trying it on the server.

    The token is read from standard input, or from the terminal without showing it. It is kept in
    `~/.omnigraph/credentials`, which only you can read, and is sent only to the server of this
    name. OMNIGRAPH_TOKEN_NAME, such as OMNIGRAPH_TOKEN_PROD, replaces it.

    For example:

    \b
      omnigraph login prod
      cat token.txt | omnigraph login prod --json
      omnigraph login prod --no-verify < token.txt
    """
    from omnigraph.remote.address import parse_graph_server
    from omnigraph.remote.server_graphs import check_token
    from omnigraph.settings.credentials import checked

    url = session.config().servers.get(name)
    file = credentials(os.environ)
    file.tokens()  # a file that cannot be used must fail before a token is asked for
    given = checked(token if token is not None else _typed_token(name), "the token")
    if url is not None and not no_verify:
        scope = resolve(AddressFlags(server=name), {}, session.config(), SERVED, session.command)
        check_token(parse_graph_server(scope.target), given, session.settings().client)
    file.store(name, given)
    if session.json:
        told = {"server": name, "credentials_path": str(file.path), "declared": url is not None}
        print_json({**told, "verified": url is not None and not no_verify})
        return
    print_result(f"the token of {name} is kept in {file.path}")
    if url is None:
        session.note(
            f"warning: the config file has no servers.{name}.url, so no command uses this token yet"
        )


def _typed_token(name: str) -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass(f"token of {name}: ").strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise WrongUsage("no token is given: write it as one line to standard input")
    return line


def logout(session: Session, name: ServerName) -> None:
    """Forget the token of a server; a server without a token is no error.

    For example:

    \b
      omnigraph logout prod
    """
    file = credentials(os.environ)
    removed = file.remove(name)
    if session.json:
        print_json({"server": name, "credentials_path": str(file.path), "removed": removed})
    else:
        told = "is removed from" if removed else "is not in"
        print_result(f"the token of {name} {told} {file.path}")


def alias(
    session: Session, name: AliasName = None, words: AliasWords = None, format: Format = None
) -> None:
    """Run a stored query of a server by its short name in the config file.

    An alias names a server, a graph, a query that only reads, and parameters. The values after the
    alias are its `args`, in order. Without a name all aliases are listed.

    For example:

    \b
      omnigraph alias
      omnigraph alias friends Ada
      omnigraph alias friends Ada --format csv
    """
    aliases = session.config().aliases
    if name is None:
        _list_aliases(session, list(aliases.values()))
        return
    found = aliases.get(name)
    if found is None:
        hint = did_you_mean(name, aliases) or "the config file has no aliases"
        raise WrongUsage(f"no alias is called {name!r}; {hint}")
    if found.error is not None:
        raise WrongUsage(f"alias {name} is wrong: {found.error}")
    how = choose_format(session, format, usual=found.format)
    _run_alias(session, found, words or [], how)


def _list_aliases(session: Session, found: list[AliasEntry]) -> None:
    if session.json:
        told = [
            {
                "name": each.name,
                "server": each.server or None,
                "graph": each.graph,
                "query": each.query or None,
                "args": list(each.args),
                "params": dict(each.params),
                "format": each.format,
                **({} if each.error is None else {"error": each.error}),
            }
            for each in found
        ]
        print_json({"aliases": told})
        return
    rows = [
        (each.name, each.server, each.graph or "-", each.error or each.query, " ".join(each.args))
        for each in found
    ]
    if rows:
        print_table(("name", "server", "graph", "query", "args"), rows)
    session.note(counted(len(rows), "alias"))


def _run_alias(session: Session, found: AliasEntry, words: list[str], how: ResultFormat) -> None:
    if len(words) > len(found.args):
        wanted = ", ".join(found.args) or "no values"
        raise WrongUsage(f"alias {found.name} takes {wanted}, got {counted(len(words), 'value')}")
    call = QueryCall(
        name=found.query,
        params=json_text(dict(found.params)),
        param=[f"{name}={word}" for name, word in zip(found.args, words, strict=False)],
    )
    there = session.elsewhere(AddressFlags(server=found.server, graph=found.graph), SERVED)
    branch = there.scope().branch or MAIN
    graph = open_to_read(there, address(there, None), on_branch(branch))
    write_result(session, run_stored(session, graph, call, branch), how)
