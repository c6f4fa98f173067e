"""Files, folders, modules and classes that pages name exist in the tree."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "omnigraph"
NAMES = (
    "architecture",
    "storage",
    "loading",
    "spark-loads",
    "pipelines",
    "spark",
    "branching",
    "search",
    "mutations",
    "operations",
    "schema",
)
PAGES = [ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / f"{name}.md" for name in NAMES)]
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./*-]+\.(?:py|lark|md|toml)")
FOLDER = re.compile(r"[a-z_]+(?:/[a-z_]+)+/?")
MODULE = re.compile(r"omnigraph(?:\.[a-z_]+)*(?:\.[A-Za-z_]\w*)*")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = [text for text in _code(page) if FILE.fullmatch(text)]
    assert [name for name in named if not _found(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_folder_that_a_page_names_exists(page: Path) -> None:
    known = {path.name for top in (ROOT, ROOT / "src", SOURCE) for path in top.iterdir()}
    named = [t for t in _code(page) if FOLDER.fullmatch(t) and t.split("/")[0] in known]
    assert [name for name in named if not _found(name.rstrip("/"))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_python_name_that_a_page_gives_can_be_imported(page: Path) -> None:
    named = {t.split("(")[0] for t in _code(page)}
    assert [name for name in sorted(named) if MODULE.fullmatch(name) and not _exists(name)] == []


def test_every_class_of_the_glossary_is_a_class_of_the_product() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| .* \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) >= 25
    assert len({term for term, _ in rows}) == len(rows)
    sources = "".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    classes = set(re.findall(r"^class (\w+)", sources, re.MULTILINE))
    aliases = set(re.findall(r"^(\w+) = \w+ \| ", sources, re.MULTILINE))
    named = {name for _, names in rows for name in CODE.findall(names)}
    assert named - classes - aliases == set()


def _code(page: Path) -> Iterator[str]:
    """Inline code; fenced blocks are examples."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return iter(CODE.findall(text))


def _found(name: str) -> bool:
    return any(any(top.glob(name)) for top in (ROOT, ROOT / "src", SOURCE))


def _exists(name: str) -> bool:
    head, _, tail = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return bool(head) and hasattr(importlib.import_module(head), tail)
    return True
