"""Names and shapes of what the cache directory holds: sorted ids, storage order, neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.execute.topology.cache_files import Array, CacheFiles
from omnigraph.execute.topology.kernels import Ints, Offsets
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.settings.models import ReadSettings

# Below this many rows reading and sorting is as fast as mapping a file.
SMALLEST_TABLE = 20_000


@dataclass(frozen=True, slots=True)
class ContentName:
    """Rows of one table as one commit left them, whatever version holds them on disk.

    The epoch is the unique id of a commit, so a graph made anew at the same place has other names.
    """

    graph: str
    location: str
    epoch: str

    def __str__(self) -> str:
        return f"{self.graph}#{self.location}#{self.epoch}"


class StoredTopology:
    """Reads and keeps the large pieces; small ones are not worth a file."""

    def __init__(self, files: CacheFiles, smallest: int = SMALLEST_TABLE) -> None:
        self._files = files
        self._smallest = smallest

    @property
    def keeps_files(self) -> bool:
        return self._files.enabled

    def has_ids(self, name: ContentName) -> bool:
        return self._files.has(f"ids#{name}")

    def has_neighbours(self, names: tuple[ContentName, ...]) -> bool:
        return any(self._files.has(_neighbours_name(names, way)) for way in ("out", "into"))

    def ids(self, name: ContentName, count: int) -> pa.Array | None:
        if count < self._smallest:
            return None
        arrays = self._files.load(f"ids#{name}")
        if arrays is None or len(arrays["offsets"]) != count + 1:
            return None
        buffers = [None, pa.py_buffer(arrays["offsets"]), pa.py_buffer(arrays["text"])]
        return pa.Array.from_buffers(pa.string(), count, buffers)

    def keep_ids(self, name: ContentName, ids: pa.Array) -> None:
        if len(ids) < self._smallest or not self._files.enabled or ids.type != pa.string():
            return
        _, offsets, text = ids.buffers()
        starts = np.frombuffer(offsets, np.int32, len(ids) + 1, ids.offset * 4)
        letters = np.frombuffer(text, np.uint8)[starts[0] : starts[-1]]
        self._files.save(f"ids#{name}", {"offsets": starts - starts[0], "text": letters})

    def order(
        self, name: ContentName, at: DatasetVersion, count: int
    ) -> tuple[pa.Array | None] | None:
        """(storage row of each position, None for id order); None when it is not known."""
        if count < self._smallest:
            return None
        arrays = self._files.load(f"order#{name}#{at}")
        if arrays is None or len(arrays["order"]) not in (0, count):
            return None
        order = arrays["order"]
        return (pa.array(order) if len(order) else None,)

    def keep_order(
        self, name: ContentName, at: DatasetVersion, count: int, order: pa.Array | None
    ) -> None:
        if count >= self._smallest and self._files.enabled:
            rows: Ints = np.empty(0, np.int32) if order is None else order.to_numpy()
            self._files.save(f"order#{name}#{at}", {"order": rows})

    def neighbours(
        self, names: tuple[ContentName, ...], direction: str, edges: int, nodes: int
    ) -> tuple[Offsets, Ints, Ints] | None:
        if edges < self._smallest:
            return None
        arrays = self._files.load(_neighbours_name(names, direction))
        if arrays is None or len(arrays["offsets"]) != nodes + 1:
            return None
        return arrays["offsets"], arrays["nodes"], arrays["edges"]

    def keep_neighbours(
        self,
        names: tuple[ContentName, ...],
        direction: str,
        offsets: Offsets,
        nodes: Ints,
        edges: Ints,
    ) -> None:
        if len(nodes) >= self._smallest and self._files.enabled:
            arrays: dict[str, Array] = {"offsets": offsets, "nodes": nodes, "edges": edges}
            self._files.save(_neighbours_name(names, direction), arrays)


def open_stored_topology(settings: ReadSettings, environment: Mapping[str, str]) -> StoredTopology:
    """Where settings or `OMNIGRAPH_CACHE_DIR` say; an empty value of that turns files off."""
    chosen = settings.cache_directory
    if chosen is None:
        chosen = environment.get("OMNIGRAPH_CACHE_DIR")
    if chosen is None:
        home = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        chosen = f"{home}/omnigraph"
    directory = Path(chosen) / "topology" if chosen else None
    return StoredTopology(CacheFiles(directory, settings.cache_file_bytes))


def _neighbours_name(names: tuple[ContentName, ...], direction: str) -> str:
    edges, sources, targets = names
    return (
        f"{direction}#{edges}#{sources.location}#{sources.epoch}#{targets.location}#{targets.epoch}"
    )
