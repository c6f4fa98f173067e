"""Run the query bench in a peer database; started in the peers' own environment.

Usage: python peer_runner.py kuzu|ladybug DATA_FOLDER REPEATS WARM_MILLISECONDS
"""

from __future__ import annotations

import importlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

CREATE = (
    "CREATE NODE TABLE Person(pid INT64, name STRING, age INT32, city STRING, PRIMARY KEY(pid))",
    "CREATE NODE TABLE Company(cid INT64, name STRING, PRIMARY KEY(cid))",
    "CREATE REL TABLE Knows(FROM Person TO Person, since INT32)",
    "CREATE REL TABLE WorksAt(FROM Person TO Company)",
)
COPIES = (("Person", "person"), ("Company", "company"), ("Knows", "knows"), ("WorksAt", "works_at"))


def main() -> None:
    engine, folder = sys.argv[1], Path(sys.argv[2])
    repeats, warm = int(sys.argv[3]), float(sys.argv[4])
    module = importlib.import_module(engine)
    home = Path(tempfile.mkdtemp(prefix=f"bench-{engine}-"))
    try:
        connection = module.Connection(module.Database(str(home / "db")))
        began = time.perf_counter()
        for statement in CREATE:
            connection.execute(statement)
        for table, file in COPIES:
            connection.execute(f'COPY {table} FROM "{folder / file}.parquet"')
        answers = {"load_seconds": time.perf_counter() - began, "queries": {}}
        queries = json.loads((folder / "queries.json").read_text())
        for name, query in queries.items():
            answers["queries"][name] = measure(connection, query, repeats, warm)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(answers))


def measure(connection: object, query: dict, repeats: int, warm: float) -> dict:
    prepared = connection.prepare(query["cypher"])
    times, rows = [], []
    while len(times) <= repeats or (sum(times) < warm and len(times) < 1000):
        began = time.perf_counter()
        result = connection.execute(prepared, query["params"])
        rows = []
        while result.has_next():
            rows.append(result.get_next())
        times.append((time.perf_counter() - began) * 1000)
        if sum(times) > 20_000:
            break
    return {"milliseconds": statistics.median(times[1:] or times), "rows": rows}


if __name__ == "__main__":
    main()
