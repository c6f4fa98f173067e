"""Compare a branch with another one, decide its conflicts, merge it; the history of a branch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import events, ui

from omnigraph.console import facts
from omnigraph.console.arrangement import CommitSpot, lanes
from omnigraph.console.frame import Page, show_error
from omnigraph.diff.change import Change, ChangePage
from omnigraph.errors import MergeConflicts, OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.manifest.records import Commit
from omnigraph.merge.conflicts import Conflict, ConflictKind, MergePreview, MergeResult

_PAGE_CHANGES = 50
_HISTORY = 60
_ROW_PIXELS = 34
_MARKS = {"insert": "+", "update": "~", "delete": "-"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One page of what a branch changed, and the commits that did it."""

    changes: ChangePage
    commits: list[Commit]


class ReviewPage:
    """The comparison of two branches by one viewer."""

    def __init__(self, page: Page, branches: list[str], source: str | None) -> None:
        self.page = page
        others = [name for name in branches if name != "main"]
        chosen = source if source in branches else next(iter(others), "main")
        self.filter_type: str | None = None
        self.filter_author: str | None = None
        self.cursor: str | None = None
        self.choices: dict[int, dict[str, Any]] = {}
        with ui.row().classes("items-end gap-2"):
            self.source = ui.select(
                branches, label="Branch to review", value=chosen, on_change=self.compare
            ).classes("w-48")
            self.target = ui.select(
                branches, label="Merge into", value="main", on_change=self.compare
            ).classes("w-48")
            self.types = ui.select([], label="Type", clearable=True, on_change=self.filtered)
            self.types.classes("w-40")
            self.authors = ui.select([], label="Author", clearable=True, on_change=self.filtered)
            self.authors.classes("w-40")
        self.told = ui.label("").props('data-testid="diff-text"')
        with ui.row().classes("w-full gap-4 items-start"):
            self.changes = ui.column().classes("grow min-w-80 gap-2")
            self.side = ui.column().classes("w-96 max-w-full gap-2")
        with self.side, ui.card().classes("w-full"):
            ui.label("Merge").classes("text-lg font-bold")
            self.message = ui.textarea(label="Comment, which becomes the message").classes("w-full")
            self.remove = ui.checkbox("Delete the branch afterwards")
            with ui.row():
                ui.button("Preview", on_click=self.preview).props("outline")
                ui.button("Merge", on_click=self.merge)
            self.conflicts = ui.column().classes("w-full gap-2")
        ui.label("History").classes("text-lg font-bold mt-4")
        self.history = ui.column().classes("w-full overflow-x-auto")

    async def compare(self) -> None:
        self.cursor = None
        self.choices = {}
        self.conflicts.clear()
        self.changes.clear()
        await self.more()
        await self.show_history()

    async def filtered(self) -> None:
        self.filter_type, self.filter_author = self.types.value, self.authors.value
        self.cursor = None
        self.changes.clear()
        await self.more()

    async def more(self) -> None:
        """The next changes of the comparison."""
        source, target = self.source.value, self.target.value
        types = [self.filter_type] if self.filter_type else None
        cursor, author = self.cursor, self.filter_author

        def read(graph: Graph) -> Compared:
            ahead = facts.ahead_of(graph, source, target)
            page = graph.diff(
                base=target, branch=source, types=types, limit=_PAGE_CHANGES, cursor=cursor
            )
            if author:
                wanted = facts.of_authors(graph, ahead, author)
                kept = [c for c in page if (c.type.name, c.id) in wanted]
                page = ChangePage(kept, page.next_cursor)
            return Compared(page, ahead)

        found = await self.page.call(read)
        if found is None:
            return
        self.cursor = found.changes.next_cursor
        self._offer_filters(found)
        with self.changes:
            for change in found.changes:
                _changed(change)
            if self.cursor is not None:
                button = ui.button("More changes").props("flat")
                button.on_click(lambda: self._next(button))
            elif not self.changes.default_slot.children:
                ui.label("No difference.").classes("opacity-70")
        more = " and more" if self.cursor else ""
        self.told.set_text(
            f"{len(found.commits)} commits, {len(found.changes)} changes{more} on this page"
        )

    async def _next(self, button: ui.button) -> None:
        button.delete()
        await self.more()

    def _offer_filters(self, found: Compared) -> None:
        types = sorted({c.type.name for c in found.changes} | set(self.types.options))
        authors = sorted({c.actor_id for c in found.commits if c.actor_id})
        self.types.set_options(types)
        self.authors.set_options(authors)

    async def preview(self) -> None:
        source, target = self.source.value, self.target.value
        found: Any = await self.page.call(lambda g: g.preview_merge(source, target))
        if isinstance(found, MergePreview):
            self.show_conflicts(found.conflicts, found.conflict_count)
            with self.conflicts:
                number = f"{len(found.changes)}{'+' if found.more_changes else ''}"
                ui.label(f"{found.outcome.replace('_', ' ')}: {number} changes would be made")

    def show_conflicts(self, conflicts: Sequence[Conflict], count: int) -> None:
        self.conflicts.clear()
        self.choices = {}
        with self.conflicts:
            if not conflicts:
                ui.label("No conflicts.").classes("text-positive")
                return
            ui.label(f"{count:,} conflicts. Decide each of them, then merge.").classes("font-bold")
            for number, conflict in enumerate(conflicts[:_PAGE_CHANGES]):
                self._conflict(number, conflict)

    def _conflict(self, number: int, conflict: Conflict) -> None:
        what = f"{conflict.type_name} {conflict.entity_id}".strip()
        if conflict.property:
            what += f" · {conflict.property}"
        with ui.card().classes("w-full gap-1").props(f'data-conflict="{number}"'):
            ui.label(what).classes("font-bold value")
            ui.label(facts.shortened(conflict.message, 300)).classes("text-sm value")
            schema = conflict.kind == ConflictKind.SCHEMA_DIVERGENCE.value
            options = {} if schema else {"base": f"base: {facts.shown_value(conflict.base)}"}
            options["ours"] = f"ours ({self.target.value}): {facts.shown_value(conflict.ours)}"
            options["theirs"] = (
                f"theirs ({self.source.value}): {facts.shown_value(conflict.theirs)}"
            )
            if not schema and conflict.property:
                options["value"] = "another value"
            given = ui.input(label="Value as JSON").classes("w-full")
            given.set_visibility(False)

            def chosen(e: events.ValueChangeEventArguments[Any]) -> None:
                given.set_visibility(e.value == "value")
                self.choices[number] = {"conflict": conflict, "take": e.value, "given": given}

            ui.radio(options, on_change=chosen).classes("value")

    def resolutions(self) -> list[dict[str, Any]]:
        return [
            resolution(choice["conflict"], choice["take"], choice["given"].value)
            for choice in self.choices.values()
        ]

    async def merge(self) -> None:
        source, target, message = self.source.value, self.target.value, self.message.value or None
        remove = bool(self.remove.value)
        try:
            decided = self.resolutions()
            result = await self.page.attempt(
                lambda g: g.merge(
                    source, target, resolutions=decided, message=message, delete_branch=remove
                )
            )
        except MergeConflicts as error:
            self.show_conflicts(error.conflicts, error.total)
            ui.notify(f"{error.total:,} conflicts are open.", type="warning")
            return
        except OmnigraphError as error:
            show_error(error)
            return
        except ValueError as error:
            ui.notify(f"A value is not JSON: {error}", type="warning")
            return
        assert isinstance(result, MergeResult)
        ui.notify(f"{source} into {target}: {result.outcome.replace('_', ' ')}", type="positive")
        if result.branch_deleted:
            ui.navigate.to(self.page.url("review", source=None, branch="main"))
            return
        await self.compare()

    async def show_history(self) -> None:
        source = self.source.value
        commits = await self.page.call(lambda g: g.commits.list(source, _HISTORY))
        if commits is None:
            return
        spots = lanes(commits)
        self.history.clear()
        with self.history, ui.row().classes("gap-4 items-start flex-nowrap w-full"):
            ui.html(history_drawing(spots), sanitize=False)
            with ui.column().classes("gap-0 grow"):
                for spot in spots:
                    self._commit_row(spot.commit)

    def _commit_row(self, commit: Commit) -> None:
        with ui.row().classes("items-center gap-2 flex-nowrap").style(f"height: {_ROW_PIXELS}px"):
            ui.label(commit.created_at_rfc3339[:19]).classes("mono text-xs")
            ui.label(facts.shortened(commit.message or commit.operation, 60)).classes("truncate")
            ui.label(commit.actor_id or "").classes("text-xs opacity-70")
            name = commit.graph_commit_id
            ui.button(icon="visibility", on_click=lambda: self.show_commit(commit)).props(
                'flat dense size=sm aria-label="Show changes"'
            )
            ui.button(icon="undo", on_click=lambda: self.revert(name)).props(
                'flat dense size=sm aria-label="Revert"'
            )
            ui.button(icon="content_copy", on_click=lambda: self.pick(name)).props(
                'flat dense size=sm aria-label="Cherry-pick"'
            )

    async def show_commit(self, commit: Commit) -> None:
        if commit.parent_commit_id is None:
            ui.notify("The first commit has nothing before it.")
            return
        found = await self.page.call(
            lambda g: g.commits.changes(commit.graph_commit_id, limit=_PAGE_CHANGES)
        )
        if found is None:
            return
        with ui.dialog() as dialog, ui.card().classes("w-full max-w-3xl"):
            ui.label(commit.message or commit.operation).classes("text-lg font-bold value")
            for change in found:
                _changed(change)
            if found.next_cursor:
                ui.label(f"Only the first {_PAGE_CHANGES} changes are shown.")
            ui.button("Close", on_click=dialog.close).props("flat")
        dialog.open()

    async def revert(self, commit_id: str) -> None:
        source = self.source.value
        done = await self.page.call(lambda g: g.revert(commit_id, source))
        if done is not None:
            ui.notify(f"Reverted on {source}.", type="positive")
            await self.compare()

    async def pick(self, commit_id: str) -> None:
        target = self.target.value
        done = await self.page.call(lambda g: g.cherry_pick(commit_id, target))
        if done is not None:
            ui.notify(f"Made again on {target}.", type="positive")
            await self.compare()


def _changed(change: Change) -> None:
    """One change: its entity, and its values before and after side by side."""
    with ui.card().classes("w-full gap-1 p-2").props(f'data-op="{change.op}"'):
        ui.label(f"{_MARKS[change.op]} {change.type.name} {change.id}").classes("font-bold value")
        with ui.grid(columns="minmax(6rem, auto) 1fr 1fr").classes("w-full gap-x-3 gap-y-0"):
            for name, before, after in facts.changed_rows(change):
                ui.label(name).classes("opacity-70")
                ui.label(before).classes("value" + (" gone" if before else ""))
                ui.label(after).classes("value" + (" new" if after else ""))


def resolution(conflict: Conflict, take: str, given: str) -> dict[str, Any]:
    """A decision about one conflict, as `Graph.merge` takes it."""
    found: dict[str, Any] = {"type_name": conflict.type_name}
    if conflict.kind != ConflictKind.SCHEMA_DIVERGENCE.value:
        found["entity_id"] = conflict.entity_id
    if conflict.property is not None:
        found["property"] = conflict.property
    if take == "value":
        found["value"] = json.loads(given)
    else:
        found["take"] = take
    return found


def history_drawing(spots: Sequence[CommitSpot]) -> str:
    """The commits of a history with lines to their parents, as SVG. It contains only numbers."""
    rows = {spot.commit.graph_commit_id: spot for spot in spots}
    lines = [
        f'<line x1="{_x(spot)}" y1="{_y(spot)}" x2="{_x(rows[p])}" y2="{_y(rows[p])}" '
        'stroke="#868e96" stroke-width="2"/>'
        for spot in spots
        for p in spot.parents
    ]
    dots = [f'<circle cx="{_x(spot)}" cy="{_y(spot)}" r="5" fill="#4c6ef5"/>' for spot in spots]
    width = 24 * (1 + max((spot.lane for spot in spots), default=0))
    height = _ROW_PIXELS * len(spots)
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="Commits and their parents">'
        f"{''.join(lines)}{''.join(dots)}</svg>"
    )


def _x(spot: CommitSpot) -> int:
    return spot.lane * 24 + 12


def _y(spot: CommitSpot) -> int:
    return spot.row * _ROW_PIXELS + _ROW_PIXELS // 2


async def review(page: Page, source: str | None) -> None:
    branches = await page.call(lambda g: [branch.name for branch in g.branches.list()])
    if branches is None:
        return
    shown = ReviewPage(page, branches, source)
    await shown.compare()
