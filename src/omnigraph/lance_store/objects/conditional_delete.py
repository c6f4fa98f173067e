"""Remove an S3 object only while it is the one that was looked at.

The client library cannot say so, so the request is sent here, under its signature, with the
`If-Match` that S3 (and Ceph) judge in one step with the delete. A store that does not know the
header either refuses the request, and the plain delete follows, or ignores it: there the order that
the intents give is all there is.
"""

from __future__ import annotations

import datetime as dt

import httpx
import obstore
from obstore.store import S3Store

_VALID_FOR = dt.timedelta(minutes=5)
_SECONDS = 30.0
_ATTEMPTS = 4
# Gone, another one's by now, or changing this very moment: the caller looks again.
_NOT_THIS_ONE = frozenset({404, 409, 412})
_HEADER_UNKNOWN = frozenset({400, 405, 501})


def delete_if_unchanged(store: S3Store, key: str, e_tag: str) -> bool:
    """False when the object is not the one with this `e_tag` any more."""
    url = obstore.sign(store, "DELETE", key, _VALID_FOR)
    failure = ""
    for _ in range(_ATTEMPTS):
        try:
            answer = httpx.delete(url, headers={"If-Match": e_tag}, timeout=_SECONDS)
        except httpx.TransportError as error:
            failure = f"{type(error).__name__}: {error}"
            continue
        if answer.is_success:
            return True
        if answer.status_code in _NOT_THIS_ONE:
            return False
        if answer.status_code in _HEADER_UNKNOWN:
            obstore.delete(store, key)
            return True
        failure = f"HTTP {answer.status_code} {answer.text[:300]}"
        if answer.status_code < 500:
            break
    raise OSError(failure)
