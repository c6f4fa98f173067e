"""OmniGraph: a typed property graph over Lance with Git-style branches and commits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.errors import OmnigraphError
    from omnigraph.graph.handle import Graph
    from omnigraph.graph.open import init
    from omnigraph.graph.open import open_graph as open
    from omnigraph.graph.upkeep import restore_graph as restore
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.settings.models import (
        EmbeddingSettings,
        HistorySettings,
        LoadSettings,
        MaintenanceSettings,
        PipelineSettings,
        ReadSettings,
        Settings,
        WriteSettings,
    )
    from omnigraph.writes.shape import Edit

_SETTINGS = (
    "EmbeddingSettings",
    "HistorySettings",
    "LoadSettings",
    "MaintenanceSettings",
    "PipelineSettings",
    "ReadSettings",
    "Settings",
    "WriteSettings",
)
# Resolved on first use: `import omnigraph` must not pull in Lance and Arrow.
_PUBLIC = {
    "Edit": ("omnigraph.writes.shape", "Edit"),
    "Graph": ("omnigraph.graph.handle", "Graph"),
    "OmnigraphError": ("omnigraph.errors", "OmnigraphError"),
    "Snapshot": ("omnigraph.manifest.snapshot", "Snapshot"),
    "init": ("omnigraph.graph.open", "init"),
    "open": ("omnigraph.graph.open", "open_graph"),
    "restore": ("omnigraph.graph.upkeep", "restore_graph"),
    **{name: ("omnigraph.settings.models", name) for name in _SETTINGS},
}

__all__ = [
    "Edit",
    "EmbeddingSettings",
    "Graph",
    "HistorySettings",
    "LoadSettings",
    "MaintenanceSettings",
    "OmnigraphError",
    "PipelineSettings",
    "ReadSettings",
    "Settings",
    "Snapshot",
    "WriteSettings",
    "init",
    "open",
    "restore",
]


def __getattr__(name: str) -> Any:
    module, attribute = _PUBLIC.get(name, ("omnigraph.errors", name))
    value = getattr(import_module(module), attribute, None)
    if value is None or (name not in _PUBLIC and not _is_error(value)):
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    globals()[name] = value
    return value


def _is_error(value: object) -> bool:
    """Every error of the tree is public: `omnigraph.ValidationFailed`."""
    return isinstance(value, type) and issubclass(value, Exception)
