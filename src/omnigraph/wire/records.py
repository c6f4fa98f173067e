"""Every record that `Graph` returns, as JSON over HTTP and back.

The JSON of a record is its `to_dict()` with the members that a reader needs to make the record
again. A record whose members are its fields needs no special code: `record_from_json` reads its
fields by their declared types.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from omnigraph.commit.request import WriteReceipt
from omnigraph.diff.change import Change, ChangePage
from omnigraph.evolve.apply import SchemaResult
from omnigraph.evolve.plan import SchemaPlan
from omnigraph.evolve.stored_plans import plan_from_json
from omnigraph.feed import FeedBlock, FeedPage
from omnigraph.graph.schema_changes import SchemaDiff, SchemaVersion
from omnigraph.maintain.garbage import Removal
from omnigraph.manifest.records import Commit, RecoveryAudit
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.conflicts import Conflict, MergePreview
from omnigraph.schema.read_steps import planned_step_from_json
from omnigraph.schema.steps import PlannedStep
from omnigraph.stored_queries.entries import QueryValidation, StoredParameter, StoredQuery
from omnigraph.vectors.embedder import EmbedReceipt
from omnigraph.wire import changes, commits, schema_plans

Json = dict[str, Any]
_R = TypeVar("_R")

_FILE_NAMES = "file_names"


def record_to_json(record: Any) -> Json:
    """The JSON object of a record."""
    write = _WRITERS.get(type(record))
    return write(record) if write is not None else _plain_record(record)


def record_from_json(kind: type[_R], data: Mapping[str, Any]) -> _R:
    """The record of class `kind` that `record_to_json` wrote."""
    read = _READERS.get(kind)
    return cast("_R", read(data) if read is not None else _read_fields(kind, data))


def _plain_record(record: Any) -> Json:
    found: Json = record.to_dict() if hasattr(record, "to_dict") else {}
    return found | {field.name: _plain(getattr(record, field.name)) for field in fields(record)}


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _ if is_dataclass(value):
            return record_to_json(value)
        case _:
            return value


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read_fields(kind: Any, data: Mapping[str, Any]) -> Any:
    """A field that the sender did not write keeps its default."""
    declared = _types_of(kind)
    given = {
        field.name: _read(declared[field.name], data[field.name])
        for field in fields(kind)
        if field.name in data
    }
    return kind(**given)


def _read(declared: Any, value: Any) -> Any:
    if value is None:
        return None
    if get_origin(declared) in (Union, types.UnionType):
        return _read(next(t for t in get_args(declared) if t is not type(None)), value)
    if get_origin(declared) is tuple:
        return tuple(_read(get_args(declared)[0], item) for item in value)
    if isinstance(declared, type):
        if is_dataclass(declared):
            return record_from_json(declared, value)
        if issubclass(declared, Enum):
            return declared(value)
    return value


def _removal_to_json(removal: Removal) -> Json:
    return {**removal.to_dict(), _FILE_NAMES: list(removal.files)}


def _removal_from_json(data: Mapping[str, Any]) -> Removal:
    versions, files = tuple(data["versions"]), tuple(data[_FILE_NAMES])
    return Removal(data["kind"], data["place"], versions, files, data["bytes"])


def _embed_receipt_to_json(receipt: EmbedReceipt) -> Json:
    return {**receipt.to_dict(), **record_to_json(receipt.write)}


def _embed_receipt_from_json(data: Mapping[str, Any]) -> EmbedReceipt:
    return EmbedReceipt(
        record_from_json(WriteReceipt, data),
        data["embedded"],
        data["requested"],
        data["resumed"],
        data["engine"],
    )


_WRITERS: dict[type, Callable[[Any], Json]] = {
    AcceptedSchema: schema_plans.accepted_schema_to_json,
    Change: changes.change_to_json,
    ChangePage: changes.change_page_to_json,
    Commit: commits.commit_to_json,
    Conflict: changes.conflict_to_json,
    EmbedReceipt: _embed_receipt_to_json,
    FeedBlock: changes.feed_block_to_json,
    FeedPage: changes.feed_page_to_json,
    MergePreview: changes.merge_preview_to_json,
    PlannedStep: PlannedStep.to_dict,
    QueryValidation: QueryValidation.to_dict,
    RecoveryAudit: RecoveryAudit.to_dict,
    Removal: _removal_to_json,
    SchemaDiff: SchemaDiff.to_dict,
    SchemaPlan: schema_plans.schema_plan_to_json,
    SchemaResult: schema_plans.schema_result_to_json,
    SchemaVersion: schema_plans.schema_version_to_json,
    Snapshot: commits.snapshot_to_json,
    StoredParameter: StoredParameter.to_dict,
    StoredQuery: StoredQuery.to_dict,
    Tag: commits.tag_to_json,
}

_READERS: dict[type, Callable[[Mapping[str, Any]], Any]] = {
    AcceptedSchema: schema_plans.accepted_schema_from_json,
    Change: changes.change_from_json,
    ChangePage: changes.change_page_from_json,
    Commit: commits.commit_from_json,
    Conflict: changes.conflict_from_json,
    EmbedReceipt: _embed_receipt_from_json,
    FeedBlock: changes.feed_block_from_json,
    FeedPage: changes.feed_page_from_json,
    MergePreview: changes.merge_preview_from_json,
    PlannedStep: planned_step_from_json,
    RecoveryAudit: commits.audit_from_json,
    Removal: _removal_from_json,
    SchemaDiff: schema_plans.schema_diff_from_json,
    SchemaPlan: plan_from_json,
    SchemaResult: schema_plans.schema_result_from_json,
    SchemaVersion: schema_plans.schema_version_from_json,
    Snapshot: commits.snapshot_from_json,
    Tag: commits.tag_from_json,
}
