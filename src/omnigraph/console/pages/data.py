"""Change the graph: upload files to a branch, edit one entity, change the schema, ask a policy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from nicegui import events, ui

from omnigraph.catalog.model import Catalog, EntityType, NodeType, Property
from omnigraph.console import editor as editing
from omnigraph.console import facts
from omnigraph.console.facts import EntityName
from omnigraph.console.frame import Page, show_error
from omnigraph.console.pages.access import AccessPanel
from omnigraph.errors import LanguageError, OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.load.options import LoadReceipt
from omnigraph.values.scalars import BlobType, EnumType, ScalarKind, ScalarType, VectorType

_SHOWN_VIOLATIONS = 200
_MOST_BYTES = 200_000_000
_SUFFIXES = (".ndjson", ".jsonl", ".json", ".csv", ".tsv", ".parquet", ".arrow")
_INTEGERS = (ScalarKind.I32, ScalarKind.I64, ScalarKind.U32, ScalarKind.U64)


async def data(page: Page, type_name: str | None, entity_id: str | None) -> None:
    schema = await page.call(lambda g: g.schema.show(page.place.branch))
    if schema is None:
        return
    with ui.tabs() as tabs:
        upload, edit, change, access = (
            ui.tab(name) for name in ("Upload", "Edit", "Schema", "Access")
        )
    with ui.tab_panels(tabs, value=edit if type_name else upload).classes("w-full"):
        with ui.tab_panel(upload):
            UploadPanel(page, schema.catalog)
        with ui.tab_panel(edit):
            form = EntityForm(page, schema.catalog)
        with ui.tab_panel(change):
            SchemaPanel(page, schema.source)
        with ui.tab_panel(access):
            AccessPanel(page, schema.catalog)
    if type_name in schema.catalog.node_types and entity_id:
        await form.open(EntityName(type_name, entity_id))


class UploadPanel:
    """Files into a branch: first checked, then loaded."""

    def __init__(self, page: Page, catalog: Catalog) -> None:
        self.page = page
        self.folder = tempfile.TemporaryDirectory(prefix="omnigraph-console-")
        ui.context.client.on_delete(self.folder.cleanup)
        self.file: Path | None = None
        with ui.row().classes("items-end gap-2"):
            self.branch = ui.input(label="New branch", value="upload").classes("w-48")
            self.mode = ui.select(
                ["merge", "append", "patch", "overwrite"], label="Mode", value="merge"
            ).classes("w-32")
            types = [entity.name for entity in catalog.entity_types()]
            self.type = ui.select(types, label="Type of a table", clearable=True).classes("w-48")
        ui.upload(
            label=f"NDJSON, CSV or Parquet, at most {_MOST_BYTES // 1_000_000} MB",
            on_upload=self.uploaded,
            auto_upload=True,
            max_file_size=_MOST_BYTES,
        ).classes("w-full max-w-xl")
        self.told = ui.label("").classes("value").props('data-testid="upload-text"')
        self.found = ui.column().classes("w-full")
        self.load = ui.button("Load into the branch", on_click=self.loaded)
        self.load.set_enabled(False)

    async def uploaded(self, event: events.UploadEventArguments) -> None:
        name = PurePosixPath(event.file.name.replace("\\", "/")).name
        if not name.lower().endswith(_SUFFIXES):
            self.told.set_text(f"{facts.shortened(name, 80)}: use one of {', '.join(_SUFFIXES)}")
            return
        self.file = Path(self.folder.name) / name
        await event.file.save(self.file)
        await self.check()

    async def check(self) -> None:
        """Try the load without a commit, and list every row that breaks a rule."""
        self.found.clear()
        self.load.set_enabled(False)
        branch = self.page.place.branch
        try:
            receipt = await self.page.attempt(lambda g: self._run(g, branch, None, dry_run=True))
        except OmnigraphError as error:
            self._show_problems(error)
            return
        self.told.set_text(f"The checks passed: {_counts(receipt)}. Nothing is loaded yet.")
        self.load.set_enabled(True)

    def _run(self, graph: Graph, branch: str, source: str | None, *, dry_run: bool) -> LoadReceipt:
        return graph.load(
            str(self.file),
            self.mode.value,
            branch,
            from_branch=source,
            type=self.type.value,
            dry_run=dry_run,
            progress=False,
            message=None if dry_run or self.file is None else f"upload of {self.file.name}",
        )

    def _show_problems(self, error: OmnigraphError) -> None:
        violations = list(getattr(error, "violations", ()) or ())
        with self.found:
            for violation in violations[:_SHOWN_VIOLATIONS]:
                told = violation.to_dict() if hasattr(violation, "to_dict") else violation
                ui.label(_violation_text(told)).classes("value text-sm")
        self.told.set_text(facts.shortened(error.message, 600))

    async def loaded(self) -> None:
        branch = (self.branch.value or "").strip()
        receipt = await self.page.call(
            lambda g: self._run(g, branch, self.page.place.branch, dry_run=False)
        )
        if receipt is not None:
            self.told.set_text(f"Loaded into {branch}: {_counts(receipt)}.")
            with self.found:
                ui.link("Review the branch", self.page.url("review", source=branch))


def _counts(receipt: LoadReceipt) -> str:
    told = receipt.to_dict()
    return f"{told.get('total_entities', 0):,} entities"


def _violation_text(violation: Any) -> str:
    if not isinstance(violation, Mapping):
        return facts.shortened(str(violation), 400)
    where = " ".join(
        str(violation[key]) for key in ("file", "line", "row", "type", "id") if violation.get(key)
    )
    return facts.shortened(f"{where}: {violation.get('message', violation)}", 400)


class EntityForm:
    """One node as a form that knows the types of its properties."""

    def __init__(self, page: Page, catalog: Catalog) -> None:
        self.page = page
        self.catalog = catalog
        self.fields: dict[str, Any] = {}
        types = [node.name for node in catalog.nodes]
        with ui.row().classes("items-end gap-2"):
            self.type = ui.select(types, label="Type", value=types[0] if types else None)
            self.type.classes("w-48")
            self.id = ui.input(label="Id").classes("w-64")
            ui.button("Open", on_click=self.opened).props("outline")
            ui.button("New", on_click=self.new).props("flat")
        self.form = ui.column().classes("w-full max-w-xl gap-1")
        self.told = ui.label("").classes("value").props('data-testid="edit-text"')

    async def opened(self) -> None:
        await self.open(EntityName(self.type.value, self.id.value or ""))

    async def open(self, name: EntityName) -> None:
        self.type.set_value(name.type)
        self.id.set_value(name.id)
        place = self.page.place
        found = await self.page.call(lambda g: facts.read_entity(g, place, name))
        if found is None:
            self.told.set_text(f"No {name.type} {name.id!r} on {place.branch}.")
            return
        self.show(self.catalog.node_types[name.type], found, new=False)

    def new(self) -> None:
        self.show(self.catalog.node_types[self.type.value], {}, new=True)

    def show(self, node: NodeType, values: Mapping[str, Any], *, new: bool) -> None:
        self.form.clear()
        self.fields = {}
        with self.form:
            for prop in node.properties:
                if isinstance(prop.type, BlobType | VectorType):
                    continue
                field = _field(prop, values.get(prop.name))
                field.set_enabled(new or prop.name not in node.key)
                self.fields[prop.name] = field
            ui.button("Save", on_click=lambda: self.save(node, values, new=new))
        self.told.set_text("")

    async def save(self, node: NodeType, before: Mapping[str, Any], *, new: bool) -> None:
        try:
            row = form_values(node, {n: f.value for n, f in self.fields.items()}, before, new=new)
        except ValueError as error:
            self.told.set_text(str(error))
            return
        if not new and "id" in before and not node.key:
            row["id"] = before["id"]
        branch = self.page.place.branch
        mode = "append" if new else "patch"
        receipt = await self.page.call(
            lambda g: g.load([row], mode, branch, type=node.name, progress=False)
        )
        if receipt is not None:
            self.told.set_text(f"Saved on {branch}.")


def _field(prop: Property, value: Any) -> Any:
    label = f"{prop.name}: {prop.type}{'?' if prop.nullable else ''}"
    if isinstance(prop.type, EnumType):
        return ui.select(
            list(prop.type.values), label=label, value=value, clearable=prop.nullable
        ).classes("w-full")
    if isinstance(prop.type, ScalarType) and prop.type.kind is ScalarKind.BOOL:
        return ui.select({True: "true", False: "false"}, label=label, value=value, clearable=True)
    text = "" if value is None else value if isinstance(value, str) else facts.shown_value(value)
    return ui.input(label=label, value=text).classes("w-full").props(f'data-field="{prop.name}"')


def form_values(
    entity: EntityType, given: Mapping[str, Any], before: Mapping[str, Any], *, new: bool
) -> dict[str, Any]:
    """The row that a form describes: the key, and what differs from before."""
    row: dict[str, Any] = {}
    for prop in entity.properties:
        if prop.name not in given:
            continue
        value = _read_field(prop, given[prop.name])
        old = before.get(prop.name)
        same = value == old or (old is not None and str(value) == facts.shown_value(old))
        if new and value is None and prop.nullable:
            continue
        if prop.name in entity.key or new or not same:
            row[prop.name] = before[prop.name] if prop.name in entity.key and not new else value
    return row


def _read_field(prop: Property, given: Any) -> Any:
    if given is None or (given == "" and (prop.nullable or not _is_text(prop))):
        if prop.nullable:
            return None
        raise ValueError(f"{prop.name} needs a value")
    if not isinstance(given, str) or _is_text(prop) or isinstance(prop.type, EnumType):
        return given
    if isinstance(prop.type, ScalarType) and prop.type.kind in (
        ScalarKind.DATE,
        ScalarKind.DATETIME,
    ):
        return given
    try:
        value = json.loads(given)
    except json.JSONDecodeError:
        raise ValueError(f"{prop.name}: {given!r} is no {prop.type}") from None
    if (
        isinstance(prop.type, ScalarType)
        and prop.type.kind in _INTEGERS
        and not isinstance(value, int)
    ):
        raise ValueError(f"{prop.name}: {given!r} is no {prop.type}")
    return value


def _is_text(prop: Property) -> bool:
    return isinstance(prop.type, ScalarType) and prop.type.kind is ScalarKind.STRING


class SchemaPanel:
    """The schema as text, with the plan of a change beside it."""

    def __init__(self, page: Page, source: str) -> None:
        self.page = page
        with ui.row().classes("w-full gap-4 items-start"):
            with ui.column().classes("grow min-w-80"):
                self.editor = (
                    ui.codemirror(
                        source,
                        language="pg",  # type: ignore[arg-type]
                        theme="vscodeDark" if page.viewer.dark else "vscodeLight",
                    )
                    .classes("w-full h-96 border")
                    .props('aria-label="Schema text"')
                )
                with ui.row():
                    ui.button("Plan", on_click=self.plan).props("outline")
                    self.loss = ui.checkbox("Values may be lost")
                    self.apply = ui.button("Apply", on_click=self.applied)
                    self.apply.set_enabled(False)
            self.steps = ui.column().classes("w-96 max-w-full gap-1").props('data-testid="plan"')

    async def plan(self) -> None:
        text, branch, loss = self.editor.value, self.page.place.branch, bool(self.loss.value)
        self.steps.clear()
        self.apply.set_enabled(False)
        editing.mark_errors(self.editor, ())
        try:
            plan = await self.page.attempt(
                lambda g: g.schema.plan(text, branch=branch, allow_data_loss=loss)
            )
        except LanguageError as error:
            editing.mark_errors(self.editor, error.diagnostics)
            with self.steps:
                ui.label(facts.shortened(error.message)).classes("value mono text-sm text-negative")
            return
        except OmnigraphError as error:
            show_error(error)
            return
        with self.steps:
            ui.label("It can be applied." if plan.supported else "It cannot be applied.").classes(
                "font-bold"
            )
            ui.label(str(plan)).classes("value mono text-sm")
        self.apply.set_enabled(plan.supported)

    async def applied(self) -> None:
        text, branch, loss = self.editor.value, self.page.place.branch, bool(self.loss.value)
        done = await self.page.call(
            lambda g: g.schema.apply(text, branch=branch, allow_data_loss=loss)
        )
        if done is not None:
            ui.notify(f"The schema of {branch} is changed.", type="positive")
            self.apply.set_enabled(False)
