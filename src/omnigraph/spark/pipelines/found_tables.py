"""Tables that are found in sample data: types, keys and references, with their evidence.

Files are looked at without Spark. `inferred_files.py` writes every guess as a comment beside what
follows from it, so that the two files can be edited with the evidence beside them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob
from itertools import combinations
from pathlib import Path
from typing import Any

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.spark.pipelines.infer_names import (
    NAMED_KEY,
    camel_name,
    key_likeness,
    names_table,
    property_name,
    singular,
    snake_name,
    without_id,
)
from omnigraph.spark.pipelines.samples import (
    TEXT,
    SampleColumn,
    SampleTable,
    form_of,
    read_sample,
)

FORMS = (".csv", ".tsv", ".json", ".ndjson", ".jsonl", ".parquet")
SAMPLE_ROWS = 100_000
_LEAST_SHARE, _SURE_SHARE = 0.5, 0.95
_KEY_SHARE = 0.8
"""A column that is named like the key is the key if so many of its values are different."""
_KEY_COLUMNS_TRIED = 6
_NO_KEY = ("F64", "Bool", "Date", "DateTime", "[String]")
_OWN_KIND = re.compile(r"parent|manager|supervisor|boss|reports?_to|reply_to|replaces|prev|next")


@dataclass(frozen=True, slots=True)
class FoundReference:
    """A column whose values are keys of another table, and how many of them are."""

    column: SampleColumn
    to: FoundTable
    matched: int
    values: int

    @property
    def share(self) -> float:
        return self.matched / self.values


@dataclass(slots=True)
class FoundTable:
    """A sample with the guesses about it."""

    sample: SampleTable
    type_name: str
    key: SampleColumn | None = None
    parts: tuple[SampleColumn, ...] = ()
    """Two columns that are unique together, if no column is."""
    references: list[FoundReference] = field(default_factory=list)
    is_edge: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    """Header -> property."""

    @property
    def step(self) -> str:
        return self.sample.name

    @property
    def source(self) -> str:
        return f"raw_{self.sample.name}"

    @property
    def key_property(self) -> str:
        return "row_key" if self.key is None else self.properties[self.key.header]

    @property
    def repeated(self) -> int:
        """Rows that have no key, or that of another row."""
        return 0 if self.key is None else self.sample.rows - len(self.key.distinct())

    def own_columns(self) -> list[SampleColumn]:
        """The columns that become properties, so without references and the key."""
        referring = [id(each.column) for each in self.references]
        return [
            each
            for each in self.sample.columns
            if each is not self.key and id(each) not in referring
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredPipeline:
    """The files that were written, and the evidence."""

    pipeline: str
    schema: str
    tables: list[dict[str, Any]]
    left_out: list[str]
    """Files without rows."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "schema": self.schema,
            "tables": self.tables,
            "left_out": self.left_out,
        }


def find_tables(
    files: Sequence[str | os.PathLike[str]], rows: int
) -> tuple[list[FoundTable], list[Path]]:
    """The tables of the files, with types, keys and references; and files without rows.

    Raises:
        InvalidArgument: a file has another format, or no file has rows.
        NotFound: a file is missing.
    """
    tables: list[FoundTable] = []
    left_out: list[Path] = []
    names: set[str] = set()
    for stem, paths in _grouped(_paths(files)):
        name = snake_name(stem) or "rows"
        while name in names:
            name += "_2"
        sample = read_sample(name, paths, rows)
        if not sample.rows:
            left_out += paths
            continue
        names.add(name)
        tables.append(FoundTable(sample, camel_name(singular(stem))))
    if not tables:
        raise InvalidArgument(f"{left_out[0]} has no rows to look at", file=str(left_out[0]))
    for table in tables:
        _find_key(table)
    for table in tables:
        table.references = _references(table, tables)
    _choose_edges(tables)
    _same_types(tables)
    _distinct_types(tables)
    for table in tables:
        _name_properties(table)
    return tables, left_out


# --- files ------------------------------------------------------------------------------------


def _paths(files: Sequence[str | os.PathLike[str]]) -> list[Path]:
    found: list[Path] = []
    for given in files:
        path = Path(given)
        if path.is_dir():
            inside = [each for each in sorted(path.rglob("*")) if form_of(each) in FORMS]
            found += [each for each in inside if each.is_file()]
        elif path.is_file():
            found.append(path)
        else:
            found += [Path(each) for each in sorted(glob(os.fspath(given), recursive=True))]  # noqa: PTH207
        if not found:
            raise NotFound(f"{given}: no such file, folder or glob", file=str(given))
    for path in found:
        if form_of(path) not in FORMS:
            raise InvalidArgument(
                f"{path}: the formats are {', '.join(FORMS)}, also with .gz", file=str(path)
            )
    return list(dict.fromkeys(found))


def _grouped(paths: Iterable[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Files of one folder whose names differ in numbers only are one table."""
    groups: dict[tuple[Path, str, str], list[Path]] = {}
    for path in paths:
        stem = path.name.split(".")[0]
        series = re.sub(r"[-_. ]*\d[\d\-_.T]*$", "", stem) or stem
        groups.setdefault((path.parent, form_of(path), series), []).append(path)
    for (_, _, series), members in groups.items():
        stem = members[0].name.split(".")[0]
        # The number of a single file is that of a series only if it stands apart.
        alone = len(members) == 1 and not re.match(r"[-_. ]", stem[len(series) :])
        yield (stem if alone else series), members


# --- keys and references ----------------------------------------------------------------------


def _find_key(table: FoundTable) -> None:
    columns = [each for each in table.sample.columns if each.type.name not in _NO_KEY]
    likeness = {id(each): key_likeness(each.header, table.step) for each in columns}
    unique = [
        each for each in columns if not each.missing and len(each.distinct()) == table.sample.rows
    ]
    # `max` takes the first of several.
    table.key = max(unique, key=lambda each: likeness[id(each)], default=None)
    if table.key is not None and likeness[id(table.key)] >= NAMED_KEY:
        return
    least = _KEY_SHARE * table.sample.rows
    named = [
        each
        for each in columns
        if likeness[id(each)] >= NAMED_KEY and len(each.distinct()) >= least
    ]
    if named:
        table.key = named[0]
    if table.key is not None:
        return
    whole = [each for each in columns if not each.missing][:_KEY_COLUMNS_TRIED]
    for pair in combinations(whole, 2):
        if len(set(zip(*(each.texts for each in pair), strict=True))) == table.sample.rows:
            table.parts = pair
            return


def _references(table: FoundTable, tables: Sequence[FoundTable]) -> list[FoundReference]:
    found = []
    for column in table.sample.columns:
        values = column.distinct()
        if not values or column.type.name in ("F64", "Bool", "Date", "DateTime"):
            continue
        options = []
        for other in tables:
            if other.key is None or other.key is column or (other is table and column is table.key):
                continue
            matched = len(values & other.key.distinct())
            reference = FoundReference(column, other, matched, len(values))
            strength = _strength(table, reference)
            if strength:
                options.append((strength, reference.share, reference))
        if options:
            found.append(max(options, key=lambda option: option[:2])[2])
    return found


def _strength(table: FoundTable, reference: FoundReference) -> int:
    """0: no reference; more if the name of the column says the same as its values."""
    header, other = reference.column.header, reference.to
    key = other.key
    if key is None or reference.share < _LEAST_SHARE:
        return 0
    if names_table(header, other.step, key.header):
        # Two keys with the same values are one entity in two files, if their names agree.
        return 3
    if reference.column is table.key:
        return 0
    own_kind = other is table and _OWN_KIND.search(snake_name(header)) is not None
    if own_kind and reference.share >= _SURE_SHARE:
        return 2
    numbers = key.type.name == "I64"
    if numbers:
        return int(snake_name(header).endswith("id") and reference.matched == reference.values)
    return int(reference.share >= _SURE_SHARE and reference.values >= 2)


def _choose_edges(tables: Sequence[FoundTable]) -> None:
    """A table without its own key that refers to two tables holds edges."""
    referred = {each.to.step for table in tables for each in table.references}
    for table in tables:
        two = [each for each in table.references if not each.column.is_list][:2]
        table.is_edge = table.key is None and len(two) == 2 and table.step not in referred
        if table.is_edge:
            table.references = two


def _same_types(tables: Sequence[FoundTable]) -> None:
    """A key and what refers to it have one type; if they differ, all are texts."""
    for table in tables:
        if table.key is None:
            continue
        referring = [
            each.column for other in tables for each in other.references if each.to is table
        ]
        alike = {each.type.name for each in (*referring, table.key) if not each.is_list}
        if len(alike) > 1 or any(each.is_list for each in referring) or table.key.type.values:
            for column in (*referring, table.key):
                column.type = column.type if column.is_list else TEXT


def _distinct_types(tables: Sequence[FoundTable]) -> None:
    taken: set[str] = set()
    for table in tables:
        base, again = table.type_name, 2
        while table.type_name.lower() in taken:
            table.type_name, again = f"{base}{again}", again + 1
        taken.add(table.type_name.lower())


def _name_properties(table: FoundTable) -> None:
    taken: set[str] = set()
    for column in table.sample.columns:
        base = name = property_name(column.header, table.step)
        again = 2
        while name in taken or name == "row_key":
            name, again = f"{base}_{again}", again + 1
        taken.add(name)
        table.properties[column.header] = name


def edge_name(table: FoundTable, reference: FoundReference, taken: set[str]) -> str:
    """`OrderCustomer` for the column `customer_id` of `orders`."""
    base = name = table.type_name + camel_name(without_id(reference.column.header))
    again = 2
    while name.lower() in taken:
        name, again = f"{base}{again}", again + 1
    taken.add(name.lower())
    return name
