"""The one write path with somebody watching what it commits."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.commit.request import Build, WriteReceipt, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.manifest.records import Commit

Observer = Callable[[Commit], None]


class ObservedTransaction(Transaction):
    """Tells one observer about every commit that was made here; it must not fail or wait."""

    observer: Observer | None = None

    def run(self, request: WriteRequest, build: Build) -> WriteReceipt:
        receipt = super().run(request, build)
        if receipt.commit is not None and not receipt.repeated and self.observer is not None:
            self.observer(receipt.commit)
        return receipt
