"""Errors over HTTP: the status and the envelope of each error class, and the error of an answer.

The envelope is `{"error", "code"?, …one detail}`. Its `code` is one of a closed list. The members
`error_type` and `fields` name the Python class and its fields, so that a client raises the same
error. An answer without them becomes the error that its status and detail stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph import errors as er
from omnigraph.errors import OmnigraphError
from omnigraph.values.json_values import json_form
from omnigraph.wire.changes import conflict_from_json, conflict_to_json
from omnigraph.wire.typed_values import plain_value

Json = dict[str, Any]
Detail = Callable[[Any], Json]

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN = "bad_request", "unauthorized", "forbidden"
MISSING, CONFLICT = "not_found", "conflict"
TOO_MANY, INTERNAL = "too_many_requests", "internal"

_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """How one error class is answered: status, `code`, and the member with its details."""

    status: int
    code: str | None
    detail: Detail | None = None


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error as an HTTP answer."""

    status: int
    envelope: Json
    headers: Mapping[str, str]


def answer_of(error: OmnigraphError, request_id: str | None = None) -> ErrorAnswer:
    """The answer for an error. An internal one says nothing of the server but the request id."""
    told = _status_of(error)
    internal = told.code == INTERNAL
    envelope: Json = {"error": _INTERNAL_MESSAGE if internal else error.message}
    if told.code is not None:
        envelope["code"] = told.code
    if told.detail is not None:
        envelope |= told.detail(error)
    envelope["error_type"] = type(error).__name__
    envelope["fields"] = {} if internal else _fields_to_json(error)
    if request_id is not None:
        envelope["request_id"] = request_id
    if error.retryable:
        envelope["retryable"] = True
    return ErrorAnswer(told.status, envelope, _headers(error, told.status))


def refusal(
    status: int, message: str, request_id: str | None = None, *, detail: Json | None = None
) -> Json:
    """The envelope of a refusal that no error class stands for, such as a wrong method."""
    code = _CODES.get(status)
    envelope = {"error": message, **({"code": code} if code else {}), **(detail or {})}
    return {**envelope, "request_id": request_id} if request_id is not None else envelope


_INTERNAL_MESSAGE = "the server failed; its log says more under this request id"

_CODES = {
    400: BAD_REQUEST,
    401: UNAUTHORIZED,
    403: FORBIDDEN,
    404: MISSING,
    405: "method_not_allowed",
    406: BAD_REQUEST,
    409: CONFLICT,
    413: BAD_REQUEST,
    415: BAD_REQUEST,
    416: BAD_REQUEST,
    429: TOO_MANY,
    500: INTERNAL,
}


def _headers(error: OmnigraphError, status: int) -> dict[str, str]:
    after = getattr(error, "retry_after", None)
    found = {} if after is None else {"Retry-After": str(max(1, round(after)))}
    return {**found, "WWW-Authenticate": 'Bearer realm="omnigraph"'} if status == 401 else found


def _fields_to_json(error: OmnigraphError) -> Json:
    found = {}
    for name, value in error.fields.items():
        if isinstance(error, er.MergeConflicts) and name == "conflicts":
            continue  # the detail has them
        found[name] = _plain_field(value)
    return found


def _plain_field(value: Any) -> Any:
    match value:
        case list() | tuple() | set() | frozenset():
            return [_plain_field(item) for item in value]
        case Mapping():
            return {str(name): _plain_field(item) for name, item in value.items()}
        case _:
            plain = plain_value(value)
            return plain if isinstance(plain, _PLAIN) else json_form(plain)


# Details, by the member that has them


def _merge_conflicts(error: er.MergeConflicts) -> Json:
    return {"merge_conflicts": [conflict_to_json(conflict) for conflict in error.conflicts]}


def _key_conflict(error: er.KeyConflict) -> Json:
    found: Json = {"entity_kind": error.entity_kind, "type_name": error.type}
    return {"key_conflict": {**found, "entity_id": error.ids[0]} if error.ids else found}


def _version_conflict(error: er.ExpectedVersionMismatch) -> Json:
    kind, _, name = (error.table or "").partition(":")
    if name and isinstance(error.expected, int) and isinstance(error.actual, int):
        return {
            "published_dataset_version_conflict": {
                "entity_kind": kind,
                "type_name": name,
                "expected_published_dataset_version": error.expected,
                "actual_published_dataset_version": error.actual,
            }
        }
    found: Json = {"member": error.table or "branch"}
    return {"read_set_conflict": {**found, **_present(error, "expected", "actual")}}


def _present(error: OmnigraphError, *names: str) -> Json:
    values = {name: getattr(error, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _precondition(error: er.PreconditionFailed) -> Json:
    return {"precondition_failure": _present(error, "expected", "actual")}


def _gap(error: er.FeedGap) -> Json:
    return {"change_feed_gap": {"first_unreadable_commit_id": error.commit}}


def _recovery(error: OmnigraphError) -> Json:
    operation = getattr(error, "operation_id", None)
    intents = getattr(error, "intents", None)
    return {"recovery_required": {"operation_id": operation or (intents[0] if intents else None)}}


def _limit(error: er.ResourceLimit) -> Json:
    found = {
        "resource": error.limit,
        "limit": error.ceiling if error.ceiling is not None else error.budget_bytes,
        "actual": error.needed_bytes if error.needed_bytes is not None else error.rows,
    }
    return {"resource_limit": found}


def _unavailable(reason: str | None = None) -> Detail:
    def detail(error: OmnigraphError) -> Json:
        return {"unavailable": {"reason": reason or getattr(error, "reason", None) or "server"}}

    return detail


def _denied(error: er.PolicyDenied) -> Json:
    return {"policy_denied": _present(error, "action", "branch", "target_branch", "actor_id")}


def _diagnostic(error: er.LanguageError) -> Json:
    if not error.diagnostics:
        return {}
    first = error.diagnostics[0]
    position = {name: first[name] for name in ("line", "column") if name in first}
    told = {"code": first.get("code"), "position": position, "fix": first.get("help")}
    return {"diagnostic": {name: value for name, value in told.items() if value}}


def _violations(error: er.ValidationFailed) -> Json:
    return {"violations": _plain_field(error.violations)}


def _idempotency(error: er.IdempotencyConflict) -> Json:
    return {"idempotency_conflict": {"key": error.key}}


def _external_source(error: er.ExternalBlobUnavailable) -> Json:
    return {"external_blob_source": {"uri": error.uri, "reason": error.reason}}


_STATUSES: dict[type[OmnigraphError], ErrorStatus] = {
    er.OmnigraphError: ErrorStatus(500, INTERNAL),
    er.InvalidArgument: ErrorStatus(400, BAD_REQUEST),
    er.LanguageError: ErrorStatus(400, BAD_REQUEST, _diagnostic),
    er.SchemaRefused: ErrorStatus(400, BAD_REQUEST),
    er.ValidationFailed: ErrorStatus(400, BAD_REQUEST),
    er.KeyConflict: ErrorStatus(409, CONFLICT, _key_conflict),
    er.NotFound: ErrorStatus(404, MISSING),
    er.FeedGap: ErrorStatus(410, None, _gap),
    er.AlreadyExists: ErrorStatus(409, CONFLICT),
    er.CommitRejected: ErrorStatus(409, CONFLICT),
    er.ExpectedVersionMismatch: ErrorStatus(409, CONFLICT, _version_conflict),
    er.PreconditionFailed: ErrorStatus(412, None, _precondition),
    er.IdempotencyConflict: ErrorStatus(409, CONFLICT, _idempotency),
    er.OutcomeUnknown: ErrorStatus(503, None, _recovery),
    er.MergeConflicts: ErrorStatus(409, CONFLICT, _merge_conflicts),
    er.RecoveryRequired: ErrorStatus(503, None, _recovery),
    er.SchemaDrift: ErrorStatus(409, CONFLICT),
    er.ReadOnlyGraph: ErrorStatus(403, FORBIDDEN),
    er.GraphClosed: ErrorStatus(503, None, _unavailable("draining")),
    er.ExternalBlobUnavailable: ErrorStatus(424, None, _external_source),
    er.EmbeddingFailed: ErrorStatus(400, BAD_REQUEST),
    er.EmbeddingUnavailable: ErrorStatus(503, None, _unavailable("embedding")),
    er.EngineCannot: ErrorStatus(400, BAD_REQUEST),
    er.SparkUnavailable: ErrorStatus(503, None, _unavailable("spark")),
    er.ResourceLimit: ErrorStatus(413, BAD_REQUEST, _limit),
    er.PolicyDenied: ErrorStatus(403, FORBIDDEN, _denied),
    er.Unauthenticated: ErrorStatus(401, UNAUTHORIZED),
    er.AdmissionRefused: ErrorStatus(429, TOO_MANY),
    er.RequestInFlight: ErrorStatus(409, CONFLICT),
    er.Unavailable: ErrorStatus(503, None, _unavailable()),
    er.NotServed: ErrorStatus(400, BAD_REQUEST),
}
"""The status of a class, and of its subclasses that are not listed themselves."""

_DEADLINE = ErrorStatus(503, None, _unavailable("deadline"))
_CANCELLED = ErrorStatus(503, None, _unavailable("cancelled"))
_INTERRUPTED = {"timeout": _DEADLINE, "cancelled": _CANCELLED}


def _status_of(error: OmnigraphError) -> ErrorStatus:
    if isinstance(error, er.ResourceLimit) and error.limit in _INTERRUPTED:
        return _INTERRUPTED[error.limit]
    if isinstance(error, er.ValidationFailed) and error.stored:
        return ErrorStatus(409, CONFLICT, _violations)
    if isinstance(error, er.FeedGap) and error.commit is None:
        return _STATUSES[er.InvalidArgument]  # the cursor is of another branch: nothing is gone
    if isinstance(error, er.NotFound) and error.queries is not None:
        return _STATUSES[er.InvalidArgument]  # a name that the text of the request does not declare
    return next(_STATUSES[cls] for cls in type(error).__mro__ if cls in _STATUSES)


# Reading answers

_CLASSES = {
    name: cls
    for name, cls in vars(er).items()
    if isinstance(cls, type) and issubclass(cls, OmnigraphError)
}


def error_of(status: int, body: object, headers: Mapping[str, str] | None = None) -> OmnigraphError:
    """The error that an answer from 400 on stands for; `body` is its JSON, or any other text.

    `error.envelope` is the whole JSON, with members that no field has.
    """
    envelope = body if isinstance(body, Mapping) else {}
    told = {name.lower(): value for name, value in (headers or {}).items()}
    request_id = envelope.get("request_id") or told.get("x-request-id")
    error = _typed(envelope) or _by_status(status, envelope, body, told, request_id)
    error.__dict__["envelope"] = dict(envelope)
    if request_id:
        error.add_note(f"request {request_id}, status {status}")
    return error


def _typed(envelope: Mapping[str, Any]) -> OmnigraphError | None:
    """The error by its class name. A class whose fields were not sent gives its parent."""
    named = _CLASSES.get(str(envelope.get("error_type")))
    given = envelope.get("fields")
    if named is None or not isinstance(given, Mapping):
        return None
    fields = dict(given)
    if named is er.MergeConflicts:
        fields["conflicts"] = _conflicts(envelope)
    for cls in named.__mro__:
        if issubclass(cls, OmnigraphError) and cls.required <= fields.keys():
            usable = {name: value for name, value in fields.items() if name in cls.declared}
            return cls(str(envelope.get("error", "")), **usable)
    return None


def _conflicts(envelope: Mapping[str, Any]) -> list[Any]:
    return [conflict_from_json(conflict) for conflict in envelope.get("merge_conflicts", ())]


def _by_status(
    status: int,
    envelope: Mapping[str, Any],
    body: object,
    headers: Mapping[str, str],
    request_id: str | None,
) -> OmnigraphError:
    message = _message(status, envelope, body)
    read = _BY_STATUS.get(status)
    if read is not None:
        return read(message, envelope, headers)
    if 400 <= status < 500:
        return er.InvalidArgument(message)
    return er.ServerFailed(message, status=status, request_id=request_id)


def _message(status: int, envelope: Mapping[str, Any], body: object) -> str:
    told = envelope.get("error")
    if told:
        return str(told)
    text = body.strip() if isinstance(body, str) else ""
    return f"the server answered {status}" + (f": {text[:200]}" if text else "")


def _conflict(message: str, envelope: Mapping[str, Any]) -> OmnigraphError:
    match envelope:
        case {"merge_conflicts": [*_]}:
            found = _conflicts(envelope)
            return er.MergeConflicts(
                message, conflicts=found, total=len(found), source="", target=""
            )
        case {"key_conflict": {"type_name": name, **rest}}:
            ids = [rest["entity_id"]] if "entity_id" in rest else []
            return er.KeyConflict(message, type=name, ids=ids, total=1)
        case {"published_dataset_version_conflict": {"type_name": name, **rest}}:
            return er.ExpectedVersionMismatch(
                message,
                table=f"{rest.get('entity_kind', 'node')}:{name}",
                expected=rest.get("expected_published_dataset_version"),
                actual=rest.get("actual_published_dataset_version"),
            )
        case {"read_set_conflict": {"member": member, **rest}}:
            return er.ExpectedVersionMismatch(
                message, table=member, expected=rest.get("expected"), actual=rest.get("actual")
            )
        case {"idempotency_conflict": {"key": key}}:
            return er.IdempotencyConflict(message, key=key)
        case _:
            return er.CommitRejected(message)


def _gone(message: str, envelope: Mapping[str, Any]) -> OmnigraphError:
    gap = envelope.get("change_feed_gap") or {}
    return er.FeedGap(message, commit=gap.get("first_unreadable_commit_id"))


def _lost(message: str, envelope: Mapping[str, Any]) -> OmnigraphError:
    lost = envelope.get("precondition_failure") or {}
    expected, actual = str(lost.get("expected", "")), lost.get("actual")
    return er.PreconditionFailed(message, branch="", expected=expected, actual=actual)


def _too_large(message: str, envelope: Mapping[str, Any]) -> OmnigraphError:
    limit = envelope.get("resource_limit") or {}
    return er.ResourceLimit(message, limit=str(limit.get("resource", "request")))


def _no_source(message: str, envelope: Mapping[str, Any]) -> OmnigraphError:
    told = envelope.get("external_blob_source") or {}
    uri, reason = str(told.get("uri", "")), str(told.get("reason", ""))
    return er.ExternalBlobUnavailable(message, uri=uri, reason=reason)


def _away(message: str, envelope: Mapping[str, Any], headers: Mapping[str, str]) -> OmnigraphError:
    if "recovery_required" in envelope:
        return er.RecoveryRequired(message)
    reason = (envelope.get("unavailable") or {}).get("reason") or "server"
    return er.Unavailable(message, reason=reason, retry_after=retry_after(headers))


_BY_STATUS: dict[int, Callable[[str, Mapping[str, Any], Mapping[str, str]], OmnigraphError]] = {
    401: lambda message, _, __: er.Unauthenticated(message),
    403: lambda message, _, __: er.PolicyDenied(message),
    404: lambda message, _, __: er.NotFound(message),
    409: lambda message, envelope, _: _conflict(message, envelope),
    410: lambda message, envelope, _: _gone(message, envelope),
    412: lambda message, envelope, _: _lost(message, envelope),
    413: lambda message, envelope, _: _too_large(message, envelope),
    424: lambda message, envelope, _: _no_source(message, envelope),
    429: lambda message, _, headers: er.AdmissionRefused(
        message, reason="server", retry_after=retry_after(headers) or 1.0
    ),
    502: _away,
    503: _away,
    504: _away,
}


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of the `Retry-After` header; names of headers are in lower case."""
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None
