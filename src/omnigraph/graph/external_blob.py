"""A blob outside of the graph."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import ExternalBlobDenied, ExternalBlobUnavailable
from omnigraph.lance_store.reads.blob_reads import wanted_bytes
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases, shown_uri

NOT_ALLOWED = "not_allowed"
"""The reason of an address below no base of the graph."""


@dataclass(frozen=True, slots=True)
class ExternalBlob:
    """A blob outside of the graph: an address, and readers of what is there now.

    The target is not part of a snapshot. It is looked at when `size` or `read` asks for it, and
    only below a base that the graph was opened with (`external_blobs=`).
    """

    uri: str
    graph_commit_id: str = ""
    """The commit of the snapshot that has the address."""
    _allowed: ExternalBases = field(default=NONE_ALLOWED, repr=False, compare=False)

    @property
    def size(self) -> int:
        """The size of the target in bytes; raises `ExternalBlobUnavailable`."""
        from omnigraph.lance_store.objects.external_sources import source_size

        return source_size(self.location(), os.environ)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """All bytes of the target, or at most `length` of them from `offset`."""
        from omnigraph.lance_store.objects.external_sources import read_source

        wanted = wanted_bytes(self.size, offset, length)
        return read_source(self.uri, offset, wanted, os.environ) if wanted else b""

    def location(self) -> str:
        """The address, if this graph may follow it; raises `ExternalBlobUnavailable`."""
        try:
            return self._allowed.judge(self.uri)
        except ExternalBlobDenied as error:
            shown = shown_uri(self.uri)
            raise ExternalBlobUnavailable(
                f"the blob is external, at {shown!r}, and this graph was not opened to read it: "
                f"the address {error.reason}. Name its base in external_blobs= "
                "(--external-blobs), or take its `uri`",
                uri=self.uri,
                reason=NOT_ALLOWED,
            ) from None

    def to_dict(self) -> dict[str, Any]:
        return {"uri": self.uri}
