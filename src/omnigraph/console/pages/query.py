"""Write a query, run it, and look at the answer as a table, a graph, a chart or a plan."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from nicegui import ui

from omnigraph.catalog.model import Catalog
from omnigraph.console import editor as editing
from omnigraph.console.canvas import Canvas
from omnigraph.console.facts import EntityName, shortened, shown_value
from omnigraph.console.frame import Page, show_error, sign_in_again
from omnigraph.console.viewers import PastRun
from omnigraph.errors import LanguageError, OmnigraphError, Unauthenticated
from omnigraph.execute.query_types import QueryResult
from omnigraph.graph.handle import Graph
from omnigraph.plan.plan_text import QueryPlan
from omnigraph.query.compiler import CompiledQuery, ResultField, compile_query
from omnigraph.query.params import ParameterDecl
from omnigraph.stored_queries.entries import StoredQuery
from omnigraph.values.json_values import finite, json_value
from omnigraph.values.scalars import ScalarKind, ScalarType

_PAGE_ROWS = 100
_DRAWN_ROWS = 300
_CHART_ROWS = 500
_TIMEOUT = 120.0


class QueryPage:
    """The editor and the answer of one viewer."""

    def __init__(self, page: Page, catalog: Catalog, text: str) -> None:
        self.page = page
        self.catalog = catalog
        self.words = editing.words_of(catalog)
        self.result: QueryResult | None = None
        self.shown_fields: Sequence[ResultField] = ()
        self.cancel: threading.Event | None = None
        self.first = 0
        self.fields: dict[str, Any] = {}
        with ui.row().classes("w-full gap-4 items-start"):
            with ui.column().classes("grow min-w-80 gap-1"):
                self.editor = (
                    ui.codemirror(
                        text,
                        language="gq",  # type: ignore[arg-type]
                        theme="vscodeDark" if page.viewer.dark else "vscodeLight",
                        on_change=lambda _: self.typed(),
                        keymap={"Mod-Enter": lambda _: self.run()},
                    )
                    .classes("w-full h-56 border")
                    .props('aria-label="Query text"')
                )
                self.offered = ui.row().classes("gap-1 min-h-8")
                self.problem = ui.label("").classes("value mono text-sm text-negative")
                self.problem.props('data-testid="problem"')
                self.form = ui.row().classes("gap-2")
                with ui.row().classes("gap-2"):
                    ui.button("Run", icon="play_arrow", on_click=self.run)
                    self.stop = ui.button("Cancel", on_click=self.cancelled).props("flat")
                    self.stop.set_visibility(False)
                    ui.button("Explain", on_click=self.explain).props("flat")
                    ui.button("Profile", on_click=self.profile).props("flat")
            with ui.column().classes("w-64 gap-1"):
                self.stored = ui.column().classes("gap-0 w-full")
                ui.label("Your runs").classes("font-bold")
                self.past = ui.column().classes("gap-0 w-full max-h-64 overflow-auto")
        self.told = ui.label("").props('data-testid="answer"')
        with ui.tabs() as tabs:
            table, drawing, chart, plan = (
                ui.tab(name) for name in ("Table", "Graph", "Chart", "Plan")
            )
        self.tabs, self.plan_tab, self.table_tab = tabs, plan, table
        with ui.tab_panels(tabs, value=table).classes("w-full"):
            with ui.tab_panel(table):
                self.table = ui.column().classes("w-full overflow-auto")
            with ui.tab_panel(drawing):
                self.drawing = ui.column().classes("w-full")
            with ui.tab_panel(chart):
                self.chart = ui.column().classes("w-full")
            with ui.tab_panel(plan):
                self.plan = ui.column().classes("w-full")
        self.typed()
        self.show_runs()

    def typed(self) -> None:
        """Check the text, ask for its parameters, and offer words."""
        text = self.editor.value
        self.offered.clear()
        with self.offered:
            for word in editing.completions(text, self.words):
                ui.button(word, on_click=lambda _, w=word: self.complete(w)).props(
                    "dense outline no-caps size=sm"
                )
        compiled = self.compiled()
        if compiled is not None:
            self.ask_for(compiled.parameters)

    def complete(self, word: str) -> None:
        text = self.editor.value
        while text and (text[-1].isalnum() or text[-1] == "_"):
            text = text[:-1]
        self.editor.set_value(text + word)

    def compiled(self) -> CompiledQuery | None:
        """The query as the compiler understands it; what is wrong is shown where it is."""
        text = self.editor.value
        if not text.strip():
            self.problem.set_text("")
            editing.mark_errors(self.editor, ())
            return None
        try:
            found = compile_query(text, self.catalog, None, "query")
        except LanguageError as error:
            self.problem.set_text(shortened(error.message))
            editing.mark_errors(self.editor, error.diagnostics)
            return None
        except OmnigraphError as error:
            self.problem.set_text(shortened(error.message))
            return None
        self.problem.set_text("")
        editing.mark_errors(self.editor, ())
        return found

    def ask_for(self, parameters: tuple[ParameterDecl, ...]) -> None:
        """A field for each parameter, which keeps what was typed before."""
        if [p.name for p in parameters] == list(self.fields):
            return
        kept = {name: given.value for name, given in self.fields.items()}
        self.form.clear()
        self.fields = {}
        with self.form:
            for parameter in parameters:
                self.fields[parameter.name] = ui.input(
                    label=str(parameter), value=kept.get(parameter.name, "")
                ).props(f'data-param="{parameter.name}"')

    def parameters(self, compiled: CompiledQuery) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for parameter in compiled.parameters:
            text = self.fields[parameter.name].value if parameter.name in self.fields else ""
            if text == "" and parameter.optional:
                continue
            found[parameter.name] = parameter_value(parameter, text)
        return found

    async def run(self) -> None:
        compiled = self.compiled()
        if compiled is None:
            return
        text, page = self.editor.value, self.page
        began = time.monotonic()
        rows: int | None = None
        failure: str | None = None
        self.cancel = cancel = threading.Event()
        self.stop.set_visibility(True)
        try:
            params = self.parameters(compiled)
            if compiled.is_read:
                result = await page.attempt(
                    lambda g: g.query(
                        text,
                        None,
                        params,
                        page.place.branch,
                        at=page.place.at,
                        timeout=_TIMEOUT,
                        cancel=cancel,
                    )
                )
                rows = len(result)
                self.shown_fields = compiled.operation.fields
                self.show(result, time.monotonic() - began)
            else:
                receipt = await page.attempt(
                    lambda g: g.mutate(text, None, params, page.place.branch)
                )
                self.told.set_text(
                    f"{receipt.affected_nodes} nodes and {receipt.affected_edges} edges changed"
                )
        except Unauthenticated as error:
            sign_in_again(error)
            return
        except OmnigraphError as error:
            failure = shortened(error.message, 300)
            self.told.set_text(failure)
            show_error(error)
        except ValueError as error:
            failure = shortened(str(error), 300)
            self.told.set_text(failure)
        finally:
            self.stop.set_visibility(False)
        seconds = time.monotonic() - began
        page.viewer.remember(PastRun(text, page.place.branch, rows, seconds, failure))
        self.show_runs()

    def cancelled(self) -> None:
        if self.cancel is not None:
            self.cancel.set()

    def show(self, result: QueryResult, seconds: float) -> None:
        self.result, self.first = result, 0
        self.told.set_text(f"{len(result):,} rows in {seconds * 1000:,.0f} ms")
        self.show_table()
        self.show_drawing()
        self.show_chart()
        if self.tabs.value == "Plan":
            self.tabs.set_value(self.table_tab)

    def show_table(self) -> None:
        result = self.result
        assert result is not None
        last = min(self.first + _PAGE_ROWS, len(result))
        rows = [
            {"_row": self.first + i, **{str(c): shown_value(v) for c, v in enumerate(row.values())}}
            for i, row in enumerate(result[self.first : last])
        ]
        columns = [
            {"name": str(i), "label": name, "field": str(i), "align": "left"}
            for i, name in enumerate(result.columns)
        ]
        self.table.clear()
        with self.table:
            with ui.row().classes("items-center gap-2"):
                ui.label(f"rows {self.first + 1 if last else 0:,} to {last:,} of {len(result):,}")
                ui.button(icon="chevron_left", on_click=lambda: self.turn(-1)).props(
                    'flat dense aria-label="Earlier rows"'
                ).set_enabled(self.first > 0)
                ui.button(icon="chevron_right", on_click=lambda: self.turn(1)).props(
                    'flat dense aria-label="Later rows"'
                ).set_enabled(last < len(result))
                for kind in ("csv", "parquet", "json"):
                    ui.button(kind.upper(), on_click=lambda _, k=kind: self.download(k)).props(
                        "flat dense"
                    )
            ui.table(columns=columns, rows=rows, row_key="_row").props(
                "dense flat hide-pagination"
            ).classes("w-full")

    def turn(self, pages: int) -> None:
        assert self.result is not None
        last = max(0, (len(self.result) - 1) // _PAGE_ROWS * _PAGE_ROWS)
        self.first = min(max(0, self.first + pages * _PAGE_ROWS), last)
        self.show_table()

    async def download(self, kind: str) -> None:
        result = self.result
        assert result is not None
        content = await self.page.call(lambda _: written(result, kind))
        if content is not None:
            ui.download(content, f"answer.{kind}")

    def show_drawing(self) -> None:
        result = self.result
        assert result is not None
        canvas = drawn_result(result, self.shown_fields)
        self.drawing.clear()
        with self.drawing:
            if not canvas.entities:
                ui.label(
                    "Return whole entities, for example `return { $a, $e, $b }`, to draw them."
                )
                return
            canvas.arrange()
            ui.label(f"{len(canvas.entities)} entities, {len(canvas.edges)} edges")
            ui.echart(canvas.options()).classes("w-full h-96")

    def show_chart(self) -> None:
        result = self.result
        assert result is not None
        self.chart.clear()
        part = result[0 : min(len(result), _CHART_ROWS)]
        numeric = [c for c in result.columns if part and all(_is_number(r[c]) for r in part)]
        with self.chart:
            if not numeric:
                ui.label("A chart needs a column of numbers.")
                return
            other = next((c for c in result.columns if c not in numeric), None)
            kind = ui.toggle({"bar": "Bars", "line": "Line"}, value="bar")
            names = [
                shortened(shown_value(r[other]), 40) if other else str(i + 1)
                for i, r in enumerate(part)
            ]
            series = {c: [r[c] for r in part] for c in numeric}
            drawn = ui.echart(chart_options("bar", names, series)).classes("w-full h-96")

            def redraw() -> None:
                drawn.options.clear()
                drawn.options.update(chart_options(kind.value, names, series))
                drawn.update()

            kind.on_value_change(redraw)

    async def explain(self) -> None:
        await self._planned(measure=False)

    async def profile(self) -> None:
        await self._planned(measure=True)

    async def _planned(self, *, measure: bool) -> None:
        compiled = self.compiled()
        if compiled is None or not compiled.is_read:
            return
        page, text = self.page, self.editor.value
        try:
            params = self.parameters(compiled)
        except ValueError as error:
            self.told.set_text(str(error))
            return

        def work(graph: Graph) -> QueryPlan:
            make = graph.profile if measure else graph.explain
            return make(text, None, params, page.place.branch, at=page.place.at)

        plan = await page.call(work)
        if plan is None:
            return
        self.plan.clear()
        with self.plan:
            if plan.seconds is not None:
                ui.label(f"{plan.seconds * 1000:,.2f} ms in all")
            for op in plan.operators:
                with (
                    ui.row()
                    .classes("gap-3 items-baseline")
                    .style(f"padding-left: {op.depth * 2}rem")
                ):
                    ui.label(op.name).classes("font-bold")
                    ui.label(op.details).classes("mono text-sm value")
                    if op.actual_rows is not None and op.seconds is not None:
                        ui.label(f"{op.actual_rows:,} rows").classes("text-sm")
                        ui.label(f"{op.seconds * 1000:,.2f} ms").classes("text-sm")
                    elif op.estimated_rows is not None:
                        ui.label(f"~{op.estimated_rows:,} rows").classes("text-sm")
                        ui.label(op.reason).classes("text-sm opacity-70")
        self.tabs.set_value(self.plan_tab)

    async def show_stored(self) -> None:
        """The stored queries of the graph. A click writes a call of one into the editor."""
        page = self.page
        try:
            found = await page.attempt(lambda g: g.queries.list(page.place.branch))
        except OmnigraphError:
            return  # stored queries are an offer; the page works without them
        if not found:
            return
        with self.stored:
            ui.label("Stored queries").classes("font-bold")
            for entry in found:
                button = ui.button(entry.name, on_click=lambda _, e=entry: self.ask_stored(e))
                button.props("flat no-caps dense align=left size=sm").classes("w-full")
                button.tooltip(shortened(entry.description or entry.name, 200))

    def ask_stored(self, entry: StoredQuery) -> None:
        """A dialog with the parameters of a stored query."""
        with ui.dialog() as dialog, ui.card().classes("w-96"):
            ui.label(entry.name).classes("text-lg font-bold")
            ui.label(entry.description or "").classes("value")
            fields = {p: ui.input(label=f"{p.name}: {p.type}") for p in entry.params}

            async def run() -> None:
                dialog.close()
                params = {
                    p.name: field_value(field.value, is_text=p.type == ScalarKind.STRING.value)
                    for p, field in fields.items()
                    if field.value not in ("", None)
                }
                await self.run_stored(entry, params)

            ui.button("Run", on_click=run)
        dialog.open()

    async def run_stored(self, entry: StoredQuery, params: dict[str, Any]) -> None:
        page, began = self.page, time.monotonic()
        found = await page.call(lambda g: g.queries.run(entry.name, params, page.place.branch))
        if isinstance(found, QueryResult):
            self.shown_fields = ()
            self.show(found, time.monotonic() - began)
        elif found is not None:
            self.told.set_text(
                f"{found.affected_nodes} nodes, {found.affected_edges} edges changed"
            )

    def show_runs(self) -> None:
        self.past.clear()
        with self.past:
            for run in self.page.viewer.runs:
                end = run.error or f"{run.rows if run.rows is not None else 'a write'} rows"
                told = f"{shortened(' '.join(run.text.split()), 60)} — {shortened(end, 40)}"
                ui.button(told, on_click=lambda _, r=run: self.editor.set_value(r.text)).props(
                    "flat no-caps dense align=left size=sm"
                ).classes("w-full")


def parameter_value(parameter: ParameterDecl, text: str) -> Any:
    if text == "" and not _is_text(parameter):
        raise ValueError(f"give a value for ${parameter.name}")
    return field_value(text, is_text=_is_text(parameter))


def _is_text(parameter: ParameterDecl) -> bool:
    return isinstance(parameter.type, ScalarType) and parameter.type.kind is ScalarKind.STRING


def field_value(text: str, *, is_text: bool) -> Any:
    """What a field says: text of a String stays text, everything else is JSON or text."""
    if is_text:
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def written(result: QueryResult, kind: str) -> bytes:
    """An answer as a file."""
    if kind == "json":
        rows = [finite(json_value(row)) for row in result.to_pylist()]
        return json.dumps(rows, ensure_ascii=False, default=str).encode()
    sink = io.BytesIO()
    table = result.to_arrow()
    if kind == "parquet":
        pa_parquet.write_table(table, sink)
    else:
        pa_csv.write_csv(_flat(table), sink)
    return sink.getvalue()


def _flat(table: pa.Table) -> pa.Table:
    """Nested columns as JSON text, because a CSV cell is one value."""
    for i, column in enumerate(table.schema):
        if pa.types.is_nested(column.type):
            texts = [
                None if v is None else json.dumps(json_value(v), ensure_ascii=False, default=str)
                for v in table.column(i).to_pylist()
            ]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
    return table


def drawn_result(result: QueryResult, fields: Sequence[ResultField]) -> Canvas:
    """The nodes of an answer, and the edges among them. `fields` say which columns have them."""
    canvas = Canvas()
    nodes = [field for field in fields if field.kind == "node"]
    edges = [field for field in fields if field.kind == "edge"]
    rows = result[0 : min(len(result), _DRAWN_ROWS)]
    for row in rows:
        for field in nodes:
            if row[field.name] is not None and canvas.room:
                canvas.add(field.type, row[field.name], None)
    by_id = {name.id: name for name in canvas.entities}
    for row in rows:
        for field in edges:
            edge = row[field.name]
            ends = (by_id.get(edge["from"]), by_id.get(edge["to"])) if edge else (None, None)
            if ends[0] is not None and ends[1] is not None:
                canvas.link(EntityName(field.type, edge["id"]), ends[0], ends[1])
    return canvas


def chart_options(kind: str, names: list[str], series: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {
        "tooltip": {"show": False},
        "legend": {},
        "xAxis": {"type": "category", "data": names},
        "yAxis": {"type": "value"},
        "series": [{"type": kind, "name": name, "data": values} for name, values in series.items()],
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


async def query(page: Page, text: str | None) -> None:
    catalog = await page.call(lambda g: g.schema.show(page.place.branch, at=page.place.at).catalog)
    if catalog is None:
        return
    if text is None:
        first = catalog.nodes[0].name if catalog.nodes else "Type"
        text = f"match {{ $x: {first} }}\nreturn {{ $x }}\nlimit 20\n"
    shown = QueryPage(page, catalog, text)
    await shown.show_stored()
