"""Lookups leave out fragments that do not hold a wanted value, and never one that does."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.lance_store.advance import HeadMoved, advance, restore
from omnigraph.lance_store.dataset_branches import create_branch, create_dataset
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.reads import recent_fragments
from omnigraph.lance_store.reads.recent_fragments import fragments_to_search
from omnigraph.lance_store.reads.row_lookup import find_any, find_rows
from omnigraph.lance_store.staging.compaction import (
    plan_compaction,
    run_compaction,
    stage_compaction,
)
from omnigraph.lance_store.staging.index_builds import inherits_indexes
from omnigraph.lance_store.staging.stage import RowEdit, StagedWrite, stage_edit
from omnigraph.lance_store.store import DatasetVersion, Store

NAMES = [f"n{number}" for number in range(12)]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("src", pa.string()),
        pa.field("dst", pa.string()),
        pa.field("n", pa.int64()),
    ]
)


class Edges:
    """A table of edges that is written at random, on two lines that use the same fragment ids."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.store = Store(parse_location(folder, {}))
        main = create_dataset(self.store, "t", SCHEMA.empty_table(), ("id", "src", "dst"))
        self.lines = [main]
        self.past: list[DatasetVersion] = []
        self.made = 0

    def step(self) -> None:
        line = self.chance.randrange(len(self.lines))
        at = self.lines[line]
        self.past.append(at)
        match self.chance.choice("aaaauuuuddicrbf"):
            case "a":
                self._take(line, self._edit(at, self._new(self.chance.choice((1, 1, 1, 3))), None))
            case "u" | "d" as kind:
                old = self._some_rows(at)
                new = old.select(SCHEMA.names) if kind == "u" else None
                self._take(line, self._edit(at, new, old) if old.num_rows else None)
            case "i":
                self._index(line)
            case "c":
                self._take(line, self._compaction(at))
            case "r":
                self.lines[line] = restore(self.store, at)
            case "b" if len(self.lines) == 1:
                self.lines.append(create_branch(self.store, at, "b"))
            case "f":
                self._forget()

    def check(self) -> None:
        older = self.chance.sample(self.past, min(2, len(self.past)))
        for at in (*self.lines, *older):
            dataset = self.store.open(at)
            whole = dataset.scanner(use_scalar_index=False).to_table()
            values = pa.array(self.chance.sample(NAMES, 2))
            ids = pa.array([f"e{self.chance.randrange(self.made + 1)}" for _ in range(2)])
            for key, sought in (("id", ids), ("src", values), ("dst", values[:1])):
                found = find_rows(dataset, sought, ["n"], key=key)
                expected = whole.filter(pc.is_in(whole.column(key), value_set=sought))
                assert _sorted(found.column("n")) == _sorted(expected.column("n")), (at, key)
            found = find_any(dataset, {"src": values, "dst": values}, ["n"])
            ends = [pc.is_in(whole.column(key), value_set=values) for key in ("src", "dst")]
            expected = whole.filter(pc.or_(*ends))
            assert _sorted(found.column("n")) == _sorted(expected.column("n")), at

    def _new(self, count: int) -> pa.Table:
        rows = []
        for _ in range(count):
            src, dst = self.chance.choices(NAMES, k=2)
            rows.append({"id": f"e{self.made}", "src": src, "dst": dst, "n": self.made})
            self.made += 1
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def _some_rows(self, at: DatasetVersion) -> pa.Table:
        picks = pa.array([f"e{self.chance.randrange(self.made + 1)}" for _ in range(2)])
        return find_rows(self.store.open(at), picks, ["src", "dst", "n"])

    def _edit(self, at: DatasetVersion, new: pa.Table | None, old: pa.Table | None) -> StagedWrite:
        return stage_edit(self.store, at, RowEdit(new, old, None))

    def _compaction(self, at: DatasetVersion) -> StagedWrite | None:
        if inherits_indexes(self.store, at):
            return None  # upkeep drops such indexes first, because Lance would lose their files
        results = [run_compaction(self.store, at, t) for t in plan_compaction(self.store, at)]
        return stage_compaction(self.store, at, results) if results else None

    def _index(self, line: int) -> None:
        """All columns, or one of them: then the indexes cover different fragments."""
        at = self.lines[line]
        dataset = self.store.open_private(at)
        chosen = self.chance.choice((None, ["id_idx"], ["src_idx"]))
        names = {index.name for index in dataset.describe_indices()}
        dataset.optimize.optimize_indices(
            **({} if chosen is None or not set(chosen) <= names else {"index_names": chosen})
        )
        self.lines[line] = DatasetVersion(at.location, at.branch, int(dataset.latest_version))

    def _take(self, line: int, staged: StagedWrite | None) -> None:
        if staged is not None:
            outcome = advance(self.store, staged)
            assert not isinstance(outcome, HeadMoved)
            self.lines[line] = outcome

    def _forget(self) -> None:
        """What another process would know: nothing."""
        forget()
        self.store = Store(parse_location(self.folder, {}))


def forget() -> None:
    recent_fragments._held._entries.clear()
    recent_fragments._left._entries.clear()
    recent_fragments._files.clear()


def _sorted(column: pa.ChunkedArray) -> list[int]:
    return sorted(column.to_pylist())


@pytest.mark.parametrize(
    "seed", [1, 2, pytest.param(range(3, 25), marks=pytest.mark.slow)], ids=lambda s: str(s)
)
def test_a_lookup_finds_what_a_scan_finds(tmp_path: Path, seed: int | range) -> None:
    for number in [seed] if isinstance(seed, int) else seed:
        edges = Edges(tmp_path / str(number), random.Random(number))
        for _ in range(60):
            edges.step()
            edges.check()


def test_an_older_version_has_rows_that_a_newer_one_deleted(store: Store, rows) -> None:
    """The newer version is looked at first, by a process that did not write it."""
    at = rows.create(**{f"i{n}": n for n in range(5)})
    for number in range(4):
        at = advance(store, rows.append(at, **{f"x{number}": number, f"y{number}": number}))
        assert isinstance(at, DatasetVersion)
    gone = find_rows(store.open(at), pa.array(["x3"]), ["n"])
    newer = advance(store, stage_edit(store, at, RowEdit(None, gone, None)))
    assert isinstance(newer, DatasetVersion)
    forget()
    assert find_rows(store.open(newer), pa.array(["x3"]), ["n"]).num_rows == 0
    assert find_rows(store.open(at), pa.array(["x3"]), ["n"]).column("n").to_pylist() == [3]


def test_only_fragments_with_a_wanted_value_are_searched(store: Store, rows) -> None:
    at = rows.create(**{f"i{n}": n for n in range(5)})
    for number in range(8):
        at = advance(store, rows.append(at, **{f"x{number}": number}))
    dataset = store.open(at)
    searched = fragments_to_search(dataset, {"id": pa.array(["x3", "nothing"])})
    assert searched is not None
    found = [f.scanner(columns=["id"]).to_table()["id"].to_pylist() for f in searched]
    assert ["x3"] in found
    assert not any(x in [f"x{n}" for n in range(8) if n != 3] for held in found for x in held)
    assert find_rows(dataset, pa.array(["nothing"]), ["n"]).schema.names == [
        "id",
        "n",
        "_rowid",
        "_rowaddr",
    ]


def test_fragments_whose_wanted_row_was_deleted_are_not_searched(store: Store, rows) -> None:
    """A row that every commit writes again. Each version finds its own row, in any order."""
    at = rows.create(**{f"i{n}": n for n in range(5)})
    at = advance(store, rows.append(at, count=0))
    versions = [at]
    for number in range(1, 12):
        old = find_rows(store.open(at), pa.array(["count"]), ["n"])
        values = {"count": number, f"other{number}": number, f"more{number}": number}
        new = rows.table(values)
        at = advance(store, stage_edit(store, at, RowEdit(new, old, None)))
        assert isinstance(at, DatasetVersion)
        versions.append(at)
    branch = create_branch(store, versions[8], "b")
    gone = find_rows(store.open(branch), pa.array(["count", "other3"]), ["n"])
    emptied = advance(store, stage_edit(store, branch, RowEdit(None, None, gone)))
    assert isinstance(emptied, DatasetVersion)
    for order in (versions, versions[::-1]):
        forget()
        for version in order:
            found = find_rows(store.open(version), pa.array(["count"]), ["n"])
            assert found.column("n").to_pylist() == [versions.index(version)]
            # The last version and the branch have the same data file with other deletions.
            wanted = pa.array(["count", "other3"])
            assert find_rows(store.open(emptied), wanted, ["n"]).num_rows == 0
            assert _sorted(find_rows(store.open(at), wanted, ["n"]).column("n")) == [3, 11]
    for wanted, fragment in (("count", at), ("other3", versions[3])):
        searched = fragments_to_search(store.open(at), {"id": pa.array([wanted])})
        assert searched is not None
        newest = max(store.open(fragment).fragment_ids())
        assert [f.fragment_id for f in searched] == [newest]
