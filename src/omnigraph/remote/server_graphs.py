"""Calls of a server itself: its health, and its graphs."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from omnigraph.errors import PolicyDenied
from omnigraph.remote.address import RemoteAddress
from omnigraph.remote.client import Client
from omnigraph.remote.exchanges import get, json_of
from omnigraph.settings.models import ClientSettings


def server_graphs(server: str, token: str | None, settings: ClientSettings) -> dict[str, Any]:
    """What `GET /graphs` tells: `graphs`, and `quarantined` with reasons."""
    with closing(Client(RemoteAddress(server, ""), token, settings)) as client:
        found: dict[str, Any] = json_of(client.send(get("/graphs")))
        return found


def list_graphs(server: str, token: str | None, settings: ClientSettings) -> list[str]:
    """Ids of the graphs of a server; none if the token may not list them."""
    try:
        found = server_graphs(server, token, settings)
    except PolicyDenied:
        return []
    return [str(graph["graph_id"]) for graph in found["graphs"]]


def check_token(server: str, token: str, settings: ClientSettings) -> None:
    """Raise unless a server answers and knows the token.

    The token is sent only after the server has answered as one. A token that may not list graphs
    is known, too.
    """
    with closing(Client(RemoteAddress(server, ""), None, settings)) as client:
        json_of(client.send(get("/healthz")))
    list_graphs(server, token, settings)
