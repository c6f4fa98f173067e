"""Write the copy of the OpenAPI document: `python -m omnigraph.server.openapi_copy FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from omnigraph.server.boot import installed_version
from omnigraph.server.openapi import document
from omnigraph.server.route_table import ROUTES


def write(path: str) -> None:
    made = document(ROUTES, installed_version(), secured=True)
    text = msgspec.json.format(msgspec.json.encode(made), indent=2)
    Path(path).write_bytes(text + b"\n")


if __name__ == "__main__":
    write(sys.argv[1])
