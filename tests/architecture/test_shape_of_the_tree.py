"""Promises about the source tree that no reviewer has to remember."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import omnigraph
from omnigraph import errors, failpoints

SRC = Path(omnigraph.__file__).parent
HEAVY = (
    "lance",
    "pyarrow",
    "obstore",
    "pyspark",
    "fastapi",
    "typer",
    "rich",
    "numba",
    "duckdb",
    "httpx",
    "wordllama",
    "numpy",
)


def test_names_of_test_files_are_unique() -> None:
    """Without packages pytest knows a file by its name alone, and runs only one of two."""
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_import_is_light() -> None:
    code = f"import omnigraph, sys; print([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_public_names() -> None:
    assert omnigraph.__all__ == [
        "Edit",
        "EmbeddingSettings",
        "Graph",
        "HistorySettings",
        "LoadSettings",
        "MaintenanceSettings",
        "OmnigraphError",
        "PipelineSettings",
        "ReadSettings",
        "Settings",
        "Snapshot",
        "WriteSettings",
        "init",
        "open",
        "restore",
    ]
    assert all(getattr(omnigraph, name) is not None for name in omnigraph.__all__)


def test_every_error_has_a_code_of_its_own_and_survives_pickling() -> None:
    import pickle

    classes = [
        c
        for c in vars(errors).values()
        if isinstance(c, type) and issubclass(c, errors.OmnigraphError)
    ]
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes)
    for cls in classes:
        copy = pickle.loads(pickle.dumps(cls("message", table="node:X", limit="x")))
        assert (type(copy), copy.message, copy.table) == (cls, "message", "node:X")


def test_every_failpoint_is_visited_somewhere() -> None:
    text = "\n".join(p.read_text() for p in SRC.rglob("*.py") if p.name != "failpoints.py")
    missing = [name for name in failpoints.ALL_POINTS if f'failpoints.hit("{name}")' not in text]
    assert missing == []
