"""`omnigraph console` as another process, and a page of a real browser that must stay clean."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BROWSER = shutil.which("chromium")
REQUIRED = "OMNIGRAPH_REQUIRE_BROWSER"
"""The variable that makes a missing browser a failure."""

_END_SECONDS = 20.0
_PATIENCE_MILLISECONDS = 60_000


@contextmanager
def console(*arguments: str | os.PathLike[str], log: Path) -> Iterator[str]:
    """The address of a console that runs until the end of the block."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "omnigraph.cli", "console"),
                *("--no-browser", "--bind", "127.0.0.1:0"),
                *map(os.fspath, arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        assert line.startswith("OMNIGRAPH_CONSOLE="), log.read_text()
        yield line.partition("=")[2].rstrip("/")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def clean_page(browser: Any, address: str, width: int = 1280, **options: Any) -> Iterator[Any]:
    """A page that reports no error, opens no dialog and asks no other host."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    page.set_default_timeout(_PATIENCE_MILLISECONDS)
    faults: list[str] = []
    own = urlsplit(address).netloc
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def asked(request: Any) -> None:
        target = urlsplit(request.url)
        if target.scheme in ("http", "https", "ws", "wss") and target.netloc != own:
            faults.append(f"a request to {target.netloc}")

    page.on("request", asked)
    try:
        yield page
        assert faults == []
    finally:
        context.close()
