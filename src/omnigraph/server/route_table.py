"""All routes of the server. The entry of a route stands in `routes`, behind its handler."""

from __future__ import annotations

from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.routes.agents import AGENT_ROUTES
from omnigraph.server.routes.blobs import BLOB_ROUTES
from omnigraph.server.routes.branches import BRANCH_ROUTES
from omnigraph.server.routes.exports import EXPORT_ROUTES
from omnigraph.server.routes.feeds import FEED_ROUTES
from omnigraph.server.routes.graph_methods import METHOD_ROUTES
from omnigraph.server.routes.history import HISTORY_ROUTES
from omnigraph.server.routes.loads import LOAD_ROUTES
from omnigraph.server.routes.long_work import OPERATION_ROUTES
from omnigraph.server.routes.mutations import MUTATION_ROUTES
from omnigraph.server.routes.queries import QUERY_ROUTES
from omnigraph.server.routes.schemas import SCHEMA_ROUTES
from omnigraph.server.routes.server_wide import SERVER_ROUTES
from omnigraph.server.routes.stored_queries import STORED_QUERY_ROUTES
from omnigraph.server.routes.upkeep import UPKEEP_ROUTES

ROUTES: tuple[RouteEntry, ...] = (
    *QUERY_ROUTES,
    *STORED_QUERY_ROUTES,
    *MUTATION_ROUTES,
    *SCHEMA_ROUTES,
    *BRANCH_ROUTES,
    *HISTORY_ROUTES,
    *UPKEEP_ROUTES,
    *OPERATION_ROUTES,
    *METHOD_ROUTES,
    *LOAD_ROUTES,
    *EXPORT_ROUTES,
    *FEED_ROUTES,
    *BLOB_ROUTES,
    *AGENT_ROUTES,
    *SERVER_ROUTES,
)
