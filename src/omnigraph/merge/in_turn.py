"""Run a merge through the one write path: in turn with other writers, or beside them if it is long.

A long one is computed while others write, and computed again in turn only if one of them moved the
branch meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from omnigraph.commit.request import Build, WriteReceipt, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch

logger = logging.getLogger(__name__)

LARGE = 50_000
"""Changed rows on both sides; computing more takes longer than others should wait."""


def run_merge(
    transaction: Transaction,
    request: WriteRequest,
    build: Build,
    changed_rows: int | None,
    *,
    writes_ahead: bool = False,
) -> WriteReceipt:
    """`changed_rows` is None when nobody knows how many there are.

    `writes_ahead`: files are written long before the commit, so cleanup is held off in any case.
    """
    if writes_ahead:
        request = replace(request, long_build=True, in_turn=True)
    if writes_ahead or changed_rows is None or changed_rows > LARGE:
        beside_others = replace(request, long_build=True, in_turn=False, repreparable=False)
        try:
            return transaction.run(beside_others, build)
        except ExpectedVersionMismatch as moved:
            logger.info("%s; merging again in turn", moved.message)
    return transaction.run(request, build)
