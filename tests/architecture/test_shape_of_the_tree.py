"""Promises about the source tree that no reviewer has to remember."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import omnigraph
from omnigraph import failpoints

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


def test_a_class_name_means_one_thing() -> None:
    """A name that occurs in two modules sends a reader to the wrong one."""
    places: dict[str, list[str]] = {}
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(str(path.relative_to(SRC)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_import_is_light() -> None:
    code = f"import omnigraph, sys; print([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_failpoint_is_visited_somewhere() -> None:
    text = "\n".join(p.read_text() for p in SRC.rglob("*.py") if p.name != "failpoints.py")
    missing = [name for name in failpoints.ALL_POINTS if f'failpoints.hit("{name}")' not in text]
    assert missing == []
