"""The answer to a request that failed. Every answer from 400 on has the envelope of `wire`."""

from __future__ import annotations

import logging

from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.server.replies import Refusal, Reply
from omnigraph.wire.envelopes import ErrorAnswer, answer_of, refusal

logger = logging.getLogger(__name__)

_INTERNAL = 500
_WRONG = 400


def reply_of(error: BaseException, request_id: str) -> Reply:
    if isinstance(error, Refusal):
        body = refusal(error.status, error.message, request_id, detail=error.details)
        return Reply(body, error.status, list(error.headers))
    if isinstance(error, OmnigraphError):
        answer = answer_of(error, request_id)
        if isinstance(error, NotFound) and error.queries is not None:
            # The request brings its own text, and names a query that the text does not have.
            answer = ErrorAnswer(_WRONG, {**answer.envelope, "code": "bad_request"}, {})
        if answer.status >= _INTERNAL and answer.envelope.get("code") == "internal":
            logger.error("request %s failed: %s", request_id, error.message, exc_info=error)
        headers = [
            (name.lower().encode(), value.encode()) for name, value in answer.headers.items()
        ]
        return Reply(answer.envelope, answer.status, headers)
    logger.error("request %s failed", request_id, exc_info=error)
    message = "the server failed; its log says more under this request id"
    return Reply(refusal(_INTERNAL, message, request_id), _INTERNAL)
