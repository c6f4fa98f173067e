"""Every error crosses HTTP: status, closed code, exact detail, and the same class on the client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph import errors as er
from omnigraph.merge.conflicts import Conflict
from omnigraph.wire.envelopes import answer_of, error_of, refusal

ERRORS = [
    cls for cls in vars(er).values() if isinstance(cls, type) and issubclass(cls, er.OmnigraphError)
]
CODES = {
    *("unauthorized", "forbidden", "bad_request", "not_found", "method_not_allowed"),
    *("conflict", "too_many_requests", "internal"),
}
CONFLICT = Conflict("node", "Person", "ada", "DivergentUpdate", "both", "age", 1, 2, 3)
VALUES: dict[str, Any] = {
    "stored": False,
    "conflicts": [CONFLICT],
    "total": 1,
    "diagnostics": [{"code": "Q001", "line": 2, "column": 3, "help": "write a brace"}],
    "violations": [{"rule": "required", "type": "Person"}],
    "ids": ["ada"],
    "intents": ["i1"],
    "tables": ["node:Person"],
    "retry_after": 3.0,
    "found": 9,
    "supported": 2,
    "status": 500,
    "queries": None,
}


def made(cls: type[er.OmnigraphError]) -> er.OmnigraphError:
    return cls("what is wrong", **{name: VALUES.get(name, "x") for name in cls.declared})


def sent(error: er.OmnigraphError) -> tuple[int, dict[str, Any], dict[str, str]]:
    answer = answer_of(error, "r1")
    return answer.status, json.loads(json.dumps(answer.envelope)), dict(answer.headers)


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_a_client_raises_the_same_error(cls: type[er.OmnigraphError]) -> None:
    error = made(cls)
    status, envelope, headers = sent(error)
    assert 400 <= status < 600
    assert envelope.get("code") in CODES | {None}
    assert envelope.get("retryable", False) is cls.retryable
    back = error_of(status, envelope, headers)
    if status == 500:  # says nothing of the server but the request id
        assert isinstance(error, type(back))
        assert not back.fields
        assert "what is wrong" not in json.dumps(envelope)
        return
    assert (type(back), back.message, back.fields) == (cls, error.message, error.fields)
    assert back.__notes__ == [f"request r1, status {status}"]


DETAILS = [
    (er.ParseError, 400, "bad_request", "diagnostic"),
    (er.ValidationFailed, 400, "bad_request", None),
    (er.Unauthenticated, 401, "unauthorized", None),
    (er.PolicyDenied, 403, "forbidden", "policy_denied"),
    (er.SnapshotReclaimed, 404, "not_found", None),
    (er.MergeConflicts, 409, "conflict", "merge_conflicts"),
    (er.KeyConflict, 409, "conflict", "key_conflict"),
    (er.ExpectedVersionMismatch, 409, "conflict", "read_set_conflict"),
    (er.IdempotencyConflict, 409, "conflict", "idempotency_conflict"),
    (er.AlreadyExists, 409, "conflict", None),
    (er.SchemaDrift, 409, "conflict", None),
    (er.SchemaChangeInProgress, 409, "conflict", None),
    (er.Contention, 409, "conflict", None),
    (er.WriterFenced, 409, "conflict", None),
    (er.OutcomeUnknown, 503, None, "recovery_required"),
    (er.GraphClosed, 503, None, "unavailable"),
    (er.FeedGap, 410, None, "change_feed_gap"),
    (er.PreconditionFailed, 412, None, "precondition_failure"),
    (er.ResourceLimit, 413, "bad_request", "resource_limit"),
    (er.AdmissionRefused, 429, "too_many_requests", None),
    (er.StorageFailure, 500, "internal", None),
    (er.RecoveryRequired, 503, None, "recovery_required"),
    (er.Unavailable, 503, None, "unavailable"),
]
KNOWN = {"error", "code", "error_type", "fields", "request_id", "retryable"}


@pytest.mark.parametrize(("cls", "status", "code", "detail"), DETAILS)
def test_status_code_and_detail(
    cls: type[er.OmnigraphError], status: int, code: str | None, detail: str | None
) -> None:
    found, envelope, _ = sent(made(cls))
    assert (found, envelope.get("code")) == (status, code)
    assert envelope.keys() - KNOWN == ({detail} if detail else set())


def test_details_have_the_members_of_the_contract() -> None:
    def detail(error: er.OmnigraphError) -> Any:
        _, envelope, _ = sent(error)
        (name,) = envelope.keys() - KNOWN
        return envelope[name]

    assert detail(made(er.MergeConflicts)) == [
        {
            "entity_kind": "node",
            "type_name": "Person",
            "entity_id": "ada",
            "kind": "divergent_update",
            "message": "both",
            "property": "age",
            "base": 1,
            "ours": 2,
            "theirs": 3,
        }
    ]
    key = er.KeyConflict("m", type="Person", entity_kind="node", ids=["ada", "bob"], total=2)
    assert detail(key) == {"entity_kind": "node", "type_name": "Person", "entity_id": "ada"}
    moved = er.ExpectedVersionMismatch("m", table="edge:Knows", expected=4, actual=5)
    assert detail(moved) == {
        "entity_kind": "edge",
        "type_name": "Knows",
        "expected_published_dataset_version": 4,
        "actual_published_dataset_version": 5,
    }
    schema = er.ExpectedVersionMismatch("m", table="schema", expected="a", actual="b")
    assert detail(schema) == {"member": "schema", "expected": "a", "actual": "b"}
    assert detail(er.PreconditionFailed("m", branch="main", expected="a", actual="b")) == {
        "expected": "a",
        "actual": "b",
    }
    limit = er.ResourceLimit("m", limit="memory", needed_bytes=9, budget_bytes=5)
    assert detail(limit) == {"resource": "memory", "limit": 5, "actual": 9}
    assert detail(er.FeedGap("m", commit="c1")) == {"first_unreadable_commit_id": "c1"}
    assert detail(made(er.ParseError)) == {
        "code": "Q001",
        "position": {"line": 2, "column": 3},
        "fix": "write a brace",
    }


def test_a_query_out_of_time_is_unavailable_without_retry_after() -> None:
    status, envelope, headers = sent(er.ResourceLimit("m", limit="timeout"))
    assert (status, envelope["unavailable"]) == (503, {"reason": "deadline"})
    assert "code" not in envelope
    assert "Retry-After" not in headers


def test_a_query_that_the_text_does_not_declare_is_a_bad_request() -> None:
    unknown = er.NotFound("m", query="x", queries=["y"])
    assert sent(unknown)[0] == 400
    assert type(error_of(*sent(unknown))) is er.NotFound
    assert sent(er.NotFound("m", query="x"))[0] == 404


def test_headers_say_when_to_repeat_and_how_to_authenticate() -> None:
    assert sent(er.AdmissionRefused("m", reason="actor", retry_after=7.4))[2] == {
        "Retry-After": "7"
    }
    assert sent(er.Unauthenticated("m"))[2] == {"WWW-Authenticate": 'Bearer realm="omnigraph"'}


BARE = [
    (400, {}, er.InvalidArgument),
    (401, {}, er.Unauthenticated),
    (403, {}, er.PolicyDenied),
    (404, {}, er.NotFound),
    (405, {}, er.InvalidArgument),
    (409, {}, er.CommitRejected),
    (409, {"merge_conflicts": [{**sent(made(er.MergeConflicts))[1]["merge_conflicts"][0]}]}, None),
    (409, {"key_conflict": {"type_name": "Person", "entity_id": "ada"}}, er.KeyConflict),
    (409, {"read_set_conflict": {"member": "schema"}}, er.ExpectedVersionMismatch),
    (409, {"idempotency_conflict": {"key": "k"}}, er.IdempotencyConflict),
    (410, {"change_feed_gap": {"first_unreadable_commit_id": "c"}}, er.FeedGap),
    (412, {"precondition_failure": {"expected": "a"}}, er.PreconditionFailed),
    (413, {"resource_limit": {"resource": "memory"}}, er.ResourceLimit),
    (422, {}, er.InvalidArgument),
    (429, {}, er.AdmissionRefused),
    (500, {}, er.ServerFailed),
    (502, {}, er.Unavailable),
    (503, {"recovery_required": {"operation_id": "o"}}, er.RecoveryRequired),
    (503, {"unavailable": {"reason": "draining"}}, er.Unavailable),
    (599, {}, er.ServerFailed),
]


@pytest.mark.parametrize(("status", "detail", "cls"), BARE)
def test_an_answer_of_another_server_becomes_a_typed_error(
    status: int, detail: dict[str, Any], cls: type[er.OmnigraphError] | None
) -> None:
    error = error_of(status, {"error": "told", **detail}, {"Retry-After": "5"})
    assert type(error) is (cls or er.MergeConflicts)
    assert error.message == "told"


def test_text_of_a_proxy_is_quoted() -> None:
    error = error_of(502, "<html>Bad Gateway</html>")
    assert isinstance(error, er.Unavailable)
    assert "Bad Gateway" in error.message
    assert "answered 599" in error_of(599, None).message


def test_a_class_of_a_newer_server_becomes_what_its_status_says() -> None:
    body = {"error": "m", "code": "not_found", "error_type": "Lost", "fields": {}}
    assert type(error_of(404, body)) is er.NotFound
    body = {"error": "m", "error_type": "NotFound", "fields": {"branch": "x", "later": 1}}
    error = error_of(404, body)
    assert (type(error), error.fields) == (er.NotFound, {"branch": "x"})


def test_a_refusal_without_a_class_is_an_envelope_too() -> None:
    assert refusal(405, "no", "r") == {
        "error": "no",
        "code": "method_not_allowed",
        "request_id": "r",
    }
    assert refusal(416, "no", detail={"blob_range": {}})["code"] == "bad_request"


def test_stored_entities_that_break_a_new_schema_are_a_conflict() -> None:
    violation = {"type_name": "Person", "code": "OG-MF-101", "count": 2, "sample_ids": ["a", "b"]}
    error = er.ValidationFailed("no", violations=[violation], total=2, stored=True)
    status, envelope, headers = sent(error)
    assert (status, envelope["code"], envelope["violations"]) == (409, "conflict", [violation])
    assert error_of(status, envelope, headers).fields == error.fields
