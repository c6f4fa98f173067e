"""Find an entity, look at it, and walk to its neighbours."""

from __future__ import annotations

from typing import Any

from nicegui import events, ui

from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.console import facts
from omnigraph.console.canvas import MOST_ENTITIES, Canvas
from omnigraph.console.facts import EntityName, NeighbourGroup
from omnigraph.console.frame import Page
from omnigraph.values.scalars import VectorType

_EXPANDED = 200


class Explorer:
    """The page of one viewer: the search, the drawing and the chosen entity."""

    def __init__(self, page: Page, catalog: Catalog, type_name: str | None) -> None:
        self.page = page
        self.catalog = catalog
        self.canvas = Canvas()
        self.chosen: EntityName | None = None
        types = [node.name for node in catalog.nodes]
        with ui.row().classes("w-full items-end gap-2"):
            self.type = ui.select(types, label="Type", value=type_name or types[0]).classes("w-40")
            self.how = ui.select(
                {"text": "by text", "key": "by key", "meaning": "by meaning"},
                label="How",
                value="text",
            ).classes("w-32")
            self.text = ui.input(label="Find").classes("grow min-w-40").props("clearable")
            self.text.on("keydown.enter", self.search)
            ui.button("Find", on_click=self.search)
        with ui.row().classes("w-full gap-4 items-start"):
            self.results = ui.column().classes("w-64 max-h-96 overflow-auto gap-0")
            with ui.column().classes("grow min-w-80 gap-1"):
                with ui.row().classes("items-center gap-2"):
                    self.told = ui.label("").classes("text-sm").props('data-testid="canvas-text"')
                    self.filters = ui.row().classes("gap-1")
                    ui.button("Arrange", on_click=self.arrange).props("dense flat")
                    ui.button("Clear", on_click=self.clear).props("dense flat")
                self.chart = ui.echart(self.canvas.options()).classes("w-full h-96")
                self.chart.props('aria-label="Drawing of entities" role=img')
                self.chart.on("chart:click", self.clicked, ["dataType", "data"])
            self.detail = ui.column().classes("w-96 max-w-full gap-1")
        if not any(isinstance(p.type, VectorType) for n in catalog.nodes for p in n.properties):
            self.how.set_options({"text": "by text", "key": "by key"}, value="text")
        self.draw()

    def node_type(self) -> NodeType:
        return self.catalog.node_types[self.type.value]

    async def search(self) -> None:
        page, name, how, text = self.page, self.type.value, self.how.value, self.text.value or ""
        found = await page.call(lambda g: facts.find(g, page.place, name, text, how))
        if found is None:
            return
        self.results.clear()
        with self.results:
            told = f"{len(found)} found" if found else self._nothing(text, how)
            ui.label(told).classes("opacity-70")
            for entity in found:
                button = ui.button(
                    facts.label_of(entity),
                    on_click=lambda _, e=entity: self.open(name, str(e["id"]), e),
                )
                button.props("flat no-caps align=left dense").classes("w-full")

    def _nothing(self, text: str, how: str) -> str:
        if how == "text" and text and not facts.text_properties(self.node_type()):
            return f"{self.type.value} has no text to search; find it by key."
        return f"No {self.type.value} was found."

    async def open(self, type_name: str, entity_id: str, entity: Any = None) -> None:
        """Put an entity into the drawing and show it."""
        page, name = self.page, EntityName(type_name, entity_id)
        if entity is None:
            entity = await page.call(lambda g: facts.read_entity(g, page.place, name))
            if entity is None:
                ui.notify(f"No {type_name} {entity_id!r} here.", type="warning")
                return
        if name not in self.canvas.entities and self.canvas.room < 1:
            self._full()
            return
        self.canvas.add(type_name, entity, None)
        await self.choose(name)

    async def choose(self, name: EntityName) -> None:
        self.chosen = name
        self.draw()
        page = self.page
        found = await page.call(
            lambda g: (
                facts.read_entity(g, page.place, name),
                facts.neighbour_groups(g, page.place, name),
            )
        )
        if found is not None:
            self._show(name, *found)

    def _show(
        self, name: EntityName, entity: dict[str, Any] | None, groups: list[NeighbourGroup]
    ) -> None:
        self.detail.clear()
        with self.detail, ui.card().classes("w-full gap-1"):
            ui.label(f"{name.type} {name.id}").classes("text-lg font-bold value")
            if entity is None:
                ui.label("It does not exist in this state.")
                return
            with ui.grid(columns="auto 1fr").classes("gap-x-3 gap-y-1 w-full"):
                for key, value in entity.items():
                    ui.label(key).classes("opacity-70")
                    ui.label(facts.shown_value(value)).classes("value")
            ui.label("Neighbours").classes("font-bold mt-2")
            for group in groups:
                ui.button(group.text, on_click=lambda _, g=group: self.expand(name, g)).props(
                    "flat no-caps dense align=left"
                ).set_enabled(group.count > 0)
            with ui.row():
                ui.button("Pin", on_click=lambda: self.pin(name)).props("dense flat")
                ui.button("Remove", on_click=lambda: self.remove(name)).props("dense flat")
                ui.button("History", on_click=lambda: self.history(name)).props("dense flat")
                ui.link("Edit", self.page.url("data", type=name.type, id=name.id))
            self.past = ui.column().classes("w-full gap-1")

    async def expand(self, name: EntityName, group: NeighbourGroup) -> None:
        """Add the neighbours of one kind to the drawing."""
        room = self.canvas.room
        if room < 1:
            self._full()
            return
        page, most = self.page, min(_EXPANDED, room)
        found = await page.call(lambda g: facts.neighbours(g, page.place, name, group, most))
        if found is None:
            return
        before = set(self.canvas.entities)
        for neighbour in found:
            other = self.canvas.add(group.other, neighbour.entity, name)
            ends = (name, other) if group.outgoing else (other, name)
            self.canvas.link(EntityName(group.edge, str(neighbour.edge["id"])), *ends)
        self.canvas.arrange(before)
        self.draw()
        if group.count > len(found):
            ui.notify(
                f"{len(found):,} of {group.count:,} are shown. Ask for fewer on the page Query, "
                "with a filter on their properties.",
                type="info",
            )

    def _full(self) -> None:
        ui.notify(
            f"The drawing has {MOST_ENTITIES:,} entities, which is the most. Remove some, clear "
            "it, or narrow down on the page Query.",
            type="warning",
        )

    async def history(self, name: EntityName) -> None:
        page = self.page
        found = await page.call(lambda g: facts.history_of(g, page.place, name))
        if found is None:
            return
        self.past.clear()
        with self.past:
            ui.label("What the newest 50 commits did to it").classes("font-bold")
            for commit, change in found:
                told = f"{commit.created_at_rfc3339[:19]} {change.op} by {commit.actor_id or '?'}"
                ui.link(told, page.url(at=commit.graph_commit_id, type=name.type, id=name.id))
                for prop, old, new in facts.changed_rows(change):
                    ui.label(f"{prop}: {old} → {new}").classes("text-sm value")
            if not found:
                ui.label("Nothing.").classes("opacity-70")

    def pin(self, name: EntityName) -> None:
        drawn = self.canvas.entities.get(name)
        if drawn is not None:
            drawn.pinned = not drawn.pinned
            self.draw()

    def remove(self, name: EntityName) -> None:
        self.canvas.remove(name)
        self.chosen = None
        self.detail.clear()
        self.draw()

    def arrange(self) -> None:
        self.canvas.arrange()
        self.draw()

    def clear(self) -> None:
        self.canvas.entities.clear()
        self.canvas.edges.clear()
        self.detail.clear()
        self.draw()

    async def clicked(self, event: events.GenericEventArguments) -> None:
        if event.args.get("dataType") == "node":
            await self.choose(self.canvas.at(event.args["data"]["id"]))

    def draw(self) -> None:
        options = self.canvas.options(self.chosen)
        self.chart.options.clear()
        self.chart.options.update(options)
        self.chart.update()
        self.told.set_text(
            f"{len(self.canvas.entities):,} entities, {len(self.canvas.edges):,} edges"
        )
        self.filters.clear()
        with self.filters:
            for name in sorted({n.type for n in self.canvas.entities}):
                ui.checkbox(
                    name,
                    value=name not in self.canvas.hidden_types,
                    on_change=lambda e, n=name: self.show_type(n, shown=e.value),
                ).props("dense")

    def show_type(self, name: str, *, shown: bool) -> None:
        (self.canvas.hidden_types.discard if shown else self.canvas.hidden_types.add)(name)
        self.draw()


async def explore(page: Page, type_name: str | None, entity_id: str | None) -> None:
    catalog = await page.call(lambda g: g.schema.show(page.place.branch, at=page.place.at).catalog)
    if catalog is None:
        return
    if not catalog.nodes:
        ui.label("The schema has no node types yet. Write one on the page Data.")
        return
    known = type_name if type_name in catalog.node_types else None
    explorer = Explorer(page, catalog, known)
    if known and entity_id:
        await explorer.open(known, entity_id)
    else:
        await explorer.search()
