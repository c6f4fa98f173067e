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
class SampleTable:
    """The sample of one source: one file, or several files of the same form."""

    name: str
    paths: list[Path]
    format: str
    options: dict[str, str]
    columns: list[SampleColumn]
    schema: str | None
    """The columns as DDL text, all of them texts."""
    rows: int
    complete: bool
    """Whether the sample is all there is."""
    notes: list[str] = field(default_factory=list)


def read_sample(name: str, paths: Sequence[Path], limit: int) -> SampleTable:
    """Read at most `limit` rows from files of one form, and guess the types of their columns."""
    suffix = form_of(paths[0])
    read = {".csv": _read_csv, ".tsv": _read_csv, ".parquet": _read_parquet}.get(suffix, _read_json)
    table = read(name, list(paths), limit)
    for column in table.columns:
        column.type = guess_type(column)
    if not table.rows:
        raise InvalidArgument(f"{paths[0]} has no rows to look at", file=str(paths[0]))
    return table


def form_of(path: Path) -> str:
    """`.csv`, `.json` …: the suffix without that of compression."""
    suffixes = [each.lower() for each in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


# --- CSV --------------------------------------------------------------------------------------


def _read_csv(name: str, paths: list[Path], limit: int) -> SampleTable:
    encoding, delimiter, spaced = "UTF-8", ",", False
    header: list[str] = []
    rows: list[list[str]] = []
    complete = True
    for path in paths:
        text, encoding, whole = _text_of(path)
        delimiter = _delimiter(text.split("\n", 1)[0], form_of(path))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        written = next(reader, [])
        header = [each.strip() for each in written]
        spaced |= header != written
        room = limit - len(rows)
        taken = _records(path, reader, room + 1)
        complete &= whole and len(taken) <= room
        rows += [row for row in taken[:room] if any(row)]
        if len(rows) >= limit:
            break
    options = {"header": "true"}
    if delimiter != ",":
        options["sep"] = "\\t" if delimiter == "\t" else delimiter
    if encoding != "UTF-8":
        options["encoding"] = encoding
    # Two quotes are one quote inside of quotes; by default Spark wants a backslash.
    options |= {"quote": '"', "escape": '"'}
    if any("\n" in cell for row in rows for cell in row):
        options["multiLine"] = "true"
    if spaced:
        options |= {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
    names, notes = _column_names(header), list[str]()
    # Names are compared with each file, so that columns in another order are not mixed up.
    if names == header:
        options["enforceSchema"] = "false"
    else:
        notes.append("names in the header are empty or repeated: columns count by position")
    ragged = sum(len(row) != len(header) for row in rows)
    if ragged:
        notes.append(f"{ragged:,} of {len(rows):,} rows have more or fewer cells than the header")
    columns = _csv_columns(names, rows)
    schema = ", ".join(f"{_quoted(each)} STRING" for each in names)
    return SampleTable(name, paths, "csv", options, columns, schema, len(rows), complete, notes)


def _csv_columns(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[SampleColumn]:
    columns = [SampleColumn(each, _quoted(each)) for each in names]
    for row in rows:
        for column, cell in zip(columns, row, strict=False):
            _add_text(column, cell)
        for column in columns[len(row) :]:
            column.texts.append(None)
    return columns


def _records(path: Path, reader: Iterator[list[str]], count: int) -> list[list[str]]:
    try:
        return list(islice(reader, count))
    except csv.Error as error:
        raise InvalidArgument(f"{path} is not CSV: {error}", file=str(path)) from error


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
            text, encoding = data.decode("utf-8-sig"), "UTF-8"
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
    options: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    complete = True
    for path in paths:
        text, _, whole = _text_of(path)
        complete &= whole
        if text.lstrip().startswith("["):
            options["multiLine"] = "true"
            found: Iterable[Any] = _parsed(path, text)
        else:
            found = (_parsed(path, line) for line in text.splitlines() if line.strip())
        taken = list(islice(found, limit - len(rows) + 1))
        complete &= len(taken) <= limit - len(rows)
        rows += [row for row in taken[: limit - len(rows)] if isinstance(row, dict)]
    if rows and all(set(row) >= {"type", "data"} or "edge" in row for row in rows[:100]):
        raise InvalidArgument(
            f"{paths[0]} names the type of every row: load it with `omnigraph load`",
            file=str(paths[0]),
        )
    columns, ddl = _json_columns(rows)
    return SampleTable(name, paths, "json", options, columns, ddl, len(rows), complete)


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{path}: {text[:60]!r} is not JSON: {error}", file=str(path)
        ) from error


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
    return SampleTable(name, paths, "parquet", {}, columns, None, rows, complete)


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
