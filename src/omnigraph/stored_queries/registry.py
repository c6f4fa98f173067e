"""The stored queries of one graph: sources that are compiled again whenever the schema moves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from omnigraph.catalog.identity import fingerprint
from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.stored_queries.entries import (
    CompiledSources,
    QueryValidation,
    StoredQuery,
    StoredSource,
    compile_sources,
)
from omnigraph.syntax.source_text import read_source_file
from omnigraph.values.bounded_cache import BoundedCache

QUERY_FILES = "*.gq"
_KEPT_SCHEMAS = 16

QueryPlace = str | os.PathLike[str] | Sequence[StoredSource]
"""A directory of `.gq` files, one such file, or sources that were read already."""
_Reader = Callable[[], tuple[StoredSource, ...]]


class QueryRegistry:
    """Sources of stored queries. Handles of one graph share it, and it may be replaced at work."""

    def __init__(self, place: QueryPlace = ()) -> None:
        self._lock = threading.Lock()
        self._read: _Reader = lambda: ()
        self._sources: tuple[StoredSource, ...] = ()
        self._compiled: BoundedCache[str, _Compiled] = BoundedCache(_KEPT_SCHEMAS)
        self.replace(place)

    @property
    def sources(self) -> tuple[StoredSource, ...]:
        return self._sources

    def replace(self, place: QueryPlace) -> None:
        """Take other sources from now on. Those of before stay if these cannot be read."""
        if isinstance(place, str | os.PathLike):
            self._take(lambda: read_sources(place))
        else:
            given = tuple(place)
            self._take(lambda: given)

    def reload(self, catalog: Catalog) -> QueryValidation:
        """Read the directory again. Queries that do not compile leave those of before."""
        sources = self._read()
        found = compile_sources(sources, catalog).validation
        if found.ok:
            self._take(lambda: sources, self._read)
        return found

    def _take(self, read: _Reader, later: _Reader | None = None) -> None:
        sources = read()
        with self._lock:
            self._read = later or read
            if sources != self._sources:
                self._sources = sources
                self._compiled.clear()

    def compiled(self, catalog: Catalog) -> CompiledSources:
        """All queries under a schema; compiled once for each schema."""
        return self._with(catalog).found

    def knows(self, name: str, catalog: Catalog) -> bool:
        """Whether there is such a query, also if it does not fit the schema."""
        found = self._with(catalog)
        return name in found.by_name or any(
            broken.query == name for broken in found.found.validation.breakages
        )

    def find(self, name: str, catalog: Catalog) -> StoredQuery | None:
        return self._with(catalog).by_name.get(name)

    def _with(self, catalog: Catalog) -> _Compiled:
        key = fingerprint(catalog)
        found = self._compiled.get(key)
        if found is not None:
            return found
        with self._lock:
            found = _Compiled(compile_sources(self._sources, catalog))
            self._compiled.put(key, found)
            return found


class _Compiled:
    """The queries under one schema, also by name."""

    def __init__(self, found: CompiledSources) -> None:
        self.found = found
        self.by_name = {query.name: query for query in found.queries}


def read_sources(place: str | os.PathLike[str]) -> tuple[StoredSource, ...]:
    """The `.gq` files of a directory in the order of their names, or one file."""
    path = Path(place).expanduser()
    if path.is_dir():
        files = sorted(file for file in path.glob(QUERY_FILES) if file.is_file())
        return tuple(StoredSource(read_source_file(file)) for file in files)
    if not path.exists():
        raise NotFound(f"there is no directory {path} with stored queries", file=str(path))
    if path.suffix != ".gq":
        raise InvalidArgument(
            f"{path} is no .gq file: stored queries are a directory of .gq files, or one of them",
            file=str(path),
        )
    return (StoredSource(read_source_file(path)),)
