"""Where a reader of the feed stands: bound to the graph, the branch's incarnation, the filter."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from omnigraph.diff.change import ChangeFilter
from omnigraph.diff.cursors import decode_cursor, encode_cursor
from omnigraph.diff.snapshots import Position
from omnigraph.errors import FeedGap, InvalidArgument
from omnigraph.values.identifiers import TableKey

_KIND = "changes"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read: one incarnation of one branch of one graph, through one filter."""

    graph_id: str
    incarnation: str
    wanted: ChangeFilter

    def to_json(self) -> dict[str, Any]:
        filters = {k: list(v) if v is not None else None for k, v in asdict(self.wanted).items()}
        return {"graph": self.graph_id, "incarnation": self.incarnation, "filter": filters}


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything up to `commit` was seen and, of the step after it, everything up to `inside`.

    `commit` None: nothing yet. `baseline`: the entities of `commit` itself are being handed out.
    """

    commit: str | None
    inside: Position | None = None
    baseline: bool = False

    def moved_to(self, commit: str) -> Standing:
        return Standing(commit)

    def at(self, position: Position) -> Standing:
        return replace(self, inside=position)


def encode(reading: Reading, standing: Standing) -> str:
    inside = standing.inside
    return encode_cursor(
        _KIND,
        {
            **reading.to_json(),
            "commit": standing.commit,
            "inside": [str(inside.key), inside.entity_id] if inside else None,
            "baseline": standing.baseline,
        },
    )


def decode(cursor: str, reading: Reading) -> Standing:
    body = decode_cursor(_KIND, cursor)
    wanted = reading.to_json()
    if body.get("graph") != wanted["graph"]:
        raise InvalidArgument("this cursor belongs to another graph")
    if body.get("incarnation") != wanted["incarnation"]:
        raise FeedGap(
            "this cursor belongs to another branch, or to one of this name that was deleted: "
            "take a new baseline"
        )
    if body.get("filter") != wanted["filter"]:
        raise InvalidArgument("this cursor was made for another filter")
    inside = body["inside"]
    position = Position(TableKey.parse(inside[0]), inside[1]) if inside else None
    return Standing(body["commit"], position, body["baseline"])
