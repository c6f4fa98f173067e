"""One run of a command: its shared flags, the config file, and the graph that it opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import omnigraph
from omnigraph.cli.options import BranchPlace
from omnigraph.cli.output import EXIT_FAILED, WrongUsage
from omnigraph.cli.scopes import (
    UPKEEP,
    AddressFlags,
    GraphScope,
    Reach,
    ScopeKind,
    is_local,
    resolve,
)
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.manifest.layout import GRAPH_SUFFIX
from omnigraph.progress import shown, terminal_is_watched
from omnigraph.settings.config_file import OperatorConfig, read_config
from omnigraph.settings.models import Settings

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph
    from omnigraph.settings.credentials import Credentials
    from omnigraph.stored_queries.registry import QueryPlace


PATH_VARIABLE = "OMNIGRAPH_CONFIG"
HOME_VARIABLE = "OMNIGRAPH_HOME"
POLICY_VARIABLE = "OMNIGRAPH_POLICY"


@dataclass(frozen=True, slots=True)
class Session:
    """The shared flags of this run: `--json`, `--as`, `--quiet`, `--yes`, `--server` and others."""

    json: bool = False
    as_actor: str | None = None
    quiet: bool = False
    yes: bool = False
    flags: AddressFlags = field(default_factory=AddressFlags)
    """The flags that name a server, a cluster or a profile."""
    token: str | None = field(default=None, repr=False)
    policy_file: str | None = None
    external_blobs: tuple[str, ...] = ()
    """Bases of external blobs that the command line names."""
    command: str = "omnigraph"
    """The command, as users write it: `branch create`."""
    reach: Reach = UPKEEP
    _config: list[OperatorConfig] = field(default_factory=list, repr=False, compare=False)
    """The config file, once it was read."""
    _scopes: list[GraphScope] = field(default_factory=list, init=False, repr=False, compare=False)
    """The scope of this run, once it was resolved."""

    def config(self) -> OperatorConfig:
        """The config file. It is read once, and its unknown keys are warned of then."""
        if not self._config:
            self._config.append(read_operator_config(os.environ))
            for warning in self._config[0].warnings:
                self.note(f"warning: {warning}")
        return self._config[0]

    def actor(self) -> str | None:
        """The value of `--as`, or the actor of the config file."""
        return self.as_actor if self.as_actor is not None else self.config().actor

    def policy(self) -> str | None:
        """The file of `--policy`, or of the environment: rules for stores."""
        return self.policy_file or os.environ.get(POLICY_VARIABLE) or None

    def settings(self) -> Settings:
        """The settings of the config file, and of the command line."""
        return self.config().settings.allowing(self.external_blobs)

    def allowing(self, external_blobs: Sequence[str] | None) -> Session:
        """The same run with these bases of external blobs."""
        return replace(self, external_blobs=tuple(external_blobs or ()))

    def scope(self, uri: str | None = None, store: str | None = None) -> GraphScope:
        """The store, server or cluster of this run; `cli.scopes` has the rules."""
        flags = replace(self.flags, uri=uri, store=store)
        found = resolve(flags, os.environ, self.config(), self.reach, self.command)
        self._scopes[:] = [found]
        return found

    @property
    def last_scope(self) -> GraphScope | None:
        """The scope that was asked for last: that of the graph which is being opened."""
        return self._scopes[0] if self._scopes else None

    def elsewhere(self, flags: AddressFlags, reach: Reach) -> Session:
        """The same run on another scope."""
        return replace(self, flags=flags, reach=reach)

    def has_scope(self) -> bool:
        """Whether flags, environment or config file name anything."""
        try:
            self.scope()
        except WrongUsage:
            return False
        return True

    def branch(self, uri: str | None = None, store: str | None = None) -> str | None:
        """The branch of the profile or of the config file, for a command that names none."""
        try:
            return self.scope(uri, store).branch
        except WrongUsage:
            return self.config().branch

    def server_token(self, url: str) -> str | None:
        """The token for an address: of `--token`, or of the server that has this address."""
        from omnigraph.settings.credentials import TokenFinder, server_of

        if self.token is not None:
            return self.token
        named = {s.server: s.target for s in self._scopes if s.server is not None}
        finder = TokenFinder(self.config().servers, os.environ, credentials(os.environ))
        return finder.token(url, server_of(url, named))

    def note(self, text: str) -> None:
        """Print something that is not a result, unless `--quiet`."""
        if not self.quiet:
            sys.stderr.write(f"{text}\n")

    def working(self, what: str) -> AbstractContextManager[None]:
        """A line on the terminal that says what is being done."""
        visible = terminal_is_watched() and not self.quiet and not self.json
        return shown(what) if visible else nullcontext()

    def confirm(self, question: str) -> None:
        """Ask before something that cannot be undone; scripts give `--yes`."""
        if self.yes:
            return
        if not sys.stdin.isatty():
            raise WrongUsage(f"{question} There is no terminal to ask on: add --yes")
        if self.json:
            raise WrongUsage(f"{question} With --json no question is asked: add --yes")
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise typer.Exit(EXIT_FAILED)

    def confirm_remote(self, uri: str, what: str) -> None:
        """Ask before something destructive on a graph that is not on this machine."""
        if not is_local(uri):
            self.confirm(f"{what} {uri}, which is not on this machine?")


def read_operator_config(environment: Mapping[str, str]) -> OperatorConfig:
    """Read the config file; a missing file is an error only if the environment names it."""
    named = environment.get(PATH_VARIABLE)
    try:
        return read_config(named or operator_home(environment) / "config.yaml")
    except NotFound:
        if named:
            raise NotFound(f"{PATH_VARIABLE} names {named}: no such file", file=named) from None
        return OperatorConfig()


def operator_home(environment: Mapping[str, str]) -> Path:
    """The directory of the config file and of the credentials."""
    return Path(environment.get(HOME_VARIABLE) or "~/.omnigraph").expanduser()


def credentials(environment: Mapping[str, str]) -> Credentials:
    """The credentials file, which is not read yet."""
    from omnigraph.settings.credentials import Credentials

    return Credentials(operator_home(environment) / "credentials")


def address(session: Session, uri: str | None, store: str | None = None) -> str:
    """The address of the graph of this run, as `omnigraph.open` takes it."""
    scope = session.scope(uri, store)
    match scope.kind:
        case ScopeKind.STORE:
            return scope.target
        case ScopeKind.SERVER:
            return _served_address(session, scope)
        case ScopeKind.CLUSTER:
            return _address_in_cluster(scope)


def _served_address(session: Session, scope: GraphScope) -> str:
    """The address of a graph on a server; without `--graph` the server is asked for its graphs."""
    from omnigraph.remote.address import parse_address, parse_graph_server

    server = parse_graph_server(scope.target)
    graph_id = scope.graph
    if graph_id is None:
        from omnigraph.remote.server_graphs import list_graphs

        names = list_graphs(server, session.server_token(server), session.settings().client)
        if len(names) != 1:
            listed = f"; it has: {', '.join(names)}" if names else ""
            raise WrongUsage(f"the server {server} needs --graph ID{listed}")
        graph_id = names[0]
    return parse_address(f"{server}/graphs/{graph_id}").url


def _address_in_cluster(scope: GraphScope) -> str:
    """The storage of a graph of a cluster; without `--graph` the only one that it has."""
    from omnigraph.cluster.session import ClusterCall, InvalidConfig, find_root

    try:
        root, _ = find_root(ClusterCall(scope.target))
    except InvalidConfig as error:
        raise InvalidArgument(str(error.diagnostics[0])) from None
    stored = root.read_ledger()
    if not stored.found:
        raise NotFound(
            f"nothing was applied to the cluster {root.uri}: run `omnigraph cluster apply` first",
            uri=root.uri,
        )
    names = sorted(stored.ledger.graph_ids)
    listed = f"; it has: {', '.join(names)}" if names else "; it has no graphs"
    graph_id = names[0] if scope.graph is None and len(names) == 1 else scope.graph
    if graph_id is None:
        raise WrongUsage(f"the cluster {root.uri} needs --graph ID{listed}")
    if graph_id not in names:
        raise WrongUsage(f"the cluster {root.uri} has no graph {graph_id!r}{listed}")
    return root.graph_uri(graph_id)


def _open(
    session: Session, uri: str, *, read_only: bool, queries: QueryPlace | None = None
) -> Graph:
    from omnigraph.remote.address import is_remote

    if not is_remote(uri):
        if session.token is not None:
            raise WrongUsage(f"--token is for a server, and {uri} is a store")
        settings, applied = _applied(session, uri)
        return omnigraph.open(
            uri,
            actor=_bound_actor(session),
            read_only=read_only,
            settings=settings,
            policy=session.policy(),
            queries=applied if queries is None else queries,
        )
    if session.policy_file is not None:
        raise WrongUsage("--policy is for a store: a server has its own policy")
    if queries is not None:
        raise WrongUsage("--queries is for a store: a server has its own stored queries")
    if session.as_actor is not None:
        raise WrongUsage("--as is for a store: a server knows you by your token")
    token = session.server_token(uri)
    return omnigraph.open(uri, token=token, read_only=read_only, settings=session.settings())


def _applied(session: Session, uri: str) -> tuple[Settings, QueryPlace | None]:
    """The settings and the stored queries of a graph; in a cluster those that were applied."""
    scope = session.last_scope
    if scope is None or scope.kind is not ScopeKind.CLUSTER:
        return session.settings(), None
    from omnigraph.cluster.graph_work import applied_settings
    from omnigraph.cluster.serving import applied_graph

    graph_id = uri.rpartition("/")[2].removesuffix(GRAPH_SUFFIX)
    found = applied_graph(scope.target, graph_id, os.environ)
    settings = applied_settings(session.settings(), found.profile, found.retention)
    assert found.blobs is not None
    return replace(settings, external_blobs=found.blobs), found.queries


def _bound_actor(session: Session) -> str | None:
    """The actor; rules need one."""
    actor = session.actor()
    if actor is None and session.policy() is not None:
        raise WrongUsage(f"the rules of {session.policy()} are about actors: add --as ACTOR")
    return actor


def open_to_read(
    session: Session, uri: str, *where: str | None, queries: QueryPlace | None = None
) -> Graph:
    """Open read-only: nothing is written, so dead writers are not recovered either."""
    graph = _open(session, uri, read_only=True, queries=queries)
    session.note("  ".join([f"graph {uri}", *(part for part in where if part)]))
    return graph


def read_branch(session: Session, place: BranchPlace) -> Graph:
    return open_to_read(session, address(session, place.uri, place.store), on_branch(place.branch))


def open_to_write(
    session: Session, uri: str, *where: str | None, queries: QueryPlace | None = None
) -> Graph:
    if session.external_blobs and uri.lower().startswith(("http://", "https://")):
        raise WrongUsage("--external-blobs is for a store: a server says what its graphs allow")
    graph = _open(session, uri, read_only=False, queries=queries)
    echo_target(session, uri, *where)
    return graph


def echo_target(session: Session, uri: str, *where: str | None) -> None:
    """Say which graph a command changes, and how it reaches it."""
    how = "served" if uri.lower().startswith(("http://", "https://")) else "direct"
    place = "local" if is_local(uri) else "remote"
    target = f"omnigraph {session.command} → {uri} ({how}, {place})"
    session.note("  ".join([target, *(part for part in where if part)]))


def on_branch(branch: str, at: str | None = None) -> str:
    return f"branch {branch}" if at is None else f"branch {branch} at {at}"
