"""Details of a commit that a caller gives: every later reader can use them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.load.commit_details import details_to_record


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("given", [None, {}, {"note": {}}, {"note": {"a": nested(30)}}])
def test_what_is_recorded(given: Any) -> None:
    assert details_to_record(given) == (given or {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"note": 5}, "'note'"),
        ({5: {}}, "5 is not the name"),
        ({"carried": {}}, "engine itself"),
        ({"request": {"fingerprint": "x"}}, "engine itself"),
        ({"pipeline": {"lists": 5}}, "`lists`"),
        ({"pipeline": {"lists": [5]}}, "`lists`"),
        ({"note": {"a": math.nan}}, "not JSON"),
        ({"note": {"a": {1, 2}}}, "not JSON"),
        ({"note": {"a": "\ud800"}}, "not JSON"),
        ({"note": {"a": nested(31)}}, "deeper than 32 levels"),
        ({"note": {"a": nested(100_000)}}, "not JSON"),
    ],
)
def test_what_is_refused(graph: Graph, given: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match="details cannot be recorded") as refused:
        graph.load([{"text": "x"}], type="Note", details=given)
    assert told in refused.value.message
    assert graph.cleanup(1) is not None
