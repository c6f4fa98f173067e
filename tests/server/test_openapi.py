"""The OpenAPI document: the committed copy, its rules, and no security when the server is open."""

from __future__ import annotations

import json
from pathlib import Path

from omnigraph.server.openapi import document
from omnigraph.server.route_table import ROUTES
from omnigraph_testing.http_server import ThreadServer

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"
VERSION = "0.1.0"


def test_the_committed_copy_is_the_served_document(server: ThreadServer) -> None:
    """`make docs` writes it again."""
    made = document(ROUTES, VERSION, secured=True)
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == json.loads(json.dumps(made))
    with server.client() as client:
        served = client.get("/openapi.json").json()
    assert "securitySchemes" not in served["components"]
    assert all("security" not in op for path in served["paths"].values() for op in path.values())
    open_copy = json.loads(json.dumps(document(ROUTES, served["info"]["version"], secured=False)))
    assert served == open_copy


def test_rules_of_the_document() -> None:
    made = document(ROUTES, VERSION, secured=True)
    assert made["openapi"] == "3.1.0"
    ids = [op["operationId"] for path in made["paths"].values() for op in path.values()]
    assert len(ids) == len(set(ids))
    for path, methods in made["paths"].items():
        for operation in methods.values():
            nested = path.startswith("/graphs/{graph_id}")
            assert operation["operationId"].startswith("cluster_") is nested
            if nested:
                assert operation["parameters"][0]["name"] == "graph_id"
                assert operation["security"] == [{"bearer_token": []}]
    deprecated = {
        op["operationId"]
        for path in made["paths"].values()
        for op in path.values()
        if op.get("deprecated")
    }
    assert {"cluster_read", "cluster_change"} <= deprecated
    named = {
        *("ReadOutput", "LegacyReadOutput", "ChangeRequest", "ChangeOutput", "SnapshotOutput"),
        *("SnapshotDatasetOutput", "CommitOutput", "CommitListOutput", "BranchMergeOutput"),
        *("QueriesCatalogOutput", "QueryCatalogEntry", "ParamDescriptor", "ErrorOutput"),
    }
    assert named <= made["components"]["schemas"].keys()
