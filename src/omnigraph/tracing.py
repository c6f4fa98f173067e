"""Spans of OpenTelemetry, if a program installs and configures it; otherwise nothing.

The server opens a span for each request, and a commit opens one for each of its phases. The span of
a phase is below that of its request, because both are in the same context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

Attributes = Mapping[str, str | int | None]
_NOTHING: AbstractContextManager[None] = nullcontext()
_start: Callable[[str, Attributes], AbstractContextManager[Any]] | None = None


def turn_on() -> bool:
    """Make spans from now on; False when OpenTelemetry is not installed."""
    global _start
    try:
        from opentelemetry import trace  # noqa: PLC0415
    except ModuleNotFoundError:
        return False
    tracer = trace.get_tracer("omnigraph")

    def start(name: str, attributes: Attributes) -> AbstractContextManager[Any]:
        known = {key: value for key, value in attributes.items() if value is not None}
        return tracer.start_as_current_span(name, attributes=known)

    _start = start
    return True


def turn_off() -> None:
    global _start
    _start = None


def is_on() -> bool:
    return _start is not None


def span(name: str, **attributes: str | int | None) -> AbstractContextManager[Any]:
    """A span around some work. Without OpenTelemetry this is one comparison."""
    return _NOTHING if _start is None else _start(name, attributes)


@contextmanager
def joined(traceparent: str | None) -> Iterator[None]:
    """Work below the span of another process, which its `traceparent` names."""
    if _start is None or traceparent is None:
        yield
        return
    from opentelemetry import context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    above = TraceContextTextMapPropagator().extract({"traceparent": traceparent})
    token = context.attach(above)
    try:
        yield
    finally:
        context.detach(token)
