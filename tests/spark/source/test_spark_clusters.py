"""The format with executors in other processes, one of which dies, and over Spark Connect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_testing.spark_clusters import LOCAL_CLUSTER, connect_server, standalone

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(1800)]

CODE = """
import os, sys
import omnigraph
from omnigraph.spark import spark_session, stop_session
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import GraphReader, GraphWriter

folder, master = sys.argv[1:]
conf = (
    ("spark.driver.host", "127.0.0.1"),
    ("spark.executor.memory", "600m"),
    ("spark.speculation", "true"),
)
connect = master.startswith("sc://")
settings = PipelineSettings(master, None if connect else "600m", () if connect else conf)
spark = spark_session(settings)
uri, marker = folder + "/g", folder + "/died"
g = omnigraph.init(uri, "node P { name: String @key  n: U64 } edge K: P -> P")

def deadly(batches):
    import os
    for batch in batches:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield batch
            continue
        os.kill(os.getpid() if connect else parent(parent(os.getpid())), 9)

def parent(process):
    return int(open('/proc/%d/stat' % process).read().rpartition(')')[2].split()[1])

rows = spark.range(0, 4000, 1, 4).selectExpr(
    "concat('p', id) AS name", "CAST(id AS DECIMAL(20,0)) AS n")
writer = rows.mapInArrow(deadly, rows.schema).write.format("omnigraph").option("type", "P")
writer.mode("append").save(uri)
edges = rows.selectExpr("name AS src", "concat('p', (n * 7) % 4000) AS dst")
GraphWriter(uri).add("K", edges).commit()
reader = GraphReader(spark, uri)
g.mutate('query q() { delete P where name = "p1" }')
few = reader.frame("P", ["id", "n"], "n < 100")
print(reader.frame("P").count(), reader.frame("K").select("src").distinct().count(), few.count(),
      os.path.exists(marker), len(g.commits.list()), g.read("P").num_rows)
stop_session()
"""
EXPECTED = "4000 4000 100 True 4 3999"


def run_on(master: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), master],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == EXPECTED


def test_local_cluster(tmp_path: Path) -> None:
    run_on(LOCAL_CLUSTER, tmp_path)


def test_a_standalone_master_with_two_workers(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        run_on(master, tmp_path)


def test_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    with connect_server(tmp_path) as address:
        run_on(address, tmp_path)
