"""The console on a large graph: how long a person waits, in a real browser.

The same clicks are made on a graph of 1,000 people in the same run, which is the floor: what the
pages, the browser and the wire take by themselves.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from playwright.sync_api import Page, sync_playwright

from bench import social
from bench.harness import Figure, report
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph_testing.console_process import BROWSER, console

PEOPLE = {"small": 20_000, "full": 1_000_000}
FEW = 1_000
CHANGED = {"small": 2_000, "full": 10_000}
VIEWERS = {"small": 10, "full": 50}
NEIGHBOURS = 200
_PATIENCE_MILLISECONDS = 120_000


def run(scale: str) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        found = figures(Path(folder), scale)
    notes = [f"scale {scale}", f"{PEOPLE[scale]:,} people, {PEOPLE[scale] * 10:,} friendships"]
    report("console", found, notes)


def make(folder: Path, people: int, changed: int) -> Graph:
    """The social graph, a person with 200 friends, and a branch with many changes."""
    graph = init(folder, social.SCHEMA, actor="bench")
    data = social.make(people)
    graph.load(
        {
            "Person": data.person,
            "Company": data.company,
            "Knows": with_ids(data.knows),
            "WorksAt": with_ids(data.works_at),
        },
        progress=False,
    )
    centre = {"pid": people, "name": "centre", "age": 50, "city": "city 0"}
    friends = [{"from": str(people), "to": str(i), "since": 0} for i in range(NEIGHBOURS)]
    graph.load({"Person": [centre], "Knows": friends}, progress=False)
    graph.optimize()
    graph.branches.create("review")
    rows = [{"pid": i, "age": 99} for i in range(changed)]
    graph.load({"Person": rows}, "patch", "review", progress=False)
    return graph


def with_ids(edges: pa.Table) -> pa.Table:
    """The same edges; their ends are the ids of nodes, which are texts."""
    for name in ("from", "to"):
        at = edges.schema.get_field_index(name)
        edges = edges.set_column(at, name, edges.column(name).cast(pa.string()))
    return edges


def figures(folder: Path, scale: str) -> list[Figure]:
    large = make(folder / "large", PEOPLE[scale], CHANGED[scale])
    small = make(folder / "small", FEW, min(FEW, CHANGED[scale]))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        ours = clicks(browser, large, folder / "large.log", PEOPLE[scale], VIEWERS[scale])
        floor = clicks(browser, small, folder / "small.log", FEW, 1)
        browser.close()
    seconds = {
        "first view after start": "< 2 s",
        f"{NEIGHBOURS} neighbours": "< 0.3 s",
        "first page of a diff": "< 1 s",
    }
    found = [
        Figure(
            f"{name}, {PEOPLE[scale]:,} people",
            ours[name],
            floor[name],
            "s",
            target,
            against=f"our own, {FEW:,} people",
        )
        for name, target in seconds.items()
    ]
    found.append(
        Figure(
            f"memory of the process, {VIEWERS[scale]} viewers",
            ours["memory of all viewers"],
            ours["memory of one viewer"],
            "MB",
            "<= 1.5",
            against="our own, one viewer",
        )
    )
    return found


def clicks(browser: Any, graph: Graph, log: Path, people: int, viewers: int) -> dict[str, float]:
    """Seconds until a person sees each thing, and megabytes of the console process."""
    found: dict[str, float] = {}
    with console(graph.uri, log=log) as address:
        page = new_page(browser)

        def overview() -> None:
            page.goto(f"{address}/")
            page.locator("[data-count=Person]").get_by_text(f"{people + 1:,}").wait_for()

        found["first view after start"] = timed(overview)
        page.goto(f"{address}/explore?type=Person&id={people}")
        button = page.get_by_role("button", name=f"-Knows→ Person ({NEIGHBOURS})")
        button.wait_for()

        def expand() -> None:
            button.click()
            page.get_by_text(f"{NEIGHBOURS + 1} entities").wait_for()

        found[f"{NEIGHBOURS} neighbours"] = timed(expand)

        def diff() -> None:
            page.goto(f"{address}/review?source=review")
            page.locator("[data-op=update]").first.wait_for()

        found["first page of a diff"] = timed(diff)
        process = process_of(address)
        found["memory of one viewer"] = resident_megabytes(process)
        pages = [new_page(browser) for _ in range(viewers - 1)]
        for other in pages:
            other.goto(f"{address}/explore?type=Person&id={people}")
            other.get_by_role("button", name="-Knows→ Person").wait_for()
        found["memory of all viewers"] = resident_megabytes(process)
        for other in [page, *pages]:
            other.context.close()
    return found


def new_page(browser: Any) -> Page:
    page: Page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(_PATIENCE_MILLISECONDS)
    return page


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def process_of(address: str) -> int:
    """The process that listens at an address, found by its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"console" in words and b"--no-browser" in words:
                return int(entry.name)
    raise RuntimeError(f"no process serves {address}")


def resident_megabytes(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1000
    raise RuntimeError(f"process {process} has ended")
