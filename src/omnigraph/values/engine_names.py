"""Who does the work of a load, a query or upkeep: this process or Spark."""

from __future__ import annotations

from omnigraph.errors import InvalidArgument

LOCAL, SPARK, AUTO = "local", "spark", "auto"


def require_engine(name: str, work: str, known: tuple[str, ...] = (LOCAL, SPARK)) -> None:
    """Refuse an engine that does not do this `work`."""
    if name not in known:
        raise InvalidArgument(
            f"no {work} engine {name!r}; there is: {', '.join(known)}", engine=name
        )
