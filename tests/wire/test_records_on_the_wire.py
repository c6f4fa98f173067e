"""Every record that `Graph` returns is the same after its way through JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

import omnigraph
from omnigraph.catalog.declared_types import DeclaredType
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Check,
    GeneratedDefault,
    Key,
    Range,
    Unique,
)
from omnigraph.schema import steps as st
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.identifiers import node_table
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    VectorType,
)
from omnigraph.wire.records import record_from_json, record_to_json

CATALOG = catalog_from_text("node Person { name: String @key  born: Date? }")
MOMENT = dt.datetime(2026, 4, 1, 12, 30, tzinfo=dt.UTC)
IMAGE = {
    "id": "ada",
    "name": "Ada",
    "born": dt.date(1815, 12, 10),
    "seen": MOMENT,
    "photo": b"\x00\xff",
    "days": [dt.date(2026, 1, 1)],
    "weight": math.inf,
    "note": None,
}
INPUTS = {"Annotation", "Cardinality", "Catalog", "EdgeType", "Edit", "GeneratedDefault"}
INPUTS |= {"InterfaceType", "NodeType", "Property", "Resolution", "Take", "StreamBatch"}
PARTS = {"DatasetVersion", "Granted", "PinChange", "TableChanges", "TableKey", "TablePin"}
"""Parts of records that have no JSON of their own."""
LIVE = {"QueryResult", "StoredBlob", "SnapshotDataset"}
"""Their rows and bytes are sent as Arrow and as bytes; a snapshot makes its datasets."""
RECORDS = [
    cls
    for name in omnigraph.__all__
    if dataclasses.is_dataclass(cls := getattr(omnigraph, name))
    and not name.endswith("Settings")
    and name not in INPUTS | PARTS | LIVE
]


def example(declared: Any, name: str = "") -> Any:
    """A value of a declared type, with every member set."""
    origin = get_origin(declared)
    special = SPECIAL.get(declared) if isinstance(declared, type) else None
    if special is not None:
        return special()
    if origin in (Union, types.UnionType):
        return example(next(t for t in get_args(declared) if t is not type(None)), name)
    if origin is tuple:
        return (example(get_args(declared)[0], name),)
    if origin in (dict, Mapping) or declared is dict:
        values = get_args(declared)[1]
        return {"x": example(values, name)}
    if isinstance(declared, type) and dataclasses.is_dataclass(declared):
        hints = get_type_hints(declared)
        fields = dataclasses.fields(declared)
        return declared(**{f.name: example(hints[f.name], f.name) for f in fields})
    if isinstance(declared, type) and issubclass(declared, Enum):
        return next(iter(declared))
    simple = {int: 7, float: 0.5, bool: True, str: name or "text", Any: 1}
    return simple.get(declared, 1)


def commit() -> omnigraph.Commit:
    counts = omnigraph.TableChanges(node_table("Person"), 1, 2, 3, None)
    return omnigraph.Commit(
        *("c2", "main", 5, "c1", "c0", "ada", "why", "merge", 1_700_000_000_000_000, "s1"),
        changes=(counts,),
        recovery=example(omnigraph.RecoveryAudit),
        equals_merged=True,
        details={"pipeline": {"source": "x"}},
    )


def pin() -> omnigraph.TablePin:
    return omnigraph.TablePin(node_table("Person"), "nodes/1", "b", 3, 9, "main", "c1")


def plan() -> omnigraph.SchemaPlan:
    granted = omnigraph.Granted(
        True, {"Person.age": 3}, True, {"OG-CD-101": omnigraph.SeverityLevel.ERROR}
    )
    return omnigraph.SchemaPlan(
        *("g", "main", "c1", "h1", "h2", "node Person {}"),
        granted=granted,
        steps=STEPS,
        requires=("backfill",),
        violations=(omnigraph.SchemaViolation("P", None, "@unique(a)", "OG-MF-101", 2, ("a",)),),
        warnings=("note",),
        branches=(omnigraph.BranchOutlook("x", False, ("why",)),),
        stored_queries=(omnigraph.BrokenQuery("q", "f.gq", 3, "gone"),),
    )


SPECIAL: dict[type, Any] = {
    omnigraph.StoredParameter: lambda: omnigraph.StoredParameter("most", "[I32]", True),
    omnigraph.Commit: commit,
    omnigraph.SchemaPlan: plan,
    omnigraph.PlannedStep: lambda: STEPS[0],
    omnigraph.Catalog: lambda: CATALOG,
    omnigraph.Change: lambda: omnigraph.Change(
        "node",
        omnigraph.ChangedType("t1", "Person"),
        "ada",
        "update",
        IMAGE,
        {**IMAGE, "name": "B"},
    ),
    omnigraph.Tag: lambda: omnigraph.Tag("v1", "c1", "main", 4, 17, "s1", (pin(),), 18),
    omnigraph.Snapshot: lambda: omnigraph.Snapshot(
        "main", "c1", 4, "s1", CATALOG, {node_table("Person"): pin()}, 2
    ),
    omnigraph.Conflict: lambda: omnigraph.Conflict(
        *("node", "Person", "ada", "DivergentUpdate", "both", "born"),
        base=None,
        ours=dt.date(1815, 12, 10),
        theirs=MOMENT,
    ),
}


def over_json(record: Any) -> Any:
    text = json.dumps(record_to_json(record), allow_nan=False)
    return record_from_json(type(record), json.loads(text))


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_a_record_is_the_same_after_json(cls: type[Any]) -> None:
    record = example(cls)
    assert over_json(record) == record


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_the_json_of_the_command_line_is_part_of_it(cls: type[Any]) -> None:
    if not hasattr(cls, "to_dict") or cls in (omnigraph.Change, omnigraph.Conflict):
        return  # their images and kinds have another form over HTTP
    record = example(cls)
    told = record.to_dict().keys() - renamed(cls)
    assert told <= record_to_json(record).keys()


def renamed(cls: type[Any]) -> set[str]:
    return {"cursor", "has_more"} if cls is omnigraph.FeedPage else set()


def test_images_are_nested_over_http_and_whole_in_python() -> None:
    ends = {"id": "e1", "from": "ada", "to": "bob", "since": dt.date(2026, 1, 1)}
    change = omnigraph.Change(
        "edge", omnigraph.ChangedType("t2", "Knows"), "e1", "insert", None, ends
    )
    told = record_to_json(change)
    assert told["after"] == {
        "properties": {"since": "2026-01-01"},
        "endpoints": {"from": "ada", "to": "bob"},
    }
    assert "before" not in told
    assert over_json(change) == change
    named_from = {"id": "n", "from": "a property of a node"}
    node = omnigraph.Change("node", omnigraph.ChangedType("t", "N"), "n", "delete", named_from)
    assert over_json(node) == node


def test_pages_keep_their_cursor() -> None:
    page = omnigraph.ChangePage([example(omnigraph.Change)], "next")
    back = over_json(page)
    assert (back, back.next_cursor) == (page, "next")
    assert over_json(omnigraph.ChangePage()).next_cursor is None
    feed = example(omnigraph.FeedPage)
    assert record_to_json(feed)["next_page_token"] == feed.cursor
    last = dataclasses.replace(feed, has_more=False)
    assert record_to_json(last)["caught_up"] is True
    assert over_json(last) == last


def test_a_preview_has_conflicts_and_changes() -> None:
    preview = omnigraph.MergePreview(
        *("x", "main", "merged"),
        [example(omnigraph.Conflict)],
        omnigraph.ChangePage([example(omnigraph.Change)]),
        7,
        more_changes=True,
    )
    back = over_json(preview)
    assert (back, vars(back)) == (preview, vars(preview))
    assert record_to_json(preview)["merge_conflicts"][0]["kind"] == "divergent_update"


STRING = DeclaredType(ScalarType(ScalarKind.STRING), True)
STEPS = tuple(
    omnigraph.PlannedStep(step, omnigraph.StepClass.REWRITE, ("OG-CD-101",), 3, 4, "do", "why")
    for step in (
        st.AddType("node", "Person"),
        st.RenameType("node", "A", "B"),
        st.DropType("edge", "Knows"),
        st.AddProperty("node", "P", "age", STRING),
        st.AddProperty("node", "P", "kind", DeclaredType(EnumType(("a", "b")), False)),
        st.AddProperty("node", "P", "photo", DeclaredType(BlobType(), True)),
        st.AddProperty("node", "P", "tags", DeclaredType(ListType(ScalarKind.DATE), True)),
        st.RenameProperty("node", "P", "a", "b"),
        st.DropProperty("node", "P", "a"),
        st.ChangePropertyType(
            "node", "P", "v", STRING, DeclaredType(VectorType(3), True), st.Conversion.REEMBED
        ),
        st.SetNullable("node", "P", "a"),
        st.SetRequired("node", "P", "a"),
        st.BackfillProperty("node", "P", "a", "constant", 3),
        st.BackfillProperty("node", "P", "a", "expression", None, "b + c"),
        st.ExtendEnum("node", "P", "a", ("x", "y")),
        st.NarrowEnum("node", "P", "a", ("x",)),
        st.RenameEnumValue("node", "P", "a", (("x", "y"),)),
        st.AddConstraint("node", "P", Unique(("a", "b"))),
        st.DropConstraint("node", "P", Range("a", 1, None)),
        st.AddConstraint("node", "P", Check("a", "x+")),
        st.AddConstraint("node", "P", Key(("a",))),
        st.ChangeCardinality("edge", "K", None, Cardinality(0, 1)),
        st.ChangeEndpoints("edge", "K", ("A", "B"), ("A", "C")),
        st.ChangeImplements("node", "P", (), ("Named",)),
        st.RenameInterface("interface", "A", "B"),
        st.DropInterface("interface", "A"),
        st.ChangeEmbedding("node", "P", "v", (("model", "a"),), (("model", "b"),)),
        st.UpdateTypeMetadata("node", "P", (Annotation("description", ("x",)),)),
        st.UpdatePropertyMetadata(
            *("node", "P", "at"),
            (
                Annotation("default", (GeneratedDefault("now"),)),
                Annotation("m", (1, 2), (("k", 3),)),
            ),
        ),
        st.UpdateSource(),
        st.UnsupportedChange("node:P", "why", "OG-BC-103"),
    )
)


def test_every_kind_of_step_is_read_back() -> None:
    assert {type(step.step) for step in STEPS} == set(get_args(st.SchemaStep))
    for step in STEPS:
        assert over_json(step) == step
