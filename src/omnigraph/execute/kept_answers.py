"""Small answers that are kept, so that a read which is repeated on an unmoved head costs a lookup.

An answer is found by the state that it was computed on, the compiled query and the parameters. A
state in a scope of rules is another state, so an answer never reaches an actor with other rules.
A commit makes a new state, whose answers are computed again.

A read is kept when it is asked for the second time. Reads with ever other parameters leave
nothing behind, because what they left would push out the answers that are asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from omnigraph.execute.query_types import PlainRows, QueryResult
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.query.compiler import CompiledQuery
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.query_request import QueryText

_MOST_ANSWERS = 16 * 1024
_LONGEST_REQUEST = 4096
"""Characters of a text and its parameters. A compiled text takes much more memory than it."""
_LARGEST_ANSWER = 64 * 1024
_ENTRY_BYTES = 1024
"""What an entry takes besides its rows: keys, parameters, objects."""
_FORM_BYTES = 512
"""What an answer weighs for its forms at once, so that a small form does not weigh it again."""


class _AskedBefore:
    """The hashes of the reads of late. Two reads with one hash count as one."""

    def __init__(self) -> None:
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def note(self, read: int) -> bool:
        """Whether this read was noted before; it is now."""
        if read in self._newer:
            return True
        if len(self._newer) >= _MOST_ANSWERS:
            self._older, self._newer = self._newer, set()
        self._newer.add(read)
        return read in self._older


class _Forms:
    """The encoded forms of one kept answer, by media type."""

    __slots__ = ("_allowance", "_forms", "_keep", "_weight")

    def __init__(self, keep: Callable[[int], None], weight: int, allowance: int) -> None:
        self._keep = keep
        self._weight = weight
        self._allowance = allowance
        """The part of the weight that forms have not used yet."""
        self._forms: dict[str, bytes] = {}

    def get(self, media: str) -> bytes | None:
        return self._forms.get(media)

    def put(self, media: str, content: bytes) -> None:
        """Keep this form, too. The answer then weighs so much more."""
        if len(content) <= _LARGEST_ANSWER and media not in self._forms:
            self._forms[media] = content
            self._allowance -= len(content)
            if self._allowance < 0:
                self._weight -= self._allowance
                self._allowance = 0
                self._keep(self._weight)


class KeptAnswers:
    """The answers of one open graph, bounded in bytes; 0 keeps none."""

    def __init__(self, most_bytes: int) -> None:
        self._is_on = most_bytes > 0
        self._asked = _AskedBefore()
        self._answers: BoundedCache[Any, tuple[CompiledQuery, QueryResult]] = BoundedCache(
            _MOST_ANSWERS, most_bytes
        )

    @property
    def used_bytes(self) -> int:
        return self._answers.weight

    def key(
        self, state: object, snapshot: Snapshot, compiled: CompiledQuery, text: QueryText
    ) -> Any:
        """What an answer depends on. `state` is an object that belongs to one state in one scope.

        None: the answer cannot be kept.
        """
        if not self._is_on or not compiled.is_repeatable:
            return None
        given = _hashable(text.params)
        if given is None:
            return None
        branch, commit = snapshot.graph_branch, snapshot.graph_commit_id
        return state, id(compiled), given, branch, commit, text.at

    def find(self, key: Any) -> QueryResult | None:
        found = self._answers.get(key)
        return None if found is None else found[1]

    def keep(self, key: Any, compiled: CompiledQuery, text: QueryText, result: QueryResult) -> None:
        """Keep a small answer to a read that was asked for before, of this state or another.

        The entry holds `compiled`, whose identity is in its key, and the parameters.
        """
        _, query, given, branch, _, at = key
        asked_bytes = len(text.source) + sum(len(v) for *_, v in given if isinstance(v, str))
        if asked_bytes > _LONGEST_REQUEST:
            return
        if not self._asked.note(hash((query, given, branch, at))):
            return
        rows = result.rows
        if isinstance(rows, PlainRows):
            size = rows.size_bytes
        elif isinstance(rows, pa.RecordBatch):
            # A slice holds all of the memory that it was cut from, so that is what it weighs.
            size = int(rows.get_total_buffer_size())
        else:
            return
        if size > _LARGEST_ANSWER:
            return
        entry = (compiled, result)
        weight = asked_bytes + size + _ENTRY_BYTES + _FORM_BYTES
        keep = lambda weight: self._answers.put(key, entry, weight)  # noqa: E731
        result.forms = _Forms(keep, weight, _FORM_BYTES)
        self._answers.put(key, entry, weight)


def _hashable(params: Mapping[str, object] | None) -> tuple[Any, ...] | None:
    """The parameters with their types, because `1`, `1.0` and `True` are equal in Python."""
    if not params:
        return ()
    found = tuple((name, type(value), value) for name, value in params.items())
    try:
        hash(found)
    except TypeError:
        return None
    return found
