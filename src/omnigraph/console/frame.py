"""The frame of every page: the header, the place that is shown, and calls of the graph.

A page is built at once and reads the graph after the browser is connected, so a slow server never
holds a page back. Calls run in threads. An error is shown where the viewer looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from nicegui import app, ui

from omnigraph.console.facts import ShownState, shortened
from omnigraph.console.viewers import Viewer, Viewers
from omnigraph.errors import OmnigraphError, Unauthenticated
from omnigraph.graph.handle import Graph

_R = TypeVar("_R")

MOUNT = "/console"
PAGES = {
    "": "Overview",
    "explore": "Explore",
    "query": "Query",
    "review": "Review",
    "data": "Data",
}
_ICONS = {
    "": "dashboard",
    "explore": "hub",
    "query": "terminal",
    "review": "rate_review",
    "data": "upload_file",
}
_TELLS_OF_COMMITS = ("explore", "query", "review")
_LIVE_SECONDS = 2.0
_COMMITS_OFFERED = 200


@dataclass(slots=True)
class Page:
    """One open page of one viewer."""

    viewers: Viewers
    viewer: Viewer
    name: str
    graph_id: str
    place: ShownState
    busy: ui.linear_progress | None = None
    _calls: int = 0

    def graph(self) -> Graph:
        return self.viewers.graph(self.viewer, self.graph_id)

    def url(self, name: str | None = None, **changes: str | None) -> str:
        """The address of a page of the same graph and place, with some values changed."""
        given: dict[str, str | None] = {
            "graph": self.graph_id,
            "branch": self.place.branch,
            "at": self.place.at,
            **changes,
        }
        query = urlencode({key: value for key, value in given.items() if value})
        return f"/{self.name if name is None else name}?{query}"

    async def call(self, work: Callable[[Graph], _R]) -> _R | None:
        """Run `work` in a thread; an error is shown, and the result is then None."""
        try:
            return await self.attempt(work)
        except Unauthenticated as error:
            sign_in_again(error)
        except OmnigraphError as error:
            show_error(error)
        return None

    async def attempt(self, work: Callable[[Graph], _R]) -> _R:
        """Run `work` in a thread; errors are the caller's to show."""
        self._calls += 1
        if self.busy is not None:
            self.busy.set_visibility(True)
        try:
            return await asyncio.to_thread(lambda: work(self.graph()))
        finally:
            self._calls -= 1
            if self.busy is not None and self._calls == 0:
                self.busy.set_visibility(False)


def show_error(error: OmnigraphError) -> None:
    ui.notify(
        shortened(error.message, 600),
        type="negative",
        multi_line=True,
        close_button="Close",
        timeout=0,
    )


def sign_in_again(error: Unauthenticated) -> None:
    ui.navigate.to(f"/sign-in?{urlencode({'why': shortened(error.message, 200)})}")


def viewer_of(viewers: Viewers) -> Viewer:
    return viewers.of(str(app.storage.browser["id"]))


def framed(
    viewers: Viewers,
    name: str,
    graph: str | None,
    branch: str | None,
    at: str | None,
    fill: Callable[[Page], Awaitable[Any]],
) -> None:
    """Build the frame, and fill the page when the browser is connected."""
    viewer = viewer_of(viewers)
    if viewers.source.asks_for_token and viewer.token is None:
        ui.navigate.to("/sign-in")
        return
    page = Page(
        viewers,
        viewer,
        name,
        graph or viewers.source.default_graph,
        ShownState(branch or "main", at or None),
    )
    ui.dark_mode(viewer.dark)
    ui.colors(primary="#3b5bdb")
    ui.add_css(_STYLE)
    ui.page_title(f"{PAGES[name]} · {page.graph_id} · OmniGraph")
    _header(page)
    page.busy = ui.linear_progress(show_value=False).props("indeterminate").classes("busy")
    page.busy.set_visibility(False)
    body = ui.column().classes("w-full p-4 gap-4")

    async def begin() -> None:
        with body:
            await fill(page)
        if name in _TELLS_OF_COMMITS:
            watch_head(page, tell)

    async def tell() -> None:
        with body:
            ui.notify(
                f"{page.place.branch} has a new commit. Reload the page to see it.", type="info"
            )

    ui.timer(0.01, begin, once=True)


def _header(page: Page) -> None:
    with ui.header().classes("items-center gap-2 px-3 py-1"):
        ui.link("OmniGraph", page.url("")).classes("text-white text-lg font-bold no-underline wide")
        with ui.row().classes("gap-0 flex-nowrap").props('role=navigation aria-label="Pages"'):
            for name, title in PAGES.items():
                link = ui.link(target=page.url(name)).classes("nav text-white no-underline")
                link.props(f'aria-label="{title}"')
                if name == page.name:
                    link.classes("active").props('aria-current="page"')
                with link:
                    ui.icon(_ICONS[name])
                    ui.label(title).classes("wide")
        ui.space()
        state = ui.label("").classes("text-sm truncate max-w-xs").props('data-testid="place"')
        state.set_text(_place_text(page.place))
        where = ui.button(icon="account_tree").props('flat dense color=white aria-label="Branch"')
        with where, ui.menu().props("persistent=false") as menu:
            chooser = ui.column().classes("p-3 gap-2 w-80")
        menu.on("show", lambda: _offer_places(page, chooser))
        ui.button(icon="dark_mode", on_click=lambda: _toggle_dark(page)).props(
            'flat dense color=white aria-label="Light or dark"'
        )
        if page.viewers.source.asks_for_token:
            ui.button(icon="logout", on_click=lambda: _sign_out(page)).props(
                'flat dense color=white aria-label="Sign out"'
            )


def _place_text(place: ShownState) -> str:
    return place.branch if place.at is None else f"{place.branch} at {shortened(place.at, 30)}"


async def _offer_places(page: Page, chooser: ui.column) -> None:
    """The branches, tags and commits that a viewer can go to."""

    def read(graph: Graph) -> tuple[list[str], list[str], list[Any]]:
        return (
            [branch.name for branch in graph.branches.list()],
            [tag.name for tag in graph.tags.list()],
            graph.commits.list(page.place.branch, _COMMITS_OFFERED, first_parent=True),
        )

    found = await page.call(read)
    if found is None:
        return
    branches, tags, commits = found
    chooser.clear()
    with chooser:
        ui.select(
            branches,
            label="Branch",
            value=page.place.branch if page.place.branch in branches else None,
            with_input=True,
            on_change=lambda e: ui.navigate.to(page.url(branch=e.value, at=None)),
        ).classes("w-full").props('data-testid="branch"')
        if tags:
            ui.select(
                tags,
                label="Tag",
                on_change=lambda e: ui.navigate.to(page.url(at=e.value)),
            ).classes("w-full")
        ids = [commit.graph_commit_id for commit in reversed(commits)]
        now = ids.index(page.place.at) if page.place.at in ids else len(ids) - 1
        told = ui.label(_commit_text(commits[len(ids) - 1 - now])).classes("text-sm")
        told.props('data-testid="commit"')
        slider = ui.slider(min=0, max=max(1, len(ids) - 1), step=1, value=now)
        slider.props('aria-label="Time travel"')
        slider.on_value_change(
            lambda e: told.set_text(_commit_text(commits[len(ids) - 1 - int(e.value)]))
        )

        def travel() -> None:
            position = int(slider.value)
            newest = position == len(ids) - 1
            ui.navigate.to(page.url(at=None if newest else ids[position]))

        ui.button("Go to this commit", on_click=travel).props("dense")


def _commit_text(commit: Any) -> str:
    what = commit.message or commit.operation
    return f"{commit.created_at_rfc3339[:19]} {shortened(what, 60)}"


def _toggle_dark(page: Page) -> None:
    page.viewer.dark = not page.viewer.dark
    ui.navigate.reload()


def _sign_out(page: Page) -> None:
    page.viewers.sign_in(page.viewer, None)
    ui.navigate.to("/sign-in")


def watch_head(page: Page, moved: Callable[[], Awaitable[Any]]) -> None:
    """Call `moved` when the branch of the page has a new head."""
    seen: list[str] = []

    async def look() -> None:
        try:
            head = await asyncio.to_thread(
                lambda: page.graph().branches.show(page.place.branch).head_commit_id
            )
        except OmnigraphError:
            return  # the page itself says what is wrong when it reads next
        if seen and seen[0] != head:
            await moved()
        seen[:] = [head]

    if page.place.at is None:
        ui.timer(_LIVE_SECONDS, look)


_STYLE = """
.nav { display: flex; align-items: center; gap: .25rem; }
.nav { padding: .4rem .6rem; border-radius: .4rem; }
.nav.active { background: rgba(255,255,255,.2); }
.nav:focus-visible { outline: 2px solid white; }
.busy { position: fixed; top: 48px; left: 0; z-index: 3000; }
.value { white-space: pre-wrap; overflow-wrap: anywhere; }
.mono { font-family: ui-monospace, monospace; }
.gone { background: rgba(224,49,49,.12); }
.new { background: rgba(47,158,68,.14); }
.og-error { text-decoration: underline wavy #e03131; }
@media (max-width: 700px) { .wide { display: none; } .nicegui-content { padding: .25rem; } }
"""
