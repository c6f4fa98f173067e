"""The folders of runs: reports, rejected rows and quarantined rows, read again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from omnigraph.spark.pipelines.expectations import ORIGIN, ROW, RULES, STEP
from omnigraph.spark.pipelines.model import Pipeline
from omnigraph.spark.pipelines.report import DATA
from omnigraph.spark.pipelines.results import PipelineRun, QuarantinedRow

REJECTS = "rejects.ndjson"


def quarantined_rows(folder: Path, limit: int) -> list[QuarantinedRow]:
    """The quarantined rows of a run; `folder` has the id of the run in its path."""
    run_id = folder.parent.name if folder.name == "quarantine" else folder.name
    found: list[QuarantinedRow] = []
    for data in _lines(folder.glob("*/*.json")):
        if len(found) == limit:
            break
        found.append(
            QuarantinedRow(
                run_id=run_id,
                step=data[STEP],
                rule="; ".join(data[RULES]),
                origin=data.get(ORIGIN),
                row=data[ROW],
            )
        )
    return found


def _lines(files: Iterator[Path]) -> Iterator[dict[str, Any]]:
    for file in sorted(files):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)


def rejected_by_type(file: Path) -> Counter[str]:
    """The rows that break a rule of the graph, by type."""
    found: Counter[str] = Counter()
    if file.is_file():
        for data in _lines(iter([file])):
            found[str(data.get("type"))] += 1
    return found


def reported_runs(pipeline: Pipeline, limit: int) -> list[PipelineRun]:
    """The runs that left a report, newest first. Ids of runs are in the order of their times."""
    folder = Path(pipeline.runs_folder)
    found: list[PipelineRun] = []
    if not folder.is_dir():
        return found
    for each in sorted(folder.iterdir(), reverse=True):
        if len(found) == limit:
            break
        with suppress(OSError, ValueError, KeyError, TypeError):
            found.append(PipelineRun.from_dict(json.loads((each / DATA).read_bytes())))
    return found


def quarantine_folders(pipeline: Pipeline) -> list[Path]:
    """The folders with quarantined rows, newest run first."""
    if pipeline.quarantine is not None:
        root = Path(pipeline.quarantine)
        found = [each for each in root.iterdir() if each.is_dir()] if root.is_dir() else []
    else:
        runs = Path(pipeline.runs_folder)
        found = list(runs.glob("*/quarantine")) if runs.is_dir() else []
    return sorted(found, reverse=True)
