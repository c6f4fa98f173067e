"""`g.merge`, `g.revert` and `g.cherry_pick`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from omnigraph.commit.request import WriteReceipt
from omnigraph.graph.engine import Engine
from omnigraph.merge.conflicts import MergePreview, MergeResult
from omnigraph.merge.decisions import Decisions, read_resolutions
from omnigraph.merge.operation import MergeContext, MergeRequest, merge_branches, preview_merge
from omnigraph.merge.output import LOCAL_ENGINE, MergeEngine
from omnigraph.merge.picks import CHERRY_PICK, REVERT, PickRequest, pick
from omnigraph.spark.engine_choice import choose_merge_engine
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.known_names import LOCAL, SPARK


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """Who decides conflicts, and as whom the commit is made."""

    strategy: str
    resolutions: Any
    actor: str | None
    message: str | None
    engine: str = LOCAL


def merge(
    engine: Engine, source: str, target: str, options: MergeOptions, *, delete_branch: bool
) -> MergeResult:
    def choose(changed_rows: int | None) -> MergeEngine:
        pipeline = engine.settings.pipeline
        name, reason = choose_merge_engine(options.engine, changed_rows, pipeline)
        if name == SPARK:
            return engine.spark_merger.engine(reason)
        return replace(LOCAL_ENGINE, reason=reason)

    context = replace(_context(engine), choose_engine=choose)
    return merge_branches(context, _request(source, target, options, delete_branch))


def preview(engine: Engine, source: str, target: str, options: MergeOptions) -> MergePreview:
    return preview_merge(_context(engine), _request(source, target, options, delete_branch=False))


def revert(engine: Engine, commit_id: str, branch: str, options: MergeOptions) -> WriteReceipt:
    return _repeat(engine, commit_id, branch, REVERT, options)


def cherry_pick(engine: Engine, commit_id: str, onto: str, options: MergeOptions) -> WriteReceipt:
    return _repeat(engine, commit_id, onto, CHERRY_PICK, options)


def _repeat(
    engine: Engine, commit_id: str, branch: str, operation: str, options: MergeOptions
) -> WriteReceipt:
    request = PickRequest(
        commit_id, branch, operation, _decisions(options), options.actor, options.message
    )
    return pick(_context(engine), request)


def _request(source: str, target: str, options: MergeOptions, delete_branch: bool) -> MergeRequest:
    return MergeRequest(
        source, target, _decisions(options), options.actor, options.message, delete_branch
    )


def _decisions(options: MergeOptions) -> Decisions:
    return Decisions(options.strategy, read_resolutions(options.resolutions))


def _context(engine: Engine) -> MergeContext:
    return MergeContext(
        reader=engine.reader,
        transaction=engine.transaction,
        lifecycle=engine.lifecycle,
        history=engine.settings.history,
        clock=SYSTEM_CLOCK,
    )
