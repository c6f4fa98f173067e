"""The OpenAPI document, made of the route table and of the structs of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import msgspec

from omnigraph.server.answers import ChangeErrorOutput, ErrorOutput, OperationOutput
from omnigraph.server.route_entry import GRAPH, RouteEntry

Json = dict[str, Any]

SCHEME = "bearer_token"
_REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_TEXTS = {
    200: "Done.",
    202: "Accepted; the operation goes on by itself.",
    206: "A part of the content.",
    302: "The content is at another address.",
    304: "The client has this already.",
    400: "The request cannot be understood or does not fit.",
    401: "No bearer token, or an unknown one.",
    403: "The policy does not allow it.",
    404: "It is not there.",
    406: "None of the accepted media types can be given.",
    408: "The body comes too slowly.",
    409: "A conflict with what is there, or with another request.",
    410: "The changes behind the cursor are gone.",
    412: "The condition of the request does not hold.",
    413: "A limit of size is crossed.",
    415: "The content type of the body cannot be read.",
    416: "The range lies outside of the content.",
    424: "A source outside of the graph could not be read.",
    429: "Too many requests at once.",
    500: "The server failed.",
    503: "Not now: out of time, draining, starting, or a recovery is pending.",
}
_BODYLESS = frozenset({302, 304})
_GRAPH_ID = {
    "name": "graph_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-zA-Z0-9-]{1,64}$"},
}


def document(entries: Sequence[RouteEntry], version: str, *, secured: bool) -> Json:
    """The whole document; a server without tokens names no security."""
    listed = [entry for entry in entries if entry.listed]
    structs = _structs(listed)
    schemas, components = msgspec.json.schema_components(structs, ref_template=_REFERENCE)
    names = dict(zip(structs, schemas, strict=True))
    paths: dict[str, Json] = {}
    for entry in listed:
        path = _PARAMETER.sub(r"{\1}", entry.full_path)
        paths.setdefault(path, {})[entry.method.lower()] = _operation(entry, names, secured)
    found: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "omnigraph",
            "version": version,
            "description": "A typed property graph with branches and commits.",
        },
        "paths": paths,
        "components": {"schemas": _open(dict(sorted(components.items())))},
    }
    if secured:
        found["components"]["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
    return found


_ALWAYS = (ErrorOutput, ChangeErrorOutput, OperationOutput)


def _structs(entries: Sequence[RouteEntry]) -> list[type]:
    found = {
        kind: None
        for entry in entries
        for kind in (entry.body, *_answers(entry))
        if isinstance(kind, type)
    }
    return [*(kind for kind in found if kind is not OperationOutput), *_ALWAYS]


def _answers(entry: RouteEntry) -> tuple[type, ...]:
    """The structs of the 200 body: of a route that answers like one of two others, both."""
    return get_args(entry.answer) or ((entry.answer,) if entry.answer is not None else ())


def _open(components: Json) -> Json:
    """An envelope has further members, one for each kind of detail."""
    for name in ("ErrorOutput", "ChangeErrorOutput"):
        components[name]["additionalProperties"] = True
    return components


def _operation(entry: RouteEntry, names: dict[type, Any], secured: bool) -> Json:
    nested = entry.place == GRAPH
    found: Json = {
        "operationId": f"cluster_{entry.operation_id}" if nested else entry.operation_id,
        "tags": [entry.tag],
        "summary": entry.summary,
        "parameters": [*_parameters(entry)],
        "responses": _responses(entry, names),
    }
    if entry.body is not None or entry.body_media != ("application/json",):
        schema = names[entry.body] if entry.body is not None else {"type": "string"}
        found["requestBody"] = {
            "required": not entry.body_optional,
            "content": {media: {"schema": schema} for media in entry.body_media},
        }
    if entry.successor is not None:
        found["deprecated"] = True
    if secured and not entry.public:
        found["security"] = [{SCHEME: []}]
    return found


def _parameters(entry: RouteEntry) -> Iterator[Json]:
    if entry.place == GRAPH:
        yield _GRAPH_ID
    for name in _PARAMETER.findall(entry.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    if entry.query is not None:
        yield from _query_parameters(entry.query)
    headers = {
        "Idempotency-Key": entry.takes_key,
        "Prefer": entry.is_async_work,
        "Omnigraph-If-Graph-Commit": entry.path.endswith("/if-graph-commit"),
    }
    for name, taken in headers.items():
        if taken:
            required = name == "Omnigraph-If-Graph-Commit"
            yield {"name": name, "in": "header", "required": required, "schema": _HEADERS[name]}


_HEADERS: dict[str, Json] = {
    "Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
    "Prefer": {"type": "string", "enum": ["respond-async"]},
    "Omnigraph-If-Graph-Commit": {"type": "string"},
}


_REPLAYED: Json = {
    "description": "An earlier request with the same key did the work; this is its answer.",
    "schema": {"type": "string", "enum": ["true"]},
}


def _query_parameters(kind: type) -> Iterator[Json]:
    schema, components = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    own = components[schema[0]["$ref"].rpartition("/")[2]]
    required = set(own.get("required", ()))
    for name, described in own.get("properties", {}).items():
        yield {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": _without_null(described),
        }


def _without_null(schema: Json) -> Json:
    """A query parameter is there or not; it cannot be null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    plain = {**rest, **options[0]} if len(options) == 1 else {**schema, "anyOf": options}
    plain = plain if options else rest
    default = schema.get("default")
    return plain if default is None else {**plain, "default": default}


def _responses(entry: RouteEntry, names: dict[type, Any]) -> Json:
    error = ChangeErrorOutput if entry.tag == "changes" else ErrorOutput
    failure = {"application/json": {"schema": names[error]}}
    found: Json = {}
    success = 200 if entry.answer is not None or entry.media else 204
    for status in sorted({success, *entry.statuses, *((500,) if entry.place == GRAPH else ())}):
        answer: Json = {"description": _TEXTS[status]}
        if status >= 400 and not (entry.operation_id == "readiness" and status == 503):
            answer["content"] = failure
        elif status == 202:
            answer["content"] = {"application/json": {"schema": names[OperationOutput]}}
        elif status not in _BODYLESS:
            answer["content"] = {media: {"schema": _body(entry, names)} for media in entry.media}
            if entry.takes_key:
                answer["headers"] = {"Idempotency-Replayed": _REPLAYED}
        found[str(status)] = answer
    return found


def _body(entry: RouteEntry, names: dict[type, Any]) -> Any:
    found = [names[answer] for answer in _answers(entry)]
    if found:
        return found[0] if len(found) == 1 else {"anyOf": found}
    return {} if entry.media == ("application/json",) else {"type": "string"}
