"""The stored queries of a graph on a server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from omnigraph.execute.query_types import QueryResult
from omnigraph.manifest.commit_graph import CommitName, name_text
from omnigraph.mutate.mutation import MutationReceipt
from omnigraph.remote.exchanges import Exchange, asked, get, json_of, post, segment
from omnigraph.remote.read_operations import kept_rows, millis, require_wanted, state
from omnigraph.remote.write_operations import CONDITION, write
from omnigraph.stored_queries.entries import QueryValidation, StoredQuery
from omnigraph.values.json_values import json_value
from omnigraph.wire.records import record_from_json

_EITHER = "application/vnd.apache.arrow.stream, application/json"
"""Rows come as Arrow, the receipt of a mutation as JSON."""


def list_queries(branch: str) -> Exchange[list[StoredQuery]]:
    found = yield from asked(get("/queries", ("branch", branch)))
    return [record_from_json(StoredQuery, query) for query in found["queries"]]


def validate_queries(branch: str) -> Exchange[QueryValidation]:
    found = yield from asked(get("/queries/validation", ("branch", branch)))
    return record_from_json(QueryValidation, found)


def run_query(
    name: str,
    params: Mapping[str, object] | None,
    branch: str,
    at: CommitName | None,
    timeout: float | None,
    cancel: threading.Event | None,
    message: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
    expect_mutation: bool | None,
) -> Exchange[QueryResult | MutationReceipt]:
    require_wanted(cancel)
    where = yield from state(branch, at)
    body: dict[str, Any] = {
        "params": None if params is None else {key: json_value(params[key]) for key in params},
        **where,
        "expect_mutation": expect_mutation,
        "timeout_ms": millis(timeout),
        "message": message,
    }
    path = f"/queries/{segment(name)}"
    more: dict[str, Any] = {}
    if if_commit is not None:
        path, more = f"{path}/if-graph-commit", {"headers": {CONDITION: if_commit}}
    more |= {"accept": _EITHER, "timeout": timeout, "cancel": cancel}
    only_reads = post(path, {**body, "expect_mutation": False}, **more)
    if expect_mutation is False:
        answer = yield only_reads
    else:
        answer = yield write(path, body, idempotency_key, as_read=only_reads, **more)
    if "json" in answer.headers.get("content-type", ""):
        return record_from_json(MutationReceipt, json_of(answer))
    return kept_rows(answer.content(), name_text(at))
