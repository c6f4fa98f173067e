"""The options of a load, and its receipt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.model import Catalog
from omnigraph.commit.keyed_requests import fingerprint
from omnigraph.commit.request import CommitTerms
from omnigraph.errors import InvalidArgument, PolicyDenied
from omnigraph.load.input_files import TextForm
from omnigraph.load.modes import SHRINKING, LoadMode, LoadModes
from omnigraph.load.parsed_rows import BlobBases
from omnigraph.load.prepare_rows import MOST_REJECTED
from omnigraph.load.rejects import SKIPPED_BY_DEFAULT, RejectRules, usable_path
from omnigraph.load.sources import ReadOptions, Source
from omnigraph.manifest.publication import FINGERPRINT, REQUEST
from omnigraph.manifest.records import Commit, StreamBatch, TableChanges
from omnigraph.values.identifiers import EntityKind, TableKey

if TYPE_CHECKING:  # a worker that writes needs options, and no rules
    from omnigraph.scoping.write_scopes import WriterView


class OnError(StrEnum):
    """What a load does with rows that break a rule."""

    FAIL = "fail"
    """The load fails and changes nothing."""
    SKIP = "skip"
    """The load leaves these rows out, up to `LoadOptions.max_errors` of them."""

    @staticmethod
    def parse(text: str) -> OnError:
        try:
            return OnError(text)
        except ValueError:
            raise InvalidArgument(
                f"on_error is 'fail' or 'skip', not {text!r}", option="on_error"
            ) from None


@dataclass(frozen=True, slots=True)
class LoadOptions(CommitTerms):
    """How to read the input, and how to commit it."""

    _: KW_ONLY
    modes: LoadModes = field(default_factory=LoadModes)
    type_name: str | None = None
    columns: Mapping[str, str] | None = None
    """Name in the input -> property."""
    text: TextForm = field(default_factory=TextForm)
    """How text files are written."""
    stream_batch: StreamBatch | None = None
    """The batch of a stream. A batch that was committed before changes nothing."""
    on_error: OnError = OnError.FAIL
    max_errors: int | None = None
    """With `OnError.SKIP`: a load with more rejected rows fails; None is 1,000, 0 is a million."""
    rejects: str | os.PathLike[str] | None = None
    """A file that gets the rejected rows as NDJSON."""
    dry_run: bool = False
    """Check and count, but write and commit nothing."""
    before_commit: Callable[[LoadReceipt], object] | None = None
    """Called with the counts of the planned write; an exception that it raises stops the load."""
    view: WriterView | None = field(default=None, compare=False, repr=False)
    """What the input may name; None: everything."""

    def reject_rules(self) -> RejectRules:
        """What to do with rejected rows; refuses options that make no sense together."""
        path = None if self.rejects is None else usable_path(self.rejects)
        is_batch = self.stream_batch is not None
        if self.max_errors is not None and self.max_errors < 0:
            raise InvalidArgument(
                "max_errors is 0 or more; 0 allows a million rejected rows", option="max_errors"
            )
        if self.on_error is OnError.FAIL and self.max_errors is not None:
            raise InvalidArgument(
                "max_errors limits the rows that on_error='skip' leaves out; give both",
                option="max_errors",
            )
        if self.on_error is OnError.FAIL:
            return RejectRules(path=path, always_written=not is_batch)
        most = SKIPPED_BY_DEFAULT if self.max_errors is None else self.max_errors or MOST_REJECTED
        return RejectRules(True, most, path, always_written=not is_batch)

    def rules_for(self, catalog: Catalog) -> RejectRules:
        """`reject_rules`, which tell only what the writer may see of the graph."""
        rules = self.reject_rules()
        if self.view is None or not self.view.is_partial(catalog):
            return rules
        return replace(rules, named=self.view.named(catalog))

    def refuse_hidden_names(self, catalog: Catalog) -> None:
        """Refuse a load by workers, whose errors name all types and properties."""
        if self.view is not None and self.view.named(catalog) is not catalog:
            raise PolicyDenied(
                "a load on Spark names all types and properties, and the rules of this actor hide "
                "some: use engine='local'",
                action="change",
                branch=self.branch,
                actor_id=self.actor,
            )

    def with_content(self, sources: Sequence[Source]) -> LoadOptions:
        """These options with a fingerprint of the sources, all of which were read.

        The commit keeps it, so that a key that is used again for other data is refused.
        """
        digests = [source.digest() for source in sources if source.digest is not None]
        if self.idempotency_key is None or not digests or len(digests) < len(sources):
            return self
        modes = [self.modes.default, dict(self.modes.by_type), dict(self.modes.scopes)]
        asked = fingerprint("load", self.branch, modes, self.type_name, self.columns, digests)
        known = {**self.details.get(REQUEST, {}), FINGERPRINT: asked}
        return replace(self, details={**self.details, REQUEST: known})

    def reading(self, blobs: BlobBases, type_name: str | None = None) -> ReadOptions:
        """How the parsers read a source with this type; `blobs` says what its blobs may be."""
        mode = self.modes.default if type_name is None else self.modes.of_type(type_name)
        partial = mode is LoadMode.PATCH
        return ReadOptions(self.columns, blobs, self.text, partial)


@dataclass(frozen=True, slots=True)
class TypeCounts:
    """What a load did to the entities of one type.

    `entities_loaded` are the rows of the input. Each of them was inserted, updated an entity, or
    left the graph unchanged. Of several rows with one id, the last can change something.
    """

    name: str
    entities_loaded: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    """Stored entities that overwrite or mirror removed, because the input does not have them."""
    cascaded: int = 0
    """Edges that were removed because their node was, in a type that keeps its other edges."""
    properties_nulled: int = 0
    """Values of updated entities that were set to NULL."""


@dataclass(frozen=True, slots=True)
class LoadReceipt:
    """What a load did. `commit` is None when nothing changed."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    engine: str
    nodes: tuple[TypeCounts, ...]
    edges: tuple[TypeCounts, ...]
    commit: Commit | None
    engine_reason: str = ""
    """Why this engine ran."""
    repeated: bool = False
    """The idempotency key or the batch had been committed before; nothing was written."""
    rejected: int = 0
    """Rows that the load left out because they break a rule."""
    dry_run: bool = False
    """The counts say what the load would do; nothing was written."""

    @property
    def total_entities(self) -> int:
        """The rows of the input."""
        return sum(counts.entities_loaded for counts in (*self.nodes, *self.edges))

    @property
    def total_removed(self) -> int:
        """Entities that the load removed, by itself or by cascade."""
        return sum(counts.removed + counts.cascaded for counts in (*self.nodes, *self.edges))

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "nodes": [asdict(counts) for counts in self.nodes],
            "edges": [asdict(counts) for counts in self.edges],
            "total_entities": self.total_entities,
            "rejected": self.rejected,
            "commit": self.commit.to_dict() if self.commit else None,
            "repeated": self.repeated,
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """The counts of a load by type, as the two lists of a receipt."""

    nodes: tuple[TypeCounts, ...]
    edges: tuple[TypeCounts, ...]


def load_counts(
    loaded: Mapping[TableKey, int],
    changed: Iterable[TableChanges],
    nulled: Mapping[TableKey, int],
    modes: LoadModes,
) -> LoadCounts:
    """Counts from the rows of the input and from what the load changed in each table."""
    changes = {each.key: each for each in changed}
    found: dict[EntityKind, list[TypeCounts]] = {kind: [] for kind in EntityKind}
    for key in sorted({*loaded, *changes}):
        change = changes.get(key)
        rows = loaded.get(key, 0)
        inserted, updated, deleted = (
            (change.inserted, change.updated, change.deleted) if change else (0, 0, 0)
        )
        shrinks = key in loaded and modes.of(key) in SHRINKING
        found[key.kind].append(
            TypeCounts(
                key.type_name,
                entities_loaded=rows,
                inserted=inserted,
                updated=updated,
                unchanged=max(rows - inserted - updated, 0),
                removed=deleted if shrinks else 0,
                cascaded=0 if shrinks else deleted,
                properties_nulled=nulled.get(key, 0),
            )
        )
    return LoadCounts(tuple(found[EntityKind.NODE]), tuple(found[EntityKind.EDGE]))
