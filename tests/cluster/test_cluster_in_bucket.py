"""A cluster in a bucket: apply, drift, delete, and requests that do not grow with types."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cluster import commands
from omnigraph.cluster.root import open_root
from omnigraph.graph.managed import marked_export
from omnigraph_testing.cluster_kit import BY_NAME, PEOPLE, apply, call, codes, declare, plan, write
from omnigraph_testing.s3_server import S3Server

pytestmark = pytest.mark.s3


def test_a_cluster_in_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    root = f"s3://graphs/{uuid.uuid4()}"
    write(tmp_path, people_pg=PEOPLE, people_gq=BY_NAME)
    both = "graphs:\n  people: {schema: people.pg, queries: people.gq}\n  old: {schema: people.pg}"
    declare(tmp_path, both, storage=f"{root}/")
    assert apply(tmp_path).body["converged"]
    assert not apply(tmp_path).body["state_written"]
    assert commands.status(call(root)).body["state_observations"]["state_revision"] == 1
    write(tmp_path, people_pg=PEOPLE.replace("age", "email: String?\n  age"))
    assert apply(tmp_path).body["converged"]
    with omnigraph.open(f"{root}/graphs/people.omni") as graph:
        graph.mutate('insert Person { name: "Ada", email: "ada@example.com" }')
        with pytest.raises(omnigraph.InvalidArgument, match="cluster apply"):
            graph.schema.apply(PEOPLE)
    declare(tmp_path, both.rpartition("\n")[0], storage=root)
    assert commands.approve(call(tmp_path, "bob"), "graph.old").ok
    with (
        omnigraph.open(f"{root}/graphs/old.omni", read_only=True) as old,
        marked_export(old.engine, "eve"),
    ):
        assert codes(apply(tmp_path))[0] == "graph_delete_export_in_progress"
        assert old.query("match { $p: Person } return { count($p) as n }").to_pylist() == [{"n": 0}]
    assert apply(tmp_path).body["converged"]
    assert open_root(root).graph_objects("old") == []
    assert codes(commands.observe(call(root))) == []
    assert plan(tmp_path).changes == []


def test_requests_do_not_grow_with_types(s3: S3Server, tmp_path: Path) -> None:
    counts = []
    for types in (1, 12):
        root = f"s3://graphs/{uuid.uuid4()}"
        schema = "".join(f"node T{n} {{ name: String @key }}\n" for n in range(types))
        write(tmp_path, people_pg=schema)
        declare(tmp_path, "graphs:\n  people: {schema: people.pg}", storage=root)
        assert apply(tmp_path).body["converged"]
        with s3.recorded() as requests:
            assert not apply(tmp_path).body["state_written"]
        counts.append(len(requests))
    assert counts[0] == counts[1]
    assert counts[0] < 30
