"""The graphs of a server."""

from __future__ import annotations

from omnigraph.errors import PolicyDenied
from omnigraph.remote.address import RemoteAddress
from omnigraph.remote.client import Client
from omnigraph.remote.exchanges import get, json_of
from omnigraph.settings.models import ClientSettings


def list_graphs(server: str, token: str | None, settings: ClientSettings) -> list[str]:
    """Ids of the graphs of a server; none if the token may not list them."""
    client = Client(RemoteAddress(server, ""), token, settings)
    try:
        answer = client.send(get("/graphs"))
        return [str(graph["graph_id"]) for graph in json_of(answer)["graphs"]]
    except PolicyDenied:
        return []
    finally:
        client.close()
