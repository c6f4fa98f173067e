"""The cluster of a server: the revision in force, and the change to a newer one.

A newer revision is read and checked as a whole before anything of it is served. One that cannot be
served leaves the old one in force.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.cluster.serving import ServingRevision, read_revision, serving_root
from omnigraph.errors import OmnigraphError
from omnigraph.server.policies import PolicyBundles, ServerPolicies
from omnigraph.server.served_graphs import ServedChanges, ServedGraphs


class ClusterSource:
    """Where the applied revision is read from."""

    def __init__(self, place: str, environment: Mapping[str, str]) -> None:
        self._root = serving_root(place, environment)
        self._environment = environment
        self.revision = read_revision(self._root, environment)
        self.refused: str | None = None
        """Why the newest revision is not served."""

    def bundles(self) -> PolicyBundles:
        """The rules of the revision in force."""
        return PolicyBundles(self.revision.graph_bundles, self.revision.server_bundles)

    def stamp(self) -> object:
        """Rules change only with the revision, by `change_to`."""
        return None

    def newest(self) -> ServingRevision:
        """The revision that is applied now; raises `ClusterRefused` if it cannot be served."""
        return read_revision(self._root, self._environment)

    def has_moved(self) -> bool:
        """Whether another revision was applied; one request."""
        return self._root.read_ledger().cas != self.revision.cas

    def change_to(
        self, revision: ServingRevision, policies: ServerPolicies, graphs: ServedGraphs
    ) -> ServedChanges:
        """Serve another revision: its rules first, so that no graph is open without them."""
        before, self.revision = self.revision, revision
        try:
            policies.reload()
        except OmnigraphError:
            self.revision = before
            raise
        return graphs.serve(revision.graphs.values())
