"""The policies of a server: one for each graph that has rules, and one for the server itself.

They are read again when their files change. Rules that cannot be used leave the old ones in force.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.errors import InvalidArgument, OmnigraphError, PolicyDenied
from omnigraph.policy.bundle import Bundle, BundleKind
from omnigraph.policy.policy import Policy, read_bundles

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyBundles:
    """The bundles of the graphs by id, and those of the server."""

    graphs: Mapping[str, Sequence[Bundle]] = field(default_factory=dict)
    server: Sequence[Bundle] = ()

    def __bool__(self) -> bool:
        return bool(self.graphs) or bool(self.server)


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The files of `--policy` and `--server-policy`."""

    graphs: Sequence[tuple[str, str]] = ()
    """Pairs of a graph id and a file."""
    server: Sequence[str] = ()

    def read(self) -> PolicyBundles:
        by_graph: dict[str, list[str]] = {}
        for graph_id, file in self.graphs:
            by_graph.setdefault(graph_id, []).append(file)
        graphs = {name: read_bundles(files) for name, files in by_graph.items()}
        return PolicyBundles(graphs, read_bundles(self.server, BundleKind.SERVER))

    def stamp(self) -> object:
        """Differs when a file was written."""
        return tuple(self._stamps())

    def _stamps(self) -> Iterator[tuple[int, int, int] | None]:
        for file in (*(file for _, file in self.graphs), *self.server):
            try:
                found = os.stat(file)  # noqa: PTH116 - called every 30 s, a plain path is enough
            except OSError:
                yield None
            else:
                yield found.st_mtime_ns, found.st_size, found.st_ino


class ServerPolicies:
    """The policies in force. `read` gives the bundles; a new `stamp` says that they changed."""

    def __init__(
        self, read: Callable[[], PolicyBundles], stamp: Callable[[], object] = lambda: None
    ) -> None:
        self._read = read
        self._stamp_now = stamp
        self._lock = threading.Lock()
        self._stamp = stamp()
        found = read()
        self._graphs = {name: Policy(given, name) for name, given in found.graphs.items()}
        self.server = Policy(found.server) if found.server else None
        """None: no rule grants an action on the server."""

    def __bool__(self) -> bool:
        return bool(self._graphs) or self.server is not None

    def of_graph(self, graph_id: str) -> Policy | None:
        return self._graphs.get(graph_id)

    def require_graphs(self, known: Sequence[str]) -> None:
        """Refuse a policy of a graph that is not served."""
        for name in self._graphs:
            if name not in known:
                raise InvalidArgument(
                    f"--policy names the graph {name!r}, which is not served; graphs: "
                    + ", ".join(known)
                )

    def require(self, actor: str | None, action: str) -> None:
        """Refuse an action on the server that no rule grants."""
        if self.server is None:
            raise PolicyDenied(
                f"{action} on the server needs a policy that grants it, and this server has none: "
                "start it with --server-policy",
                action=action,
                actor_id=actor,
            )
        self.server.require(actor, action, None, None)

    def allows(self, actor: str | None, action: str) -> bool:
        return self.server is not None and self.server.allows(actor, action, None)

    def reload(self) -> None:
        """Read the rules again; raises and keeps the old ones when they cannot be used."""
        with self._lock:
            stamp = self._stamp_now()
            found = self._read()
            # All rules are compiled before the first of them is put in force.
            for name, bundles in found.graphs.items():
                Policy(bundles, name)
            server = Policy(found.server) if found.server else None
            if self.server is not None and server is not None:
                self.server.replace(found.server)
            else:
                self.server = server
            # A policy in force keeps its place, because open handles ask it.
            for name, bundles in found.graphs.items():
                if name in self._graphs:
                    self._graphs[name].replace(bundles)
            self._graphs = {
                name: self._graphs.get(name) or Policy(bundles, name)
                for name, bundles in found.graphs.items()
            }
            self._stamp = stamp

    def reload_if_changed(self) -> bool:
        """Look at the files; True when other rules are in force now."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return False
        try:
            self.reload()
        except OmnigraphError as error:
            self._stamp = stamp
            logger.warning("policy not reloaded, the old rules stay: %s", error.message)
            return False
        logger.info("policy reloaded")
        return True
