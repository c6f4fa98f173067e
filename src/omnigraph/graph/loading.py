"""`g.load`: which engine runs it, into a branch that may have to be made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from omnigraph.errors import NotFound
from omnigraph.graph.engine import Engine
from omnigraph.load.options import LoadOptions, LoadReceipt
from omnigraph.load.progress import watch_with
from omnigraph.progress import shown, somebody_watches
from omnigraph.spark.engine_choice import choose_engine
from omnigraph.values.known_names import LOCAL


def load(
    engine: Engine,
    data: Any,
    options: LoadOptions,
    from_branch: str | None,
    run: tuple[str, bool | Callable[[int, int], None] | None],
) -> LoadReceipt:
    """One load, one commit; `from_branch` forks a missing branch and takes it back on failure."""
    wanted, progress = run
    choice = choose_engine(wanted, data, options.type_name, engine.settings.pipeline)
    created = from_branch is not None and _is_missing(engine, options.branch)
    branch = (
        engine.lifecycle.fresh(options.branch, from_branch, options.actor)
        if from_branch is not None and created
        else nullcontext()
    )
    visible = progress is True or (progress is None and somebody_watches())
    with branch, shown("loading") if visible else nullcontext():
        loader = engine.loader if choice.engine == LOCAL else engine.spark_loader
        receipt = loader.load(data, options, watch_with(progress))
    return replace(
        receipt,
        base_branch=from_branch,
        branch_created=created,
        engine_reason=choice.reason,
    )


def _is_missing(engine: Engine, branch: str) -> bool:
    try:
        engine.reader.branch(branch)
    except NotFound:
        return True
    return False
