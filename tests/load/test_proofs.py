"""What is proven is true; what is ordinary is proven."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.load import proofs
from omnigraph.load.proofs import IdHashes, IdSet, IdTable, no_row_twice, paired_rows, row_hashes

_FOLDER = Path(tempfile.gettempdir())
_TEXTS = st.lists(st.one_of(st.none(), st.text("ab\x00é", max_size=20)), max_size=12)


def chunked(values: list[str | None], cut: int) -> pa.ChunkedArray:
    """In two chunks, the second with an offset into its buffers."""
    return pa.chunked_array(
        [pa.array(values[:cut], pa.string()), pa.array(["x", *values[cut:]], pa.string()).slice(1)]
    )


@given(_TEXTS, st.integers(0, 12))
def test_texts_are_told_apart(values: list[str | None], cut: int) -> None:
    known = [value for value in values if value is not None]
    column = chunked(values, cut)
    distinct = len(set(known)) == len(known)
    assert rows_differ(pa.table({"v": column})) == distinct
    assert id_set(column).are_distinct == distinct
    assert id_table(column).are_distinct == distinct


def rows_differ(*tables: pa.Table) -> bool:
    return no_row_twice(tables, _FOLDER)


def id_set(*columns: pa.ChunkedArray) -> IdHashes:
    found = IdHashes.of(columns, _FOLDER)
    assert found is not None
    return found


def id_table(*columns: pa.ChunkedArray) -> IdTable:
    found = IdTable.of(columns, sum(map(len, columns)))
    assert found is not None
    return found


def all_among(texts: Iterable[pa.ChunkedArray], known: list[IdSet]) -> bool:
    return proofs.all_among(texts, known, _FOLDER)


def test_the_hash_of_a_text_does_not_depend_on_texts_beside_it() -> None:
    short, beside_a_long_one = ["a"], ["a", "b" * 20]
    together = pa.chunked_array([short, beside_a_long_one])
    assert not rows_differ(pa.table({"id": together}))
    assert not id_set(together).are_distinct
    assert all_among([pa.chunked_array([short])], [id_set(pa.chunked_array([beside_a_long_one]))])
    left, right = pa.table({"id": [short[0]]}), pa.table({"id": beside_a_long_one})
    pairs = paired_rows(left, right)
    assert pairs is not None
    assert (list(pairs.left), list(pairs.right)) == ([0], [0])


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.integers(-3, 3)), max_size=12))
def test_pairs_are_told_apart(pairs: list[tuple[str, int]]) -> None:
    texts, numbers = (
        pa.array([pair[n] for pair in pairs], k) for n, k in ((0, pa.string()), (1, pa.int32()))
    )
    assert rows_differ(pa.table({"a": texts, "b": numbers})) == (len(set(pairs)) == len(pairs))


@given(_TEXTS, _TEXTS)
def test_membership(wanted: list[str | None], known: list[str | None]) -> None:
    given_texts = [text for text in wanted if text is not None]
    there = {text for text in known if text is not None}
    ids, table = id_set(chunked(known, 2)), id_table(chunked(known, 2))
    for sets in ([ids, id_set()], [table], [id_table(), table], [id_set(), table], [table, ids]):
        assert all_among([chunked(wanted, 3)], sets) == (set(given_texts) <= there)
    for known_ids in (ids, table):
        absent = known_ids.has_none([chunked(wanted, 3)], _FOLDER)
        assert absent == there.isdisjoint(given_texts)


@given(st.lists(st.text("aé", max_size=40), min_size=1, max_size=20), st.integers(0, 8))
def test_compiled_loops_hash_as_numpy_does(values: list[str], skipped: int) -> None:
    """Also the last text, beyond whose end there may be no byte to read."""
    offsets = np.cumsum([0, *(len(value.encode()) for value in values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer("".join(values).encode())]
    texts = pa.Array.from_buffers(pa.string(), len(values), buffers)
    (pairs,) = proofs.hashed_twice([pa.chunked_array([texts[skipped % len(values) :]])])
    for lane, key in enumerate(proofs._LANES):
        hashes = proofs._of_texts(texts[skipped % len(values) :], key)
        assert hashes is not None
        assert pairs[:, lane].tolist() == hashes.tolist()


def test_a_table_refuses_more_ids_than_it_was_made_for() -> None:
    ids = pa.chunked_array([["a", "b", None]])
    assert IdTable.of([ids], 2) is not None
    assert IdTable.of([ids], 1) is None


def test_a_million_ids_are_proven_distinct() -> None:
    ids = pa.chunked_array([pa.array(range(1_000_000)).cast(pa.string())])
    assert rows_differ(pa.table({"id": ids}))
    assert not rows_differ(pa.table({"id": ids}), pa.table({"id": ["77"]}))
    for known in (id_set(ids), id_table(ids)):
        assert known.are_distinct
        assert all_among([ids], [known])
        assert not all_among([ids, pa.chunked_array([["1000000"]])], [known])
    assert not id_table(ids, pa.chunked_array([["77"]])).are_distinct


@given(_TEXTS, _TEXTS, st.integers(0, 4), st.integers(0, 4))
def test_hashes_in_files_say_the_same(
    wanted: list[str | None], known: list[str | None], held: int, passes: int
) -> None:
    """As many hashes as fit into memory, and one pass, change no answer."""
    given_texts = [text for text in wanted if text is not None]
    there = [text for text in known if text is not None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "HELD_HASHES", held)
        patch.setattr(proofs, "_ROWS_PER_PASS", passes + 1)
        ids = id_set(chunked(known, 2))
        assert ids.is_held == (len(there) <= held)
        assert ids.are_distinct == (len(set(there)) == len(there))
        among = set(given_texts) <= {*there, "a"}
        assert all_among([chunked(wanted, 3)], [ids, id_set(chunked(["a"], 1))]) == among
        assert ids.has_none([chunked(wanted, 3)], _FOLDER) == set(there).isdisjoint(given_texts)
        assert rows_differ(pa.table({"v": chunked(known, 2)})) == ids.are_distinct


_ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text("ab", max_size=2)),
        st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5])),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=12,
)


def _table(rows: list[tuple[str | None, float | None, bool | None]]) -> pa.Table:
    kinds = (pa.string(), pa.float64(), pa.bool_())
    return pa.table({f"c{n}": pa.array([r[n] for r in rows], k) for n, k in enumerate(kinds)})


@given(_ROWS, _ROWS)
def test_equal_rows_are_paired_as_often_as_both_have_them(
    left: list[tuple[str | None, float | None, bool | None]],
    right: list[tuple[str | None, float | None, bool | None]],
) -> None:
    pairs = paired_rows(_table(left), _table(right))
    assert pairs is not None
    assert all(left[i] == right[j] for i, j in zip(pairs.left, pairs.right, strict=True))
    assert len(set(pairs.left)) == len(set(pairs.right)) == len(pairs.left)
    assert Counter(left[i] for i in pairs.left) == Counter(left) & Counter(right)


def test_what_has_no_hash_is_not_proven() -> None:
    assert row_hashes([pa.chunked_array([["a" * 1000]])]) is None
    assert IdHashes.of([pa.chunked_array([["a" * 1000]])], _FOLDER) is None
    assert row_hashes([pa.chunked_array([[[0.0], [-0.0]]])]) is None
    assert not rows_differ(pa.table({"v": [[1.5]]}))
    assert rows_differ(pa.table({"v": [1.5, 1.25]}))
    assert not rows_differ(pa.table({"v": [0.0, -0.0]}))
