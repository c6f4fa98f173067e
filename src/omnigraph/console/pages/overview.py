"""The first page: types with counts, the schema drawn, branches, commits, upkeep."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from omnigraph.catalog.model import Catalog
from omnigraph.console.arrangement import schema_positions
from omnigraph.console.facts import BranchDistance, ShownState, counts, distances, shortened
from omnigraph.console.frame import Page, watch_head
from omnigraph.errors import OmnigraphError, PolicyDenied
from omnigraph.graph.handle import Graph
from omnigraph.manifest.records import Commit

_RECENT = 12


async def overview(page: Page) -> None:
    top = ui.row().classes("w-full gap-4 items-stretch")
    below = ui.row().classes("w-full gap-4 items-stretch")

    async def fill() -> None:
        found = await page.call(lambda graph: _read(graph, page.place))
        if found is None:
            return
        catalog, numbers, recent = found
        top.clear()
        with top:
            _types_card(page, catalog, numbers)
            _schema_card(catalog, numbers)
        below.clear()
        with below:
            _commits_card(page, recent)
            branches = ui.card().classes("grow min-w-72")
            upkeep = ui.card().classes("grow min-w-72")
        await _branches_card(page, branches)
        await _upkeep_card(page, upkeep)

    await fill()
    watch_head(page, fill)


def _read(graph: Graph, place: ShownState) -> tuple[Catalog, dict[str, int | None], list[Commit]]:
    catalog = graph.schema.show(place.branch, at=place.at).catalog
    return catalog, counts(graph, place), graph.commits.list(place.branch, _RECENT)


def _types_card(page: Page, catalog: Catalog, numbers: dict[str, int | None]) -> None:
    with ui.card().classes("min-w-72"):
        ui.label("Types").classes("text-lg font-bold")
        with ui.grid(columns="auto auto").classes("gap-x-6 gap-y-1"):
            for entity in catalog.entity_types():
                number = numbers.get(entity.name)
                shown = "–" if number is None else f"{number:,}"
                if entity in catalog.nodes:
                    ui.link(entity.name, page.url("explore", type=entity.name))
                else:
                    ui.label(f"{entity.name} (edge)")
                ui.label(shown).classes("text-right mono").props(f'data-count="{entity.name}"')


def _schema_card(catalog: Catalog, numbers: dict[str, int | None]) -> None:
    names = [node.name for node in catalog.nodes]
    links = [(edge.source, edge.target) for edge in catalog.edges]
    placed = schema_positions(names, links)
    own: dict[str, list[str]] = {}
    for edge in catalog.edges:
        if edge.source == edge.target:
            own.setdefault(edge.source, []).append(edge.name)
    with ui.card().classes("grow min-w-80"):
        ui.label("Schema").classes("text-lg font-bold")
        ui.echart(
            {
                "tooltip": {"show": False},
                "series": [
                    {
                        "type": "graph",
                        "layout": "none",
                        "roam": True,
                        "symbolSize": 30,
                        "edgeSymbol": ["none", "arrow"],
                        "label": {"show": True, "position": "bottom", "fontSize": 12},
                        "edgeLabel": {"show": True, "formatter": "{c}", "fontSize": 10},
                        "data": [
                            {
                                "id": name,
                                "name": "\n".join([name, *(f"↺ {e}" for e in own.get(name, ()))]),
                                "x": float(placed[name][0]) * 100,
                                "y": float(placed[name][1]) * 100,
                                "value": numbers.get(name) or 0,
                            }
                            for name in names
                        ],
                        "links": [
                            {
                                "source": edge.source,
                                "target": edge.target,
                                "value": edge.name,
                                "lineStyle": {"curveness": 0.2},
                            }
                            for edge in catalog.edges
                            if edge.source != edge.target
                        ],
                    }
                ],
            }
        ).classes("w-full h-80").props('aria-label="Drawing of the schema" role=img')


def _commits_card(page: Page, recent: list[Commit]) -> None:
    with ui.card().classes("grow min-w-80"):
        ui.label("Recent commits").classes("text-lg font-bold")
        for commit in recent:
            with ui.row().classes("gap-2 items-baseline"):
                ui.label(commit.created_at_rfc3339[:19]).classes("mono text-xs")
                ui.label(shortened(commit.message or commit.operation, 80))
                ui.label(commit.actor_id or "").classes("text-xs opacity-70")
        ui.link("All commits and their changes", page.url("review"))


async def _branches_card(page: Page, card: ui.card) -> None:
    found: list[BranchDistance] | None = await page.call(distances)
    with card:
        ui.label("Branches").classes("text-lg font-bold")
        for branch in found or ():
            with ui.row().classes("gap-3 items-baseline"):
                ui.link(branch.name, page.url("review", source=branch.name))
                ui.label(branch.text).classes("text-sm opacity-70")
        if not found:
            ui.label("There is only main.").classes("opacity-70")


async def _upkeep_card(page: Page, card: ui.card) -> None:
    try:
        status: Any = await page.attempt(lambda graph: graph.status().to_dict())
    except PolicyDenied:
        status = None
    except OmnigraphError as error:
        with card:
            ui.label(shortened(error.message, 300))
        return
    with card:
        ui.label("Health and upkeep").classes("text-lg font-bold")
        if status is None:
            ui.label("Your rules do not show this.").classes("opacity-70")
            return
        tables = [table for branch in status["branches"] for table in branch["tables"]]
        due = sum(bool(table["due"]) for table in tables)
        waiting = sum(int(table["unindexed_rows"]) for table in tables)
        for name, value in (
            ("Storage", f"{status['bytes'] / 1e6:,.1f} MB"),
            ("Writers in flight", str(len(status["pending_intents"]))),
            ("Tables that want upkeep", f"{due} of {len(tables)}"),
            ("Rows not yet indexed", f"{waiting:,}"),
            ("Tags", str(status["tags"])),
        ):
            with ui.row().classes("gap-3"):
                ui.label(name)
                ui.label(value).classes("mono")
