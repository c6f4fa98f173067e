from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph_testing.console_process import BROWSER, HOSTILE, REQUIRED, Visit, clean_page, console

STORIES = Path(__file__).parent / "stories"
SCHEMA = """
node Person {
  name: String @key
  age: I32?
  bio: String? @index
  status: enum(active, left)?
  @range(age, 0..150)
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""

if BROWSER is None and not os.environ.get(REQUIRED):
    collect_ignore = [str(STORIES)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """It ends with its module, because its event loop would run below all later tests."""
    assert BROWSER is not None, "no Chromium: apt-get install chromium"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A graph that all stories use, each on entities and branches of its own."""
    graph = init(tmp_path_factory.mktemp("console") / "people.omni", SCHEMA, actor="ada")
    persons = [
        {"name": f"p{i}", "age": i % 90, "bio": f"number {i} likes graphs", "status": "active"}
        for i in range(300)
    ]
    persons.append({"name": HOSTILE, "age": 1, "bio": HOSTILE, "status": "left"})
    graph.load({"Person": persons, "Company": [{"name": "Acme"}]}, message=f"people {HOSTILE}")
    knows = [{"from": "p0", "to": f"p{i}"} for i in range(1, 41)]
    works = [{"from": f"p{i}", "to": "Acme"} for i in range(250)]
    graph.load({"Knows": knows, "WorksAt": works}, message="edges")
    return graph


@pytest.fixture(scope="session")
def address(people: Graph, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("console-log") / "log"
    with console(people.uri, "--as", "viewer", log=log) as found:
        yield found


@pytest.fixture
def visit(browser: Any, address: str) -> Visit:
    """Opens a page of the console, which must stay free of errors."""

    @contextmanager
    def visited(path: str = "/", **options: Any) -> Iterator[Any]:
        with clean_page(browser, address, **options) as page:
            page.goto(address + path)
            yield page

    return visited


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots go: the folder of the docs if they are made anew, else the build folder."""
    folder = Path(os.environ.get("OMNIGRAPH_PICTURES", "build/console"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
