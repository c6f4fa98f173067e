"""Requests that schemathesis makes of the served document: no 5xx, no answer outside of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
)

from omnigraph_testing.http_server import ThreadServer

EXAMPLES = 4

for media in (
    "application/x-ndjson",
    "application/vnd.apache.parquet",
    "application/vnd.apache.arrow.stream",
    "application/x-tar",
):

    @schemathesis.serializer(media)
    def as_bytes(_: Any, value: Any) -> bytes:
        """A body of any bytes; it is seldom of the right form."""
        return value if isinstance(value, bytes) else str(value).encode()


def operations(server: ThreadServer) -> Iterator[Any]:
    with server.client() as client:
        document = client.get("/openapi.json").json()
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        yield found.ok()


def test_answers_follow_the_document(server: ThreadServer) -> None:
    _check_all(server, EXAMPLES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_answers_to_many_requests_follow_the_document(server: ThreadServer) -> None:
    _check_all(server, 100)


def _check_all(server: ThreadServer, examples: int) -> None:
    asked = []
    for operation in operations(server):
        for mode in schemathesis.GenerationMode:
            _check(server, operation, mode, examples, asked)
    assert len(asked) > 100
    assert {"GET", "POST", "DELETE"} <= {method for method, _ in asked}


def _check(server: ThreadServer, operation: Any, mode: Any, examples: int, asked: list) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        if "graph_id" in (case.path_parameters or {}):
            case.path_parameters["graph_id"] = "default"
        answer = case.call(base_url=server.url)
        asked.append((case.method, answer.status_code))
        # A text of the right type need not be a query, a schema or a name; and unknown query
        # parameters and members of reads are ignored.
        case.validate_response(
            answer, excluded_checks=[positive_data_acceptance, negative_data_rejection]
        )
        assert answer.headers["x-request-id"][0]

    with suppress(Unsatisfiable):  # an operation without parameters has no wrong requests
        run()
