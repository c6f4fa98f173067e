"""`omnigraph console` as another process, and a page of a real browser that must stay clean."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

BROWSER = shutil.which("chromium")
REQUIRED = "OMNIGRAPH_REQUIRE_BROWSER"
"""The variable that makes a missing browser a failure."""

HOSTILE = '<img src=x onerror="alert(1)">'
"""Text that would run as a script if a page took it for markup."""

_END_SECONDS = 20.0
_PATIENCE_MILLISECONDS = 60_000


class Visit(Protocol):
    """Opens a path of a console in a page that must stay clean."""

    def __call__(self, path: str = "/", **options: Any) -> AbstractContextManager[Any]: ...


@contextmanager
def console(*arguments: str | os.PathLike[str], log: Path) -> Iterator[str]:
    """The address of a console that runs until the end of the block."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "omnigraph.cli", "console"),
                *("--no-browser", "--bind", "127.0.0.1:0"),
                *(os.fspath(argument) for argument in arguments),
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

    def asked_in_a_dialog(dialog: Any) -> None:
        faults.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("dialog", asked_in_a_dialog)

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
