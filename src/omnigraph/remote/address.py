"""The address of a graph on a server: `http://host/graphs/people`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from omnigraph.errors import InvalidArgument

_GRAPH = re.compile(r"(?P<prefix>.*)/graphs/(?P<graph>[a-zA-Z0-9-]{1,64})/?")
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """A server and a graph of it; an empty id is the server itself."""

    server: str
    graph_id: str

    @property
    def url(self) -> str:
        return f"{self.server}/graphs/{self.graph_id}" if self.graph_id else self.server


def is_remote(uri: str | os.PathLike[str]) -> bool:
    """Whether an address names a graph on a server and not a store."""
    return isinstance(uri, str) and uri.lower().startswith(tuple(f"{s}://" for s in _SCHEMES))


def parse_address(url: str) -> RemoteAddress:
    """Take an address apart; tokens, queries and other paths in it are refused."""
    server = parse_server(url)
    found = _GRAPH.fullmatch(urlsplit(url).path)
    if found is None:
        raise InvalidArgument(
            f"{url} names no graph of a server: write {server}/graphs/ID", uri=url
        )
    return RemoteAddress(parse_server(url, found["prefix"]), found["graph"])


def parse_server(url: str, prefix: str = "") -> str:
    """`http://host:port` with the path `prefix`, after a check of the other parts."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidArgument(f"this is no http or https address: {error}") from None
    if parts.username is not None or parts.password is not None:
        # The address is printed and logged, so it must not hold a secret. It is not repeated here.
        raise InvalidArgument("an address must not hold a name or password; give token=…")
    if parts.scheme.lower() not in _SCHEMES or not parts.hostname or not _has_good_port(parts):
        raise InvalidArgument(f"{url} is no http or https address", uri=url)
    if parts.query or parts.fragment:
        raise InvalidArgument(f"{url} has more than an address: remove ?… and #…", uri=url)
    if any(unquote(segment) in (".", "..") for segment in parts.path.split("/")):
        # The client would shorten such a path after the token for it was chosen.
        raise InvalidArgument(f"{url} has `.` or `..` in its path: write the path itself", uri=url)
    return f"{parts.scheme.lower()}://{parts.netloc}{prefix.rstrip('/')}"


def parse_graph_server(url: str) -> str:
    """The address of a server itself, whose path may be a prefix."""
    parse_server(url)
    return parse_server(url, urlsplit(url).path)


def _has_good_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False
