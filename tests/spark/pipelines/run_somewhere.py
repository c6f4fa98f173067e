"""Two increments of a pipeline on some master. Run as a program; it prints what the graph holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pipeline_case import FILE, Case

from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import spark_session, stop_session

TROUBLE = """
from omnigraph_testing.spark_clusters import claim, kill_executor, kill_worker

def once(spark, inputs):
    trouble = {"worker": kill_worker, "executor": kill_executor}.get(TROUBLE)
    def rows(batches):
        for batch in batches:
            if trouble is not None and claim(MARK):
                trouble()
            yield batch
    frame = inputs["packages"]
    return frame.mapInArrow(rows, frame.schema)
"""


def main(folder: str, master: str, trouble: str) -> None:
    root = Path(folder)
    text = FILE.replace("from: packages,", "from: troubled,").replace(
        "targets:", "  troubled: {python: 'trouble:once', inputs: [packages]}\ntargets:"
    )
    case = Case(root, text)
    names = f"TROUBLE = {trouble!r}\nMARK = {str(root / 'troubled')!r}\n"
    (root / "trouble.py").write_text(names + TROUBLE)
    small = (("spark.driver.host", "127.0.0.1"), ("spark.executor.memory", "600m"))
    conf = () if master.startswith("sc://") else small
    session = spark_session(PipelineSettings(master=master, driver_memory="600m", conf=conf))
    found = []
    for increment in range(2):
        case.packages(*(f"p{increment}-{n},1,{n}" for n in range(50)), ",x,", file=str(increment))
        (root / f"in/requires/{increment}.ndjson").write_text(
            "".join(
                json.dumps({"package": f"p{increment}-{n}", "dep": f"p0-{n}"}) + "\n"
                for n in range(50)
            )
        )
        run = case.run(session).raise_if_failed()
        found.append([run.status, run.expectations[0].failed, run.steps[0].rows_out])
    found.append([case.run(session).status])
    with case.graph() as graph:
        rows = sorted(graph.read("Package").to_pylist(), key=lambda row: row["id"])
        edges = sorted((r["src"], r["dst"]) for r in graph.read("Requires").to_pylist())
        commits = len(graph.commits.list(pipeline="packages"))
    quarantined = len(case.loaded().quarantine())
    answer = {"runs": found, "rows": rows, "edges": edges, "commits": commits}
    stop_session()
    sys.stdout.write(json.dumps({**answer, "quarantined": quarantined}))


if __name__ == "__main__":
    main(*sys.argv[1:])
