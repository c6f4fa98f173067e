"""DataFrames of several types: read at one commit, written as one commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import omnigraph
from omnigraph.errors import InvalidArgument
from omnigraph.load.options import LoadReceipt
from omnigraph.load.rejects import dead_letter_file
from omnigraph.manifest.records import StreamBatch
from omnigraph.settings.models import Settings
from omnigraph.spark.failures import typed_errors
from omnigraph.spark.session import Session
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import SPARK

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""


class GraphReader:
    """DataFrames of one graph, all at the same commit, no matter when Spark computes them.

    Example:
        >>> graph = GraphReader(spark, "people.omni", branch="main")
        >>> graph.frame("Person", columns=["id", "age"], where="age >= 18")
    """

    def __init__(
        self,
        session: Session,
        uri: str | os.PathLike[str],
        branch: str = MAIN,
        *,
        at: str | None = None,
    ) -> None:
        """`at` is a commit, a tag or a moment; without it, the current head of `branch`."""
        graph = omnigraph.open(uri, read_only=True)
        self.snapshot = graph.snapshot(branch, at=at)
        self._session = session
        self._uri = graph.uri

    @property
    def graph_commit_id(self) -> str:
        return self.snapshot.graph_commit_id

    def frame(
        self, type_name: str, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Frame:
        """Entities of one type; `where` is evaluated by Lance (see docs/spark.md)."""
        reader = self._session.read.format("omnigraph").option("type", type_name)
        reader = reader.option("commit", self.graph_commit_id)
        if columns is not None:
            reader = reader.option("columns", ",".join(columns))
        if where is not None:
            reader = reader.option("filter", where)
        with typed_errors():
            return reader.load(self._uri)


class GraphWriter:
    """Writes DataFrames of several types as one commit: all of them or nothing.

    Example:
        >>> writer = GraphWriter("people.omni", mode="merge", message="nightly")
        >>> writer.add("Person", people).add("Knows", friends).commit().total_entities
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        branch: str = MAIN,
        *,
        mode: str = "append",
        from_branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        on_error: str = "fail",
        max_errors: int | None = None,
        rejects: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._graph = omnigraph.open(uri, actor=actor, settings=settings)
        self._options: dict[str, Any] = {
            "branch": branch,
            "mode": mode,
            "from_branch": from_branch,
            "message": message,
            "if_commit": if_commit,
            "idempotency_key": idempotency_key,
            "on_error": on_error,
            "max_errors": max_errors,
            "rejects": rejects,
        }
        self._frames: dict[str, Frame] = {}

    def add(self, type_name: str, frame: Frame) -> GraphWriter:
        """The rows of one type; edge frames have `from` and `to`, or `src` and `dst`."""
        if type_name in self._frames:
            raise InvalidArgument(
                f"{type_name} is given twice: union the frames first", type=type_name
            )
        self._frames[type_name] = frame
        return self

    def commit(self) -> LoadReceipt:
        """Write, check and commit."""
        return self._load()

    def commit_batch(
        self,
        stream: str,
        batch_id: int,
        *,
        dead_letter: str | os.PathLike[str] | None = None,
    ) -> LoadReceipt:
        """Like `commit`, for `foreachBatch`: a batch that was committed before changes nothing.

        `stream` is a name for the stream that belongs to its checkpoint. A new checkpoint counts
        batches from 0 again, so it needs a new name. With `dead_letter`, a folder, rows that break
        a rule go to a file of the batch there, and the others are committed.
        """
        batch = StreamBatch(stream, batch_id)
        if dead_letter is not None:
            file = dead_letter_file(dead_letter, batch)
            self._options |= {"on_error": "skip", "rejects": file}
        return self._load(batch)

    def _load(self, batch: StreamBatch | None = None) -> LoadReceipt:
        if not self._frames:
            raise InvalidArgument('nothing to write: .add("Person", frame) first')
        return self._graph.load(
            self._frames, engine=SPARK, progress=False, stream_batch=batch, **self._options
        )
