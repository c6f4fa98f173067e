"""Which graph a command works on: one rule for every command, without any input or output.

`resolve` makes a `GraphScope` of the flags of a command, the environment and the config file. A
command declares its `Reach`: the kinds of scopes that it accepts. The first of these that is given
counts:

1. a positional URI, `--store`, `--server` or `--cluster`; two of them are an error
2. `--profile`, or `OMNIGRAPH_PROFILE`
3. `OMNIGRAPH_SERVER`
4. `defaults.server` of the config file
5. `defaults.store`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.cli.output import WrongUsage
from omnigraph.settings.config_file import OperatorConfig, ProfileEntry
from omnigraph.values.known_names import did_you_mean

PROFILE_VARIABLE = "OMNIGRAPH_PROFILE"
SERVER_VARIABLE = "OMNIGRAPH_SERVER"
GRAPH_VARIABLE = "OMNIGRAPH_GRAPH_ID"
_GRAPH_URL = re.compile(r"(?P<server>https?://[^/]+.*?)/graphs/(?P<graph>[^/]+)/?", re.IGNORECASE)
_SECRET_IN_URL = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)


class ScopeKind(StrEnum):
    """What a scope names."""

    STORE = "store"
    SERVER = "server"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Reach:
    """The kinds of scopes that a command accepts."""

    name: str
    kinds: frozenset[ScopeKind]
    advice: str
    """What to give instead of a flag that the command does not have."""

    def refusal(self, command: str, given: str) -> str:
        return f"`{command}` cannot use {given}: {self.advice}"


_STORE, _SERVER, _CLUSTER = ScopeKind.STORE, ScopeKind.SERVER, ScopeKind.CLUSTER
ANY = Reach(
    "any",
    frozenset({_STORE, _SERVER}),
    "it works on the data of one graph; give --server NAME|URL --graph ID, or --store URI (in a "
    "cluster ROOT/graphs/ID.omni)",
)
UPKEEP = Reach(
    "upkeep",
    frozenset({_STORE, _SERVER, _CLUSTER}),
    "give --store URI, --cluster DIR --graph ID, or --server NAME|URL --graph ID",
)
DIRECT = Reach(
    "direct",
    frozenset({_STORE, _CLUSTER}),
    "it works on storage itself; give --store URI, or --cluster DIR --graph ID",
)
CREATE = Reach(
    "create",
    frozenset({_STORE}),
    "it makes a graph in a store; give --store URI (graphs of a cluster are declared in "
    "cluster.yaml and made by `omnigraph cluster apply`)",
)
SERVED = Reach("served", frozenset({_SERVER}), "it asks a server; give --server NAME|URL")
CONTROL = Reach(
    "control", frozenset(), "it works on a cluster; name its directory with --config DIR"
)
BINDINGS = Reach(
    "bindings", frozenset({_CLUSTER}), "it works on files or on a cluster; give --cluster DIR"
)
ARGUMENT = Reach("argument", frozenset(), "give the graph as an argument, as the usage shows it")
LOCAL = Reach("local", frozenset(), "it works on no graph, so leave it out")
REACHES = (ANY, UPKEEP, DIRECT, CREATE, SERVED, CONTROL, BINDINGS, ARGUMENT, LOCAL)

SCOPE_FLAGS = ("--store", "--uri", "--server", "--cluster", "--graph", "--profile", "--token")


@dataclass(frozen=True, slots=True)
class AddressFlags:
    """What the command line says about the graph."""

    uri: str | None = None
    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    profile: str | None = None

    @property
    def names_a_scope(self) -> bool:
        return any((self.uri, self.store, self.server, self.cluster, self.profile))


@dataclass(frozen=True, slots=True)
class GraphScope:
    """A store, a server or a cluster, and the graph of it if one is named."""

    kind: ScopeKind
    target: str
    """The URI of the store, the URL of the server, the directory or root of the cluster."""
    source: str
    """Where the scope comes from, for messages: `--server prod`, `profile prod`."""
    graph: str | None = None
    server: str | None = None
    """The name of the server in the config file."""
    branch: str | None = None
    is_address: bool = False
    """The target is the address of the graph, so another graph cannot be chosen in it."""


def resolve(
    flags: AddressFlags,
    environment: Mapping[str, str],
    config: OperatorConfig,
    reach: Reach = UPKEEP,
    command: str = "omnigraph",
) -> GraphScope:
    """The scope of a command; an error says which flag is missing or wrong."""
    found = _primitive(flags, config) or _saved(flags, environment, config)
    if found is None:
        raise WrongUsage(
            f"no graph is named: {reach.advice}; or set --profile, or defaults.store or "
            "defaults.server in ~/.omnigraph/config.yaml"
        )
    if found.kind not in reach.kinds:
        raise WrongUsage(reach.refusal(command, f"{found.source}, which is a {found.kind}"))
    found = replace(found, branch=found.branch or config.branch)
    return _with_graph(found, flags, environment)


def _primitive(flags: AddressFlags, config: OperatorConfig) -> GraphScope | None:
    """The scope of a flag or of the positional URI."""
    given = [
        (f"{flag} {value}".strip(), flag, value)
        for flag, value in (
            ("", flags.uri),
            ("--store", flags.store),
            ("--server", flags.server),
            ("--cluster", flags.cluster),
        )
        if value is not None
    ]
    for _, flag, value in given:
        if not value:
            raise WrongUsage(f"no address given: {flag or 'URI'} is empty")
    if flags.uri is not None and flags.uri == flags.store:
        del given[1]
    if len(given) > 1:
        raise WrongUsage(f"two graphs are named: {' and '.join(told for told, _, _ in given[:2])}")
    if not given:
        return None
    told, flag, value = given[0]
    match flag:
        case "--server":
            return _server(value, told, config)
        case "--cluster":
            return _cluster(value, told, config)
        case _:
            return _store(value, told, config)


def _saved(
    flags: AddressFlags, environment: Mapping[str, str], config: OperatorConfig
) -> GraphScope | None:
    """The scope of a profile, of the environment or of the defaults."""
    profile = active_profile(flags.profile, environment)
    if profile is not None:
        return scope_of_profile(found_profile(profile, config), config)
    if environment.get(SERVER_VARIABLE):
        return _server(environment[SERVER_VARIABLE], SERVER_VARIABLE, config)
    if config.server is not None and config.store is not None:
        raise WrongUsage(
            "the config file has defaults.server and defaults.store: remove one of them, or name "
            "the graph"
        )
    if config.server is not None:
        scope = _server(config.server, "defaults.server", config)
        graph = environment.get(GRAPH_VARIABLE) or config.default_graph
        return replace(scope, graph=scope.graph or graph)
    if config.store is not None:
        return _store(config.store, "defaults.store", config)
    return None


def active_profile(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The name of the profile in use: of `--profile`, or of the environment."""
    if given is not None:
        return given
    return environment.get(PROFILE_VARIABLE) or None


def found_profile(name: str, config: OperatorConfig) -> ProfileEntry:
    found = config.profiles.get(name)
    if found is None:
        hint = did_you_mean(name, config.profiles) or "the config file has no profiles"
        raise WrongUsage(f"no profile is called {name!r}; {hint}")
    return found


def scope_of_profile(profile: ProfileEntry, config: OperatorConfig) -> GraphScope:
    """What a profile names; a wrong profile is an error here, when it is used."""
    if profile.error is not None:
        raise WrongUsage(f"profile {profile.name} is wrong: {profile.error}")
    told = f"profile {profile.name}"
    if profile.store is not None:
        return replace(_store(profile.store, told, config), branch=profile.branch)
    if profile.cluster is not None:
        scope = _cluster(profile.cluster, told, config)
        return replace(scope, graph=profile.default_graph, branch=profile.branch)
    assert profile.server is not None
    scope = _server(profile.server, told, config)
    graph = scope.graph or profile.default_graph
    return replace(scope, graph=graph, branch=profile.branch)


def _store(value: str, source: str, config: OperatorConfig) -> GraphScope:
    """A store, or the address of a graph on a server: `http://host/graphs/ID`."""
    if not _is_url(value):
        return GraphScope(_STORE, value, source)
    found = _server(value, source, config)
    if found.graph is None:
        raise WrongUsage(f"{value} names no graph of a server: write {found.target}/graphs/ID")
    return found


def _server(value: str, source: str, config: OperatorConfig) -> GraphScope:
    """A server by its name or URL; a URL may end with `/graphs/ID`."""
    name = value if value in config.servers else None
    url = config.servers.get(value, value)
    if _SECRET_IN_URL.match(url):
        raise WrongUsage(
            "an address must not hold a name or password: `omnigraph login` keeps tokens"
        )
    if not _is_url(url):
        if name is not None:
            raise WrongUsage(f"servers.{name}.url in the config file is no http or https address")
        hint = did_you_mean(value, config.servers) or "the config file has no servers"
        raise WrongUsage(f"no server is called {value!r}; {hint} (a URL begins with https://)")
    found = _GRAPH_URL.fullmatch(url)
    if found is not None:
        return GraphScope(_SERVER, found["server"], source, found["graph"], name, is_address=True)
    return GraphScope(_SERVER, url.rstrip("/"), source, server=name)


def _cluster(value: str, source: str, config: OperatorConfig) -> GraphScope:
    """A cluster by its name, or by its directory or storage root."""
    root = config.clusters.get(value, value)
    if not root:
        raise WrongUsage(f"clusters.{value} in the config file has no root")
    return GraphScope(_CLUSTER, root, source)


def _with_graph(
    scope: GraphScope, flags: AddressFlags, environment: Mapping[str, str]
) -> GraphScope:
    """The graph of `--graph`, which must fit the scope, or of the environment."""
    if flags.graph is not None:
        if not flags.graph:
            raise WrongUsage("--graph is empty")
        if scope.kind is _STORE:
            raise WrongUsage(
                f"--graph chooses a graph of a server or cluster, and {scope.target} is a graph "
                "itself"
            )
        if scope.is_address and scope.graph != flags.graph:
            address = f"{scope.target}/graphs/{scope.graph}"
            raise WrongUsage(f"two graphs are named: {address} and --graph {flags.graph}")
        return replace(scope, graph=flags.graph)
    if scope.kind is _SERVER and scope.graph is None and environment.get(GRAPH_VARIABLE):
        return replace(scope, graph=environment[GRAPH_VARIABLE])
    return scope


def _is_url(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def is_local(address: str) -> bool:
    """Whether an address is a path or `file://`."""
    return "://" not in address or address.lower().startswith("file://")
