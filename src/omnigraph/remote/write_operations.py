"""Writes of a graph on a server: mutations, edits, loads, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from ulid import ULID

from omnigraph.commit.request import WriteReceipt
from omnigraph.errors import InvalidArgument, LanguageError
from omnigraph.graph.reads import QuerySource
from omnigraph.mutate.mutation import MutationReceipt
from omnigraph.remote.exchanges import Exchange, RemoteRequest, asked, post
from omnigraph.remote.read_operations import labelled, query_members
from omnigraph.values.json_values import json_value
from omnigraph.values.known_names import LOCAL, require_engine
from omnigraph.vectors.embedder import EmbedReceipt
from omnigraph.wire.records import record_from_json

CONDITION = "Omnigraph-If-Graph-Commit"


def new_key() -> str:
    """The key that the client makes for a write, so that it may send the write again."""
    return f"client-{ULID()}"


def write(path: str, body: Mapping[str, Any], key: str | None, **more: Any) -> RemoteRequest:
    """A write that may be repeated, because it has an idempotency key."""
    return post(path, body, writes=True, key=key or new_key(), **more)


def mutate(
    source: QuerySource,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    message: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
) -> Exchange[MutationReceipt]:
    text, members = query_members(source, name, params)
    body = {**members, "branch": branch, "message": message}
    request = write("/mutate", body, idempotency_key)
    if if_commit is not None:
        headers = {CONDITION: if_commit}
        request = write("/mutate/if-graph-commit", body, idempotency_key, headers=headers)
    try:
        found = yield from asked(request)
    except LanguageError as error:
        raise labelled(error, text) from None
    return record_from_json(MutationReceipt, found)


def apply(
    edits: Mapping[str, Any],
    branch: str,
    message: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
) -> Exchange[WriteReceipt]:
    body = {
        "edits": {name: _edit(name, edit) for name, edit in edits.items()},
        "branch": branch,
        "message": message,
        "if_commit": if_commit,
    }
    found = yield from asked(write("/apply", body, idempotency_key))
    return record_from_json(WriteReceipt, found)


def _edit(type_name: str, edit: Any) -> dict[str, Any]:
    parts = {name: getattr(edit, name, None) for name in ("insert", "upsert", "delete")}
    if isinstance(edit, Mapping):
        unknown = set(edit) - parts.keys()
        if unknown:
            raise InvalidArgument(
                f"{type_name}: {sorted(unknown)} is none of insert, upsert, delete"
            )
        parts |= edit
    elif not hasattr(edit, "upsert"):
        raise InvalidArgument(f"{type_name}: expected an Edit or a dict of insert, upsert, delete")
    return {name: _rows(rows) for name, rows in parts.items() if rows is not None and len(rows)}


def _rows(rows: Any) -> list[Any]:
    plain = rows.to_pylist() if isinstance(rows, pa.Table) else list(rows)
    return [json_value(row) for row in plain]


def embed(
    branch: str, types: Sequence[str] | None, message: str | None, engine: str
) -> Exchange[EmbedReceipt]:
    require_engine(engine, "embed")
    body = {
        "branch": branch,
        "types": None if types is None else list(types),
        "message": message,
        "engine": None if engine == LOCAL else engine,
    }
    # Repeating is safe without a key: vectors that are there already are not made again.
    request = post("/embed", body, writes=True, is_long=True)
    found = yield from asked(request)
    return record_from_json(EmbedReceipt, found)
