"""Sample rows of data files, and the type that fits all values of a column.

Values are texts, as in CSV. What a value must look like for each type is in `guess_type`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import InvalidArgument

NULL_TEXTS = ("", "na", "n/a", "null", "none", "nan", "-", "--", "?", "nil", "#n/a", "\\n")
"""Texts that stand for no value, in lower case."""
MOST_ENUM_VALUES = 12
_MOST_BYTES = 64 * 1024 * 1024
_UTF8 = "UTF-8"
_ENUM_ROWS_EACH = 5
_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_INTEGER = re.compile(r"[-+]?(0|[1-9]\d{0,17})")
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_LEADING_ZERO = re.compile(r"[-+]?0\d")
_TRUTHS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?\s?(Z|[-+]\d\d:?\d\d)?", re.IGNORECASE
)
_DAYS = {
    "yyyy-MM-dd": "%Y-%m-%d",
    "dd.MM.yyyy": "%d.%m.%Y",
    "yyyy/MM/dd": "%Y/%m/%d",
    "dd/MM/yyyy": "%d/%m/%Y",
    "MM/dd/yyyy": "%m/%d/%Y",
    "dd-MM-yyyy": "%d-%m-%Y",
    "dd-MMM-yyyy": "%d-%b-%Y",
    "dd MMM yyyy": "%d %b %Y",
}
"""The pattern of Spark -> that of Python."""
_EITHER_WAY = ({"dd/MM/yyyy", "MM/dd/yyyy"},)


@dataclass(frozen=True, slots=True)
class GuessedType:
    """A type of the schema language, and how Spark SQL makes it from text."""

    name: str
    """`String`, `I64`, `F64`, `Bool`, `Date`, `DateTime`, `enum(…)`, `[String]`."""
    cast: str = "{}"
    """SQL with `{}` for the text; fails for a text that does not fit."""
    attempt: str = "{}"
    """The same, but NULL for a text that does not fit."""
    note: str = ""
    values: tuple[str, ...] = ()
    """Of an enum."""

    @property
    def is_text(self) -> bool:
        return self.cast == "{}"


TEXT = GuessedType("String")


@dataclass(slots=True)
class SampleColumn:
    """One column: its name in the file, and the texts of the sample; None for no value."""

    header: str
    access: str
    """SQL that reads it from the source."""
    texts: list[Any] = field(default_factory=list)
    null_texts: set[str] = field(default_factory=set)
    """Texts in the sample that stand for no value."""
    is_list: bool = False
    arrow_type: pa.DataType | None = None
    """Of Parquet, which has types already."""
    type: GuessedType = TEXT

    @property
    def known(self) -> list[Any]:
        return [text for text in self.texts if text is not None]

    @property
    def missing(self) -> int:
        return sum(text is None for text in self.texts)

    def distinct(self) -> set[Any]:
        found = self.known
        return {item for texts in found for item in texts} if self.is_list else set(found)


@dataclass(slots=True)
class SamplePart:
    """Files of a table that Spark reads as one source: same encoding, delimiter and columns."""

    paths: list[Path]
    options: dict[str, str]
    schema: str | None
    """The columns as DDL text, all of them texts."""
    headers: list[str]
    """The columns that these files have."""


@dataclass(slots=True)
class SampleTable:
    """The sample of one table: one file, or several files of the same series."""

    name: str
    format: str
    parts: list[SamplePart]
    columns: list[SampleColumn]
    rows: int
    complete: bool
    """Whether the sample is all there is."""
    notes: list[str] = field(default_factory=list)
    bad_records: bool = False
    """Whether there are records that Spark cannot read; it puts their text into `BAD_RECORD`."""

    @property
    def paths(self) -> list[Path]:
        return sorted(path for part in self.parts for path in part.paths)


BAD_RECORD = "_corrupt_record"
"""The column for which Spark keeps the text of a record that it cannot read."""


def read_sample(name: str, paths: Sequence[Path], limit: int) -> SampleTable:
    """Read at most `limit` rows from files of one series, and guess the types of their columns.

    Raises:
        InvalidArgument: a file cannot be read, or no file has rows.
    """
    suffix = form_of(paths[0])
    read = {".csv": _read_csv, ".tsv": _read_csv, ".parquet": _read_parquet}.get(suffix, _read_json)
    table = read(name, list(paths), limit)
    for column in table.columns:
        column.type = guess_type(column)
    return table


def form_of(path: Path) -> str:
    """`.csv`, `.json` …: the suffix without that of compression."""
    suffixes = [each.lower() for each in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


# --- CSV --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _CsvFiles:
    """Files with the same encoding, delimiter and header, and their sample rows."""

    encoding: str
    delimiter: str
    written: list[str]
    """The header as it is in the files."""
    paths: list[Path] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    @property
    def header(self) -> list[str]:
        return [each.strip() for each in self.written]

    @property
    def names(self) -> list[str]:
        return _column_names(self.header)

    @property
    def ragged(self) -> int:
        return sum(len(row) != len(self.written) for row in self.rows)

    def part(self, *, bad_records: bool) -> SamplePart:
        options = {"header": "true"}
        if self.delimiter != ",":
            options["sep"] = "\\t" if self.delimiter == "\t" else self.delimiter
        if self.encoding != _UTF8:
            options["encoding"] = self.encoding
        # Two quotes are one quote inside of quotes; by default Spark wants a backslash.
        options |= {"quote": '"', "escape": '"'}
        if any("\n" in cell for row in self.rows for cell in row):
            options["multiLine"] = "true"
        if self.header != self.written:
            options |= {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
        # Names are compared with each file, so that columns in another order are not mixed up.
        if self.names == self.header:
            options["enforceSchema"] = "false"
        columns = [*self.names, *([BAD_RECORD] if bad_records else [])]
        schema = ", ".join(f"{_quoted(each)} STRING" for each in columns)
        return SamplePart(self.paths, options, schema, self.names)


def _read_csv(name: str, paths: list[Path], limit: int) -> SampleTable:
    groups: dict[tuple[Any, ...], _CsvFiles] = {}
    empty: list[Path] = []
    taken, complete = 0, True
    for path in paths:
        text, encoding, whole = _text_of(path)
        if not text.strip():
            empty.append(path)
            continue
        delimiter = _delimiter(text.split("\n", 1)[0], form_of(path))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        written = next(reader, [])
        form = (encoding, delimiter, *written)
        group = groups.setdefault(form, _CsvFiles(encoding, delimiter, written))
        group.paths.append(path)
        rows = _records(path, reader, limit - taken + 1)
        complete &= whole and len(rows) <= limit - taken
        rows = [row for row in rows[: limit - taken] if any(row)]
        group.rows += rows
        taken += len(rows)
    if not groups:
        return SampleTable(name, "csv", [], [], 0, complete)
    found = list(groups.values())
    found[0].paths += empty
    notes = _file_notes(empty, [(each.paths, each.encoding) for each in found])
    notes += _header_notes(found)
    if any(each.names != each.header for each in found):
        notes.append("names in the header are empty or repeated: columns count by position")
    ragged = sum(each.ragged for each in found)
    if ragged:
        notes.append(f"{ragged:,} of {taken:,} rows have more or fewer cells than the header")
    parts = [each.part(bad_records=bool(ragged)) for each in found]
    columns = _csv_columns(found)
    return SampleTable(name, "csv", parts, columns, taken, complete, notes, bool(ragged))


def _file_notes(empty: Sequence[Path], encoded: Sequence[tuple[list[Path], str]]) -> list[str]:
    notes = []
    if empty:
        notes.append(f"{_listed(empty)} {'is' if len(empty) == 1 else 'are'} empty")
    by_encoding: dict[str, list[Path]] = {}
    for paths, encoding in encoded:
        by_encoding.setdefault(encoding, []).extend(path for path in paths if path not in empty)
    if len(by_encoding) > 1:
        told = (f"{encoding} in {_listed(paths)}" for encoding, paths in by_encoding.items())
        notes.append(f"the encodings differ ({'; '.join(told)}), so there is a source for each")
    return notes


def _header_notes(found: Sequence[_CsvFiles]) -> list[str]:
    """How the columns of other files differ from those of the first."""
    notes = []
    first = {each.casefold(): each for each in found[0].names}
    for group in found[1:]:
        names = {each.casefold(): each for each in group.names}
        more = [names[each] for each in names.keys() - first.keys()]
        fewer = [first[each] for each in first.keys() - names.keys()]
        for word, some in (("also has", more), ("lacks", fewer)):
            if some:
                columns = ", ".join(repr(each) for each in sorted(some))
                notes.append(f"{_listed(group.paths)} {word} {columns}")
    return notes


def _listed(paths: Sequence[Path]) -> str:
    shown = ", ".join(path.name for path in paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3:,} more"


def _csv_columns(groups: Sequence[_CsvFiles]) -> list[SampleColumn]:
    """The columns of all files; Spark does not tell upper from lower case in names."""
    columns: dict[str, SampleColumn] = {}
    for group in groups:
        for name in group.names:
            columns.setdefault(name.casefold(), SampleColumn(name, _quoted(name)))
    for group in groups:
        names = [name.casefold() for name in group.names]
        for row in group.rows:
            cells = dict(zip(names, row, strict=False))
            for name, column in columns.items():
                _add_text(column, cells[name]) if name in cells else column.texts.append(None)
    return list(columns.values())


def _records(path: Path, reader: Any, count: int) -> list[list[str]]:
    try:
        return list(islice(reader, count))
    except csv.Error as error:
        raise InvalidArgument(
            f"{path}, near line {reader.line_num:,}: not CSV: {error}", file=str(path)
        ) from error


def _text_of(path: Path) -> tuple[str, str, bool]:
    """The text, its encoding in the words of Spark, and whether it is all of the file.

    Of a large file only whole lines at its beginning are read.
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        data = stream.read(_MOST_BYTES + 1)
    whole = len(data) <= _MOST_BYTES
    if not whole:
        data = data[: data.rfind(b"\n") + 1] or data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text, encoding = data.decode("utf-16", "replace"), "UTF-16"
    else:
        try:
            text, encoding = data.decode("utf-8-sig"), _UTF8
        except UnicodeDecodeError:
            text, encoding = data.decode("cp1252", "replace"), "windows-1252"
    return text.replace("\r\n", "\n"), encoding, whole


def _delimiter(first: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"
    unquoted = re.sub(r'"[^"]*"', "", first)
    return max(",;\t|", key=lambda mark: (unquoted.count(mark), mark == ","))


def _column_names(header: Sequence[str]) -> list[str]:
    """The header, with a name for every column, no two of them equal."""
    names: list[str] = []
    taken: set[str] = set()
    for number, given in enumerate(header, 1):
        base = name = given or f"column_{number}"
        again = 2
        while name.lower() in taken:
            name, again = f"{base}_{again}", again + 1
        taken.add(name.lower())
        names.append(name)
    return names


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _add_text(column: SampleColumn, cell: str) -> None:
    text = cell.strip()
    if text.lower() in NULL_TEXTS:
        column.null_texts.add(text)
        column.texts.append(None)
    else:
        column.texts.append(text)


# --- JSON and Parquet -------------------------------------------------------------------------


def _read_json(name: str, paths: list[Path], limit: int) -> SampleTable:
    rows: list[dict[str, Any]] = []
    grouped: dict[tuple[str, bool], list[Path]] = {}
    empty: list[Path] = []
    bad: list[str] = []
    complete = True
    for path in paths:
        text, encoding, whole = _text_of(path)
        if not text.strip():
            empty.append(path)
            continue
        as_list = text.lstrip().startswith("[")
        grouped.setdefault((encoding, as_list), []).append(path)
        found = _list_items(path, text) if as_list else _line_items(path, text, bad)
        taken = list(islice(found, limit - len(rows) + 1))
        complete &= whole and len(taken) <= limit - len(rows)
        rows += taken[: limit - len(rows)]
    if bad and not rows:
        raise InvalidArgument(f"{bad[0]}, and no other line is", file=str(paths[0]))
    if rows and all(set(row) >= {"type", "data"} or "edge" in row for row in rows[:100]):
        raise InvalidArgument(
            f"{paths[0]} names the type of every row: load it with `omnigraph load`",
            file=str(paths[0]),
        )
    columns, ddl = _json_columns(rows)
    if bad:
        ddl = f"{ddl}, {_quoted(BAD_RECORD)} STRING"
    headers = [column.header for column in columns]
    parts = [
        SamplePart(some, _json_options(encoding, as_list), ddl, headers)
        for (encoding, as_list), some in grouped.items()
    ]
    if parts:
        parts[0].paths += empty
    notes = _file_notes(empty, [(some, encoding) for (encoding, _), some in grouped.items()])
    if bad:
        more = f" ({len(bad):,} such lines)" if len(bad) > 1 else ""
        notes.append(f"{bad[0]}{more}")
    return SampleTable(name, "json", parts, columns, len(rows), complete, notes, bool(bad))


def _json_options(encoding: str, as_list: bool) -> dict[str, str]:
    options = {"multiLine": "true"} if as_list else {}
    if encoding != _UTF8:
        options["encoding"] = encoding
        if not as_list:
            options["lineSep"] = "\n"  # Spark finds lines by itself in UTF-8 only
    return options


def _list_items(path: Path, text: str) -> Iterator[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{path} is not JSON: {error}", file=str(path)) from error
    return (item for item in found if isinstance(item, dict))


def _line_items(path: Path, text: str, bad: list[str]) -> Iterator[dict[str, Any]]:
    """The objects of the lines; other lines are told in `bad`."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except ValueError:
            item = None
        if isinstance(item, dict):
            yield item
        else:
            bad.append(f"{path}, line {number:,}: {line[:60]!r} is not a JSON object")


def _json_columns(rows: list[dict[str, Any]]) -> tuple[list[SampleColumn], str]:
    """Scalars and lists of scalars; objects are taken apart once; the rest stays JSON text."""
    columns: list[SampleColumn] = []
    ddl: list[str] = []
    for key in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(key) for row in rows]
        known = [value for value in values if value is not None]
        if known and all(isinstance(value, dict) for value in known):
            inner = list(dict.fromkeys(name for value in known for name in value))
            ddl.append(
                f"{_quoted(key)} STRUCT<{', '.join(f'{_quoted(i)}: STRING' for i in inner)}>"
            )
            for name in inner:
                column = SampleColumn(f"{key}_{name}", f"{_quoted(key)}.{_quoted(name)}")
                _add_values(column, [(value or {}).get(name) for value in values])
                columns.append(column)
            continue
        column = SampleColumn(key, _quoted(key))
        column.is_list = bool(known) and all(_is_plain_list(value) for value in known)
        ddl.append(f"{_quoted(key)} {'ARRAY<STRING>' if column.is_list else 'STRING'}")
        _add_values(column, values)
        columns.append(column)
    return columns, ", ".join(ddl)


def _is_plain_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str | int | float) for each in value)


def _add_values(column: SampleColumn, values: Iterable[Any]) -> None:
    for value in values:
        if value is None or value == []:
            column.texts.append(None)
        elif column.is_list:
            column.texts.append([_scalar_text(each) for each in value])
        else:
            _add_text(column, _scalar_text(value))


def _scalar_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_parquet(name: str, paths: list[Path], limit: int) -> SampleTable:
    columns: list[SampleColumn] = []
    rows, complete = 0, True
    for path in paths:
        file = pq.ParquetFile(path)
        if not columns:
            columns = [
                SampleColumn(each.name, _quoted(each.name), arrow_type=each.type)
                for each in file.schema_arrow
            ]
            for column in columns:
                column.is_list = pa.types.is_list(column.arrow_type)
        for batch in file.iter_batches(batch_size=max(1, limit - rows)):
            part = batch.slice(0, limit - rows)
            complete &= part.num_rows == batch.num_rows
            rows += part.num_rows
            for column, values in zip(columns, part.columns, strict=True):
                _add_values(column, (_plain(value) for value in values.to_pylist()))
            if rows >= limit:
                break
        complete &= rows < limit or file.metadata.num_rows == rows
    part = SamplePart(paths, {}, None, [column.header for column in columns])
    return SampleTable(name, "parquet", [part], columns, rows, complete)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date | datetime) else value


# --- types ------------------------------------------------------------------------------------


def guess_type(column: SampleColumn) -> GuessedType:
    """The narrowest type that all values fit, else String."""
    if column.arrow_type is not None:
        return _type_of_arrow(column.arrow_type)
    if column.is_list:
        return GuessedType("[String]")
    texts = set(column.known)
    if not texts:
        return GuessedType("String", note="no value in the sample")
    for guess in (_truth, _integer, _number, _day, _moment):
        found = guess(texts, column.header)
        if found is not None:
            return found
    return _enum(column, texts) or TEXT


def _type_of_arrow(found: pa.DataType) -> GuessedType:
    kinds = pa.types
    if kinds.is_boolean(found):
        return _cast("Bool", "BOOLEAN")
    if kinds.is_integer(found):
        return _cast("I64", "BIGINT")
    if kinds.is_floating(found) or kinds.is_decimal(found):
        return _cast("F64", "DOUBLE")
    if kinds.is_date(found):
        return _cast("Date", "DATE")
    if kinds.is_timestamp(found):
        return _cast("DateTime", "TIMESTAMP")
    if kinds.is_list(found) and kinds.is_string(found.value_type):
        return GuessedType("[String]")
    if kinds.is_string(found) or kinds.is_large_string(found):
        return TEXT
    return GuessedType("String", "to_json({})", "to_json({})", note=f"{found} as JSON text")


def _cast(name: str, of_spark: str, text: str = "{}", note: str = "") -> GuessedType:
    return GuessedType(name, f"CAST({text} AS {of_spark})", f"try_cast({text} AS {of_spark})", note)


def _truth(texts: set[str], header: str) -> GuessedType | None:
    lower = {text.lower() for text in texts}
    marked = re.match(r"(is|has|can)[_ A-Z]", header) is not None
    if any(lower <= pair for pair in _TRUTHS) or (marked and lower <= {"0", "1"}):
        return _cast("Bool", "BOOLEAN", note=f"values {', '.join(sorted(texts))}")
    return None


def _integer(texts: set[str], header: str) -> GuessedType | None:
    del header
    return _cast("I64", "BIGINT") if all(_INTEGER.fullmatch(text) for text in texts) else None


def _number(texts: set[str], header: str) -> GuessedType | None:
    del header
    if any(_LEADING_ZERO.match(text) and "." not in text and "," not in text for text in texts):
        return None  # codes such as 00123
    plain = {text for text in texts if _FLOAT.fullmatch(text)}
    if plain == texts:
        return _cast("F64", "DOUBLE") if any("." in t or "e" in t.lower() for t in texts) else None
    rest = texts - plain
    if all(_THOUSANDS.fullmatch(text) for text in rest):
        return _cast("F64", "DOUBLE", "replace({}, ',', '')", "a comma between thousands")
    if all(_DECIMAL_COMMA.fullmatch(text) for text in rest) and not any("." in t for t in plain):
        text = "replace(replace({}, '.', ''), ',', '.')"
        return _cast("F64", "DOUBLE", text, "a comma before decimals")
    return None


def _day(texts: set[str], header: str) -> GuessedType | None:
    del header
    fitting = {pattern: {t for t in texts if _is_day(t, _DAYS[pattern])} for pattern in _DAYS}
    used: list[str] = []
    left = set(texts)
    for pattern, found in sorted(fitting.items(), key=lambda item: -len(item[1])):
        if found & left:
            used.append(pattern)
            left -= found
    if left or not used:
        return None
    for pair in _EITHER_WAY:
        both = [pattern for pattern in pair if fitting[pattern]]
        if len(both) == 2 and (len(set(used) & pair) == 2 or fitting[both[0]] == fitting[both[1]]):
            note = f"days, but their order is not clear ({' or '.join(sorted(pair))})"
            return GuessedType("String", note=note)
    if used == ["yyyy-MM-dd"]:
        return _cast("Date", "DATE")
    attempts = [f"CAST(try_to_timestamp({{}}, '{pattern}') AS DATE)" for pattern in used]
    attempt = attempts[0] if len(used) == 1 else f"coalesce({', '.join(attempts)})"
    strict = f"to_date({{}}, '{used[0]}')" if len(used) == 1 else attempt
    return GuessedType("Date", strict, attempt, f"written as {' and '.join(used)}")


def _is_day(text: str, pattern: str) -> bool:
    if len(text) > len("31 Dec 2026"):
        return False
    try:
        return len(datetime.strptime(text, pattern).strftime(pattern)) == len(text)
    except ValueError:
        return False


def _moment(texts: set[str], header: str) -> GuessedType | None:
    del header
    if not all(_MOMENT.fullmatch(text) for text in texts):
        return None
    zoned = all(re.search(r"(Z|[-+]\d\d:?\d\d)$", text, re.IGNORECASE) for text in texts)
    return _cast("DateTime", "TIMESTAMP", note="" if zoned else "without a zone, taken as UTC")


def _enum(column: SampleColumn, texts: set[str]) -> GuessedType | None:
    few = 2 <= len(texts) <= MOST_ENUM_VALUES
    often = len(column.known) >= _ENUM_ROWS_EACH * len(texts) and len(column.known) >= 20
    if not few or not often or not all(_ENUM_VALUE.fullmatch(text) for text in texts):
        return None
    lower = sorted({text.lower() for text in texts})
    if len(lower) < len(texts):
        note = "written in upper and lower case"
        return GuessedType(
            f"enum({', '.join(lower)})", "lower({})", "lower({})", note, tuple(lower)
        )
    values = sorted(texts)
    return GuessedType(f"enum({', '.join(values)})", values=tuple(values))


def lines_of(table: SampleTable) -> Iterator[str]:
    """What a reader should know about the sample."""
    what = "all" if table.complete else "the first"
    yield f"{what} {table.rows:,} rows of {table.paths[0].name}" + (
        f" and {len(table.paths) - 1:,} more" if len(table.paths) > 1 else ""
    )
    yield from table.notes
