"""Texts for models: how to work with a graph, and the best practices that resources show."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

BEST_PRACTICES = ("index", "queries", "data", "schema", "search")


@cache
def guide(name: str) -> str:
    """The text of `guides/NAME.md`."""
    return (files("omnigraph.mcp") / "guides" / f"{name}.md").read_text(encoding="utf-8")


def instructions() -> str:
    """What a client tells its model about this server."""
    return guide("instructions")
