"""A small pipeline in a folder: packages from CSV, what they require from NDJSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.spark import pipelines

SCHEMA = """
node Package { name: String @key  version: String?  size: I32? }
edge Requires: Package -> Package { range: String? }
"""

FILE = """
version: 1
name: packages
graph: packages.omni
schema: packages.pg
sources:
  raw: {files: "in/packages/*.csv", format: csv, options: {header: true}, incremental: files}
  needs:
    files: in/requires/**/*.ndjson
    format: json
    schema: package STRING, dep STRING
    incremental: files
steps:
  packages:
    sql: SELECT lower(trim(name)) AS name, version, size FROM raw
    expect:
      - {check: "name IS NOT NULL AND name <> ''", on_fail: quarantine}
      - {check: "version RLIKE '^[0-9]'", on_fail: warn}
targets:
  - {type: Package, from: packages, mode: merge}
  - {type: Requires, from: needs, mode: merge, ends: {from: package, to: dep}, map: {range: "'*'"}}
"""


class Case:
    """The folder of a pipeline, and its graph."""

    def __init__(self, folder: Path, text: str = FILE, schema: str = SCHEMA) -> None:
        self.folder = folder
        (folder / "packages.pg").write_text(schema)
        self.file = folder / "pipeline.yaml"
        self.file.write_text(text)
        (folder / "in/packages").mkdir(parents=True, exist_ok=True)
        (folder / "in/requires").mkdir(parents=True, exist_ok=True)
        self._files = 0

    @property
    def uri(self) -> str:
        return str(self.folder / "packages.omni")

    def packages(
        self, *rows: str, file: str | None = None, header: str = "name,version,size"
    ) -> Path:
        self._files += 1
        path = self.folder / f"in/packages/{file or self._files}.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    def requires(self, *pairs: str, file: str | None = None) -> Path:
        self._files += 1
        path = self.folder / f"in/requires/{file or self._files}.ndjson"
        rows = [json.dumps({"package": pair[0], "dep": pair[1]}) for pair in pairs]
        path.write_text("".join(f"{row}\n" for row in rows))
        return path

    def loaded(self, **variables: str) -> pipelines.LoadedPipeline:
        return pipelines.load(self.file, variables)

    def run(self, spark: Any, **options: Any) -> pipelines.PipelineRun:
        return self.loaded().run(spark, **{"wait_seconds": 0.0, **options})

    def graph(self) -> omnigraph.Graph:
        return omnigraph.open(self.uri)

    def names(self, type_name: str = "Package", branch: str = "main") -> list[str]:
        with self.graph() as graph:
            return sorted(graph.read(type_name, branch, columns=["id"])["id"].to_pylist())

    def pairs(self) -> list[str]:
        with self.graph() as graph:
            rows = graph.read("Requires", columns=["src", "dst"]).to_pylist()
        return sorted(row["src"] + row["dst"] for row in rows)

    def commits(self) -> list[Any]:
        return self.commits_of(self.uri)

    def commits_of(self, uri: str | Path) -> list[Any]:
        with omnigraph.open(uri) as graph:
            return graph.commits.list(pipeline="packages")


def touch(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))
