"""CSV files flow into a graph, and a table is made from the graph."""

import os

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
GRAPH = os.environ["GRAPH"]
FILES = os.environ["FILES"]

dp.create_sink(
    "graph_packages",
    format="omnigraph",
    options={"path": GRAPH, "type": "Package", "write_mode": "merge", "message": "packages"},
)


@dp.append_flow(target="graph_packages")
def new_packages():
    rows = (
        spark.readStream.schema("name string, version string, downloads bigint")
        .option("header", "true")
        .csv(FILES)
    )
    return rows.withColumn("name", f.lower(f.trim("name")))


@dp.materialized_view
def popular_packages():
    graph = spark.read.format("omnigraph").option("type", "Package").load(GRAPH)
    return graph.where("downloads > 1000").select("name", "version", "downloads")
