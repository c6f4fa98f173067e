"""The write a load asks the one write path for: the same whichever engine prepared its rows."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.request import Build, Claims
from omnigraph.commit.transaction import Transaction
from omnigraph.load.options import LoadMode, LoadOptions, LoadReceipt
from omnigraph.load.prepare import PreparedInput


def commit_load(
    transaction: Transaction,
    prepared: PreparedInput,
    options: LoadOptions,
    claimed: Claims,
    build: Build,
    engine: str,
) -> LoadReceipt:
    keeps = options.mode is not LoadMode.OVERWRITE
    request = options.request("load", claimed, repreparable=keeps)
    request = replace(
        request,
        long_build=True,
        staged_since=prepared.staged_since,
        stream_batch=options.stream_batch,
    )
    receipt = transaction.run(request, build)
    # Counted after the build: Spark knows what it read only then.
    counts = sorted((key, spool.rows) for key, spool in prepared.spools.items())
    return LoadReceipt(
        branch=options.branch,
        base_branch=None,
        branch_created=False,
        mode=options.mode.value,
        engine=engine,
        counts=tuple(counts),
        commit=receipt.commit,
        repeated=receipt.repeated,
    )
