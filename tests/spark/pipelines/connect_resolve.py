"""Entity resolution through Spark Connect, both ways to connect pairs. Run as a program."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from test_entity_resolution import OPTIONS, PEOPLE, SCHEMA, joined

from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import spark_session, stop_session
from omnigraph.spark.pipelines import ResolveOutput
from omnigraph.spark.pipelines.resolve import resolve_frame


def main(master: str) -> None:
    spark = spark_session(PipelineSettings(master=master))
    frame = spark.createDataFrame(PEOPLE, SCHEMA)
    entities = resolve_frame(spark, frame, OPTIONS).collect()
    pairs = resolve_frame(spark, frame, replace(OPTIONS, output=ResolveOutput.PAIRS)).collect()
    found = {
        "entities": {row["entity"]: row["origins"] for row in entities},
        "pairs": sorted([row["from"], row["to"]] for row in pairs),
        "stars": joined(spark, [("a", "b"), ("c", "b"), ("x", "y")], 0),
        "kind": type(spark).__module__,
    }
    stop_session()
    sys.stdout.write(json.dumps(found))


main(sys.argv[1])
