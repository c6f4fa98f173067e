"""The console as an ASGI application, and as a process that serves it."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from nicegui import core, ui
from starlette.responses import RedirectResponse

from omnigraph.console import editor
from omnigraph.console.facts import shortened
from omnigraph.console.frame import MOUNT, framed, viewer_of
from omnigraph.console.pages.data import data
from omnigraph.console.pages.explore import explore
from omnigraph.console.pages.overview import overview
from omnigraph.console.pages.query import query
from omnigraph.console.pages.review import review
from omnigraph.console.viewers import GraphSource, Viewers
from omnigraph.errors import InvalidArgument, OmnigraphError

_RECONNECT_SECONDS = 30.0


def build(source: GraphSource) -> FastAPI:
    """The application with the pages below `/console`; a process can have one."""
    if core.app.config.has_run_config:
        raise InvalidArgument("this process has a console already: start another process")
    viewers = Viewers(source)
    _add_pages(viewers)
    site = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @site.get("/")
    def home() -> RedirectResponse:
        return RedirectResponse(f"{MOUNT}/")

    ui.run_with(
        site,
        mount_path=MOUNT,
        title="OmniGraph",
        favicon="🕸️",
        storage_secret=secrets.token_hex(32),
        reconnect_timeout=_RECONNECT_SECONDS,
        show_welcome_message=False,
    )
    return site


def _add_pages(viewers: Viewers) -> None:
    @ui.page("/")
    def overview_page(
        graph: str | None = None, branch: str | None = None, at: str | None = None
    ) -> None:
        framed(viewers, "", graph, branch, at, overview)

    @ui.page("/explore")
    def explore_page(
        graph: str | None = None,
        branch: str | None = None,
        at: str | None = None,
        type: str | None = None,
        id: str | None = None,
    ) -> None:
        framed(viewers, "explore", graph, branch, at, lambda page: explore(page, type, id))

    @ui.page("/query")
    def query_page(
        graph: str | None = None,
        branch: str | None = None,
        at: str | None = None,
        text: str | None = None,
    ) -> None:
        editor.use_language()
        framed(viewers, "query", graph, branch, at, lambda page: query(page, text))

    @ui.page("/review")
    def review_page(
        graph: str | None = None,
        branch: str | None = None,
        at: str | None = None,
        source: str | None = None,
    ) -> None:
        framed(viewers, "review", graph, branch, at, lambda page: review(page, source))

    @ui.page("/data")
    def data_page(
        graph: str | None = None,
        branch: str | None = None,
        at: str | None = None,
        type: str | None = None,
        id: str | None = None,
    ) -> None:
        editor.use_language()
        framed(viewers, "data", graph, branch, at, lambda page: data(page, type, id))

    @ui.page("/sign-in")
    def sign_in_page(why: str | None = None) -> None:
        _sign_in(viewers, why)


def _sign_in(viewers: Viewers, why: str | None) -> None:
    viewer = viewer_of(viewers)
    source = viewers.source

    async def enter() -> None:
        token, wanted = (given.value or "").strip() or None, (graph.value or "").strip()
        viewers.sign_in(viewer, token)

        def found_graph() -> str:
            ids = source.graph_ids(token)
            chosen = wanted or (ids[0] if ids else source.default_graph)
            viewers.graph(viewer, chosen)
            return chosen

        try:
            # In a thread, because the console may be part of the server that it asks.
            chosen = await asyncio.to_thread(found_graph)
        except OmnigraphError as error:
            viewers.sign_in(viewer, None)
            told.set_text(shortened(error.message, 300))
            return
        viewer.token = token or ""
        ui.navigate.to(f"/?graph={chosen}")

    with ui.card().classes("mx-auto mt-16 w-96"):
        ui.label("Sign in").classes("text-xl font-bold")
        ui.label(source.title).classes("text-sm opacity-70 value")
        told = ui.label(why or "").classes("text-negative value").props('data-testid="why"')
        given = ui.input(label="Token", password=True).classes("w-full").on("keydown.enter", enter)
        graph = ui.input(label="Graph (empty: the first one)").classes("w-full")
        ui.button("Sign in", on_click=enter)


def serve(
    source: GraphSource, bound: socket.socket, *, browse: bool, ready: Callable[[str], Any]
) -> None:
    """Serve the console on a bound socket until a signal."""
    host, port = bound.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}{MOUNT}/"
    site = build(source)
    config = uvicorn.Config(
        site, loop="uvloop", http="httptools", access_log=False, log_level="warning"
    )
    server = uvicorn.Server(config)
    ready(address)
    sys.stdout.flush()
    if browse:
        webbrowser.open(address)
    server.run(sockets=[bound])
