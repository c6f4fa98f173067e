"""The records of the manifest: frozen data, each with a JSON form."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from omnigraph.lance_store.store import DatasetVersion
from omnigraph.values.identifiers import TableKey
from omnigraph.values.temporal import moment_of, write_micros

Json = dict[str, Any]

PIPELINE = "pipeline"
CARRIED = "carried"
"""Subjects of `Commit.details`."""


@dataclass(frozen=True, slots=True)
class TablePin:
    """The version of a dataset that is visible for a type.

    `owner` is the incarnation of the branch that may write this physical branch; another branch
    forks the table first. `content_epoch` is the commit that last changed rows. Compaction and
    index builds move `version` and keep the epoch, so they never make a user's write fail.
    """

    key: TableKey
    location: str
    branch: str | None
    version: int
    row_count: int
    owner: str
    content_epoch: str

    @property
    def at(self) -> DatasetVersion:
        return DatasetVersion(self.location, self.branch, self.version)

    def moved_to(self, version: int) -> TablePin:
        """The same rows at another physical version."""
        return replace(self, version=version)

    def changed_to(self, version: int, row_count: int, content_epoch: str) -> TablePin:
        """Other rows."""
        return replace(self, version=version, row_count=row_count, content_epoch=content_epoch)

    def to_json(self) -> Json:
        # Spelled out: `asdict` copies deeply, and every commit writes pins several times.
        return {
            "key": str(self.key),
            "location": self.location,
            "branch": self.branch,
            "version": self.version,
            "row_count": self.row_count,
            "owner": self.owner,
            "content_epoch": self.content_epoch,
        }

    @staticmethod
    def from_json(data: Json) -> TablePin:
        return TablePin(**{**data, "key": TableKey.parse(data["key"])})


@dataclass(frozen=True, slots=True)
class PinChange:
    """One table's pin around a commit; None before = created, None after = dropped."""

    before: TablePin | None
    after: TablePin | None

    def to_json(self) -> Json:
        return {
            "before": self.before.to_json() if self.before else None,
            "after": self.after.to_json() if self.after else None,
        }

    @staticmethod
    def from_json(data: Json) -> PinChange:
        before, after = data["before"], data["after"]
        return PinChange(
            TablePin.from_json(before) if before else None,
            TablePin.from_json(after) if after else None,
        )


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The entities of one table that a commit changed: their ids, or the file that lists them."""

    key: TableKey
    inserted: int
    updated: int
    deleted: int
    ids: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None
    file: str | None = None

    @property
    def is_listed(self) -> bool:
        """False for a rewritten column: the changes of all rows are not listed by id."""
        return self.ids is not None or self.file is not None

    def to_json(self) -> Json:
        return {
            "key": str(self.key),
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "ids": self.ids,
            "file": self.file,
        }

    @staticmethod
    def from_json(data: Json) -> TableChanges:
        inserted, updated, deleted = data["ids"] or ((), (), ())
        return TableChanges(
            TableKey.parse(data["key"]),
            data["inserted"],
            data["updated"],
            data["deleted"],
            (tuple(inserted), tuple(updated), tuple(deleted)) if data["ids"] else None,
            data["file"],
        )


def lists_to_json(lists: tuple[TableChanges, ...] | None) -> list[Json] | None:
    return None if lists is None else [changes.to_json() for changes in lists]


def lists_from_json(data: list[Json] | None) -> tuple[TableChanges, ...] | None:
    return None if data is None else tuple(TableChanges.from_json(item) for item in data)


class Dated:
    """The moment of a record, `created_at` in microseconds, in its two readable forms."""

    __slots__ = ()
    created_at: int

    @property
    def created(self) -> dt.datetime:
        """`created_at` as a datetime in UTC."""
        return moment_of(self.created_at)

    @property
    def created_at_rfc3339(self) -> str:
        return write_micros(self.created_at)


@dataclass(frozen=True, slots=True)
class RecoveryAudit(Dated):
    """What a recovery found and did. Its commit carries it, so both become visible together."""

    operation_id: str
    recovery_kind: str
    operation_kind: str
    recovery_for_actor: str | None
    graph_branch: str
    graph_commit_id: str | None
    tables: Mapping[str, str] = field(hash=False)
    """The state each table was found in: `node:Person` -> `RolledPastExpected`."""
    created_at: int

    def to_dict(self) -> Json:
        return {**self.to_json(), "created_at_rfc3339": self.created_at_rfc3339}

    def to_json(self) -> Json:
        return asdict(self)

    @staticmethod
    def from_json(data: Json) -> RecoveryAudit:
        return RecoveryAudit(**data)


def _runs_of(details: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    runs = [details.get(PIPELINE), *details.get(CARRIED, {}).values()]
    return [run for run in runs if run]


@dataclass(frozen=True, slots=True)
class Commit(Dated):
    """One step of a branch's history."""

    graph_commit_id: str
    graph_branch: str
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    message: str | None
    operation: str
    created_at: int
    schema_id: str
    pins: tuple[PinChange, ...] = field(default=(), repr=False)
    changes: tuple[TableChanges, ...] = field(default=(), repr=False)
    idempotency_key: str | None = None
    recovery: RecoveryAudit | None = None
    merged_history: str | None = None
    """The `__history` page of the commits that a merge brought in.

    With it the ancestors of a head can be found after the merged branch was deleted.
    """
    equals_merged: bool = False
    """A fast-forward: the content is exactly that of the merged parent."""
    differs_from_merged: tuple[TableChanges, ...] | None = field(default=None, repr=False)
    """Ids in which a merge may differ from its merged parent; None when they are not known.

    `changes` are the differences from the first parent, these are the differences from the other
    one. The next merge of the two branches starts from them. All ids count as updated.
    """
    details: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """What the operation recorded about itself, as JSON by subject.

    `pipeline` has the sources and positions of a pipeline run. `carried` has them for streams
    whose mark a merge brought, by stream. `request` has the fingerprint of a request with an
    idempotency key.
    """

    @property
    def pipeline_runs(self) -> list[Mapping[str, Any]]:
        """The run of a pipeline that made the commit, or the runs that a merge brought."""
        return _runs_of(self.details)

    def to_dict(self) -> Json:
        """The commit object of the CLI and HTTP."""
        shown = {**self._shown_fields(), "created_at_rfc3339": self.created_at_rfc3339}
        return {**shown, "details": dict(self.details)} if self.details else shown

    def _shown_fields(self) -> Json:
        return {
            "graph_commit_id": self.graph_commit_id,
            "graph_branch": self.graph_branch,
            "graph_manifest_version": self.graph_manifest_version,
            "parent_commit_id": self.parent_commit_id,
            "merged_parent_commit_id": self.merged_parent_commit_id,
            "actor_id": self.actor_id,
            "message": self.message,
            "operation": self.operation,
            "created_at": self.created_at,
        }

    def to_json(self) -> Json:
        return {
            **self._shown_fields(),
            "schema_id": self.schema_id,
            "pins": [p.to_json() for p in self.pins],
            "changes": [c.to_json() for c in self.changes],
            "idempotency_key": self.idempotency_key,
            "recovery": self.recovery.to_json() if self.recovery else None,
            "merged_history": self.merged_history,
            "equals_merged": self.equals_merged,
            "differs_from_merged": lists_to_json(self.differs_from_merged),
            **({"details": dict(self.details)} if self.details else {}),
        }

    @staticmethod
    def from_json(data: Json) -> Commit:
        return Commit(
            **{
                **data,
                "pins": tuple(PinChange.from_json(p) for p in data["pins"]),
                "changes": tuple(TableChanges.from_json(c) for c in data["changes"]),
                "recovery": RecoveryAudit.from_json(data["recovery"]) if data["recovery"] else None,
                "differs_from_merged": lists_from_json(data.get("differs_from_merged")),
            }
        )


@dataclass(frozen=True, slots=True)
class CommitReferences:
    """Objects outside of the commit log that a commit names."""

    schema_id: str
    merged_history: str | None
    listed_files: tuple[str, ...]
    """Files with lists that were too long for the commit row: of ids, or of processed files."""


@dataclass(frozen=True)
class StoredCommit:
    """A commit as the manifest holds it: JSON text that is parsed on first use.

    Every publish writes all recent commits again. Keeping the text makes that a copy.
    """

    commit_id: str
    parents: tuple[str, ...]
    text: str

    @cached_property
    def commit(self) -> Commit:
        return Commit.from_json(json.loads(self.text))

    @property
    def references(self) -> CommitReferences:
        """Read without building a `Commit`, because cleanup needs this of every commit."""
        data = json.loads(self.text)
        lists = (*data["changes"], *(data.get("differs_from_merged") or ()))
        files = [item["file"] for item in lists if item["file"] is not None]
        runs = _runs_of(data.get("details") or {})
        files += [name for run in runs for name in run.get("lists", ())]
        return CommitReferences(data["schema_id"], data.get("merged_history"), tuple(files))

    @staticmethod
    def of(commit: Commit) -> StoredCommit:
        text = json.dumps(commit.to_json(), ensure_ascii=False, separators=(",", ":"))
        parents = (commit.parent_commit_id, commit.merged_parent_commit_id)
        stored = StoredCommit(commit.graph_commit_id, tuple(p for p in parents if p), text)
        stored.__dict__["commit"] = commit  # the next commit asks for it, and need not parse it
        return stored


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A numbered batch of a stream. Batches come in order and may come more than once."""

    stream: str
    batch: int


@dataclass(frozen=True, slots=True)
class StreamMark:
    """The last batch of a stream on a branch, and the commit that holds it."""

    batch: int
    commit_id: str


def stream_details(commit: Commit, stream: str) -> Mapping[str, Any] | None:
    """What the run of a pipeline recorded: in its own commit, or in a merge that brought it."""
    carried = commit.details.get(CARRIED, {}).get(stream)
    if carried is not None:
        return dict(carried)
    own = commit.details.get(PIPELINE)
    return dict(own) if own is not None and own.get("stream") == stream else None


@dataclass(frozen=True, slots=True)
class HistorySegment:
    """A reference to an immutable `__history` object: commits (level 0) or other segments."""

    segment_id: str
    level: int
    count: int
    first_created_at: int
    last_created_at: int
    keyed: bool
    """At least one commit in it has an idempotency key."""

    def to_json(self) -> Json:
        return {
            "segment_id": self.segment_id,
            "level": self.level,
            "count": self.count,
            "first_created_at": self.first_created_at,
            "last_created_at": self.last_created_at,
            "keyed": self.keyed,
        }

    @staticmethod
    def from_json(data: Json) -> HistorySegment:
        return HistorySegment(**data)


@dataclass(frozen=True, slots=True)
class BranchRef:
    """A branch: its name, its physical manifest branch, and the branch it was forked from."""

    name: str
    incarnation: str
    forked_from: str | None
    created_at: int

    @property
    def physical_branch(self) -> str | None:
        return None if self.incarnation == "main" else self.incarnation


MAIN_REF = BranchRef("main", "main", None, 0)
