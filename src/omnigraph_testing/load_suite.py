"""The cases that every load engine must pass: bad inputs with their errors, good ones with results.

`check_bad` and `check_good` run one case with an engine, given as the value of `engine=`.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from omnigraph.errors import (
    InvalidArgument,
    KeyConflict,
    OmnigraphError,
    ValidationFailed,
)
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.settings.models import Settings
from omnigraph_testing.graph_helpers import exported

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  big: I64?
  unsigned: U64?
  score: F32?
  rank: F64?
  ok: Bool?
  status: enum(active, left)?
  born: Date?
  joined: DateTime?
  tags: [String]?
  vec: Vector(2)?
  photo: Blob?
  email: String?
  code: String?
  @range(age, 0..150)
  @check(email, "^[^@]+@[^@]+$")
  @unique(code)
}
node City { zip: String  land: String  label: String?  @key(zip, land) }
node Note { text: String }
node Task {
  title: String @key
  state: enum(open, done) @default("open")
  points: I32? @default(3)
  due: Date? @default("2030-01-01")
}
edge Knows: Person -> Person @card(0..2) { since: Date?  @unique(src, dst) }
edge LivesIn: Person -> City @card(1..1)
edge Wrote: Person -> Note
"""

BASE = """\
{"type":"Person","data":{"name":"ada","age":36,"code":"A"}}
{"type":"Person","data":{"name":"bob"}}
{"type":"City","data":{"zip":"1","land":"at"}}
{"edge":"LivesIn","from":"ada","to":"[\\"at\\",\\"1\\"]","data":{"id":"l1"}}
{"edge":"LivesIn","from":"bob","to":"[\\"at\\",\\"1\\"]","data":{"id":"l2"}}
{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k1"}}
"""
_HOME = '{"edge":"LivesIn","from":"%s","to":"[\\"at\\",\\"1\\"]"}'


@dataclass(frozen=True)
class BadInput:
    """Files that a load must refuse, with the error and its message."""

    name: str
    files: Mapping[str, bytes]
    message: str
    """A regular expression. `F` stands for the path of the first file."""
    error: type[OmnigraphError] = ValidationFailed
    mode: str = "append"
    type: str | None = None


def _person(member: str) -> str:
    return f'{{"type":"Person","data":{{"name":"x",{member}}}}}'


_P_AGE_1 = _person('"age":1')
_P_AGE_TRUE = _person('"age":true')
_P_AGE_2 = _person('"age":2')
_P_CODE_B = _person('"code":"B"')
_P_CODE_A = _person('"code":"A"')
_X_TASK = '{"type":"Task","data":{"title":"x"}}'
_HOME_X, _HOME_Y, _HOME_Z = (_HOME % name for name in "xyz")


def _parquet_file(columns: Mapping[str, list[object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue()


def _arrow_file(columns: Mapping[str, list[object]], *, stream: bool) -> bytes:
    table, sink = pa.table(dict(columns)), io.BytesIO()
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _zstd(text: str) -> bytes:
    return bytes(pa.Codec("zstd").compress(text.encode(), asbytes=True))


def _lines(name: str, text: str, message: str, **more: object) -> BadInput:
    return BadInput(name, {"in.ndjson": text.encode()}, message, **more)  # type: ignore[arg-type]


def _bad_parquet(name: str, column: str, values: pa.Array) -> BadInput:
    """Parquet with valid values and a last one outside of the calendar."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"name": [f"p{n}" for n in range(len(values))], column: values}), sink)
    message = f"F:{len(values)}: Person 'p1': '{column}' is outside the years 1 to 9999"
    return BadInput(f"Parquet {name}", {"Person.parquet": sink.getvalue()}, message)


def _type_error(member: str, reason: str) -> BadInput:
    prop = member.split('"')[1]
    return _lines(member, _person(member), f"F:1: Person: '{prop}': .*{reason}")


BAD_VALUES = (
    _type_error('"age":"old"', "an I32; write a whole number"),
    _type_error('"age":1.5', "an I32; write a whole number"),
    _type_error('"big":1e18', "give it as an integer"),
    _type_error('"age":2147483648', "an I32; write a whole number"),
    _type_error('"age":true', "an I32; write a whole number"),
    _type_error('"big":9223372036854775808', "an I64; write a whole number"),
    _type_error('"big":"12x"', "an I64; write a whole number"),
    _type_error('"unsigned":-1', "a U64; write a whole number"),
    _type_error('"score":"1"', "an F32; write a number"),
    _type_error('"score":1e39', "finite"),
    _type_error('"rank":1e999', "finite"),
    _type_error('"ok":"true"', "a Bool; write true or false"),
    _type_error('"ok":1', "true or false"),
    _type_error('"status":1', "a String; write text"),
    _type_error('"born":"2023-02-29"', "a Date; write a date such as"),
    _type_error('"born":"14.4.2026"', "a Date; write a date such as"),
    _type_error('"joined":"2026-04-14T10:00:00"', "a DateTime; write a moment"),
    _type_error('"joined":"2026-13-14T10:00:00Z"', "a DateTime; write a moment"),
    _type_error('"tags":"x"', r"a \[String\]; write a list"),
    _type_error('"tags":["x",null]', "null"),
    _type_error('"tags":["x",1]', "a String; write text"),
    _type_error('"vec":[1]', "Vector"),
    _type_error('"vec":[1,2,3]', "Vector"),
    _type_error('"vec":[1,"2"]', "number"),
    _type_error('"vec":[1,null]', "null"),
    _type_error('"vec":{"x":1}', "list"),
    _type_error('"photo":"https://example.org/a.jpg"', "URI"),
    _type_error('"photo":"base64:@@@"', "base64"),
    _type_error('"photo":1', "a String; write text"),
    _type_error('"email":{}', "a String; write text"),
    _type_error('"email":"\\ud83d"', "surrogate"),
)

BAD_ROWS = (
    _lines(
        "null for a default",
        '{"type":"Task","data":{"title":"x","state":null}}',
        "F:1: Task 'x': 'state' is required",
    ),
    _lines(
        "two ids",
        '{"type":"Note","id":"a","data":{"id":"b","text":"x"}}',
        "F:1: Note: 'id' and 'id' in 'data' differ",
    ),
    _lines(
        "another id than the key",
        '{"type":"Task","id":"a","data":{"title":"x"}}',
        "F:1: Task 'a': 'id' must be the spelling of the key",
    ),
    _lines("enum", _person('"status":"gone"'), "F:1: Person 'x': 'status' .*active, left"),
    _lines("range low", _person('"age":-1'), "F:1: Person 'x': 'age' is -1"),
    _lines("range high", _person('"age":151'), "F:1: Person 'x': 'age' is 151"),
    _lines("check", _person('"email":"nobody"'), "F:1: Person 'x': 'email'"),
    _lines("required", '{"type":"Note","data":{}}', "F:1: Note .*'text' is required"),
    _lines("no data", '{"type":"Note"}', "F:1: Note .*'text' is required"),
    _lines("no key", '{"type":"Person","data":{"age":1}}', "F:1: Person: 'name' is required"),
    _lines("null key", '{"type":"City","data":{"zip":"1","land":null}}', "F:1: .*'land'"),
    _lines("wrong id", _person('"id":"y"'), "F:1: Person 'y': 'id' must be"),
    _lines("unknown property", _person('"agee":1'), "F:1: Person: no property 'agee'"),
    _lines("no source", '{"edge":"Wrote","to":"n"}', "F:1: Wrote.*'from' is required"),
    _lines("source is a number", '{"edge":"Wrote","from":1,"to":"n"}', "F:1: Wrote: 'from'"),
)

BAD_LINES = (
    _lines("unknown type", '{"type":"Persn"}', "F:1: no type 'Persn'"),
    _lines("unknown edge", '{"edge":"Hates","from":"a","to":"b"}', "F:1: no type 'Hates'"),
    _lines("edge as node", '{"type":"Knows"}', "F:1: 'Knows' is written as 'edge'"),
    _lines("node as edge", '{"edge":"Person"}', "F:1: 'Person' is written as 'type'"),
    _lines("both", '{"type":"Person","edge":"Knows"}', "F:1: .*either"),
    _lines("neither", '{"data":{}}', "F:1: .*either"),
    _lines("type is a number", '{"type":1}', "F:1: 'type' is a string"),
    _lines("no object", "[1,2]", "F:1: a line is an object"),
    _lines("data is a list", '{"type":"Person","data":[]}', "F:1: Person: 'data' is an object"),
    _lines("extra key", '{"type":"Person","data":{"name":"x"},"y":1}', "F:1: Person: 'y'"),
    _lines("no JSON", f"{_P_AGE_1}\nrubbish", "F:2: not JSON"),
    _lines("cut line", '{"type":"Person","data":{"na', "F:1: not JSON"),
    _lines("two on a line", '{"type":"Note","data":{"text":"a"}} {"type":"Note"}', "F:1: not JSON"),
    _lines("duplicate key", '{"type":"Note","data":{"text":"a","text":"b"}}', "F:1: .*twice"),
    _lines("NaN", _person('"rank":NaN'), "F:1: .*NaN"),
    _lines("deep", '{"type":"Person","data":' + "[" * 100_000, "F:1: not JSON"),
    _lines("line numbers", f"\n// c\n\n{_P_AGE_TRUE}\n", "F:4: Person: 'age'"),
    _lines("CRLF", f"{_P_AGE_1}\r\n\r\n{_P_AGE_TRUE}\r\n", "F:3: Person: 'age'"),
    _lines("huge line", '{"type":"Note","data":{"text":1' + " " * 3_000_000 + "}}", "F:1: Note"),
    BadInput("binary", {"in.ndjson": bytes(range(256)) * 40}, "F:1: not "),
    BadInput(
        "not UTF-8", {"in.ndjson": _person('"email":"\xff"').encode("latin-1")}, "F:1: not UTF-8"
    ),
    BadInput("UTF-16", {"in.ndjson": f"\n{_P_AGE_TRUE}".encode("utf-16")}, "F:2: Person: 'age'"),
    BadInput("UTF-16 without a mark", {"in.ndjson": _P_AGE_1.encode("utf-16-le")}, "F:1: not "),
    BadInput(
        "half of UTF-16",
        {"in.ndjson": f"\n{_P_AGE_1}".encode("utf-16")[:-1]},
        "F:2: byte .*encoding",
        InvalidArgument,
    ),
    BadInput(
        "BOM", {"in.ndjson": b"\xef\xbb\xbf" + _person('"age":true').encode()}, "F:1: Person: 'age'"
    ),
)

BAD_GRAPHS = (
    _lines(
        "duplicate key in the input",
        f"{_P_AGE_1}\n\n{_P_AGE_2}",
        "F:3: Person 'x': .*twice.*F:1",
    ),
    _lines(
        "duplicate edge id",
        '{"edge":"Knows","from":"bob","to":"ada","data":{"id":"e"}}\n' * 2,
        "F:2: Knows 'e': .*twice",
    ),
    _lines("exists", BASE, "F:1: Person 'ada': exists already", error=KeyConflict),
    _lines(
        "no such source",
        '{"edge":"Knows","from":"zoe","to":"ada"}',
        "F:1: Knows 'zoe' -> 'ada': .*Person 'zoe'",
    ),
    _lines("no such target", '{"edge":"Wrote","from":"ada","to":"n9"}', "F:1: .*Note 'n9'"),
    _lines(
        "target of another type", '{"edge":"Wrote","from":"ada","to":"bob"}', "F:1: .*Note 'bob'"
    ),
    _lines(
        "unique in the input",
        f'{_P_CODE_B}\n{_HOME_X}\n{{"type":"Person","data":{{"name":"y","code":"B"}}}}\n{_HOME_Y}',
        "F:3: Person 'y': @unique",
    ),
    _lines("unique in the graph", f"{_P_CODE_A}\n{_HOME_X}", "F:1: .*'ada' already"),
    _lines(
        "parallel edges",
        '{"edge":"Knows","from":"ada","to":"bob"}',
        "F:1: Knows 'ada' -> 'bob': @unique",
    ),
    _lines(
        "too many edges",
        '{"edge":"Knows","from":"ada","to":"ada"}\n{"type":"Person","data":{"name":"z"}}\n'
        f'{{"edge":"Knows","from":"ada","to":"z"}}\n{_HOME_Z}',
        "Person 'ada' would have 3 edges of Knows",
    ),
    _lines("too few edges", _person('"age":1'), "Person 'x' would have 0 edges of LivesIn"),
    _lines("merge: endpoint", '{"edge":"Knows","from":"zoe","to":"ada"}', "F:1:", mode="merge"),
    _lines("merge: unique", f"{_P_CODE_A}\n{_HOME_X}", "F:1:", mode="merge"),
    _lines("patch: endpoint", '{"edge":"Knows","from":"zoe","to":"ada"}', "F:1:", mode="patch"),
    _lines(
        "patch: unique",
        '{"type":"Person","data":{"name":"bob","code":"A"}}',
        "F:1: Person 'bob': @unique",
        mode="patch",
    ),
    _lines(
        "patch: required of a new entity",
        '{"type":"Note","data":{"id":"n","text":"t"}}\n{"type":"Note","data":{"id":"m"}}',
        "F:2: Note 'm': 'text' is required",
        mode="patch",
    ),
    _lines(
        "patch: null for a required property",
        '{"type":"City","data":{"zip":"1","land":"at","label":"x"}}\n'
        '{"edge":"LivesIn","from":null,"data":{"id":"l1"}}',
        "F:2: LivesIn None -> .*'from' is required",
        mode="patch",
    ),
    _lines("patch: no key", '{"type":"Person","data":{"age":1}}', "F:1: Person: ", mode="patch"),
    _lines(
        "patch: a wrong value and a wrong line",
        f"{_P_AGE_TRUE}\nrubbish",
        "F:1: Person: 'age'",
        mode="patch",
    ),
    _lines("patch: range", _person('"age":200'), "F:1: Person 'x': 'age' is 200", mode="patch"),
    _lines(
        "patch: the whole row is too few edges",
        _person('"age":20'),
        "Person 'x' would have 0 edges of LivesIn",
        mode="patch",
    ),
    _lines(
        "overwrite: duplicate",
        '{"type":"Note","data":{"id":"n","text":"a"}}\n' * 2,
        "F:2: Note 'n'",
        mode="overwrite",
    ),
    _lines(
        "overwrite: endpoint",
        '{"edge":"Wrote","from":"ada","to":"n1"}',
        "F:1: .*Note 'n1'",
        mode="overwrite",
    ),
)

BAD_FILES = (
    BadInput(
        "cut gzip",
        {"in.ndjson.gz": gzip.compress(BASE.encode())[:-9]},
        "F: .*gzip",
        InvalidArgument,
    ),
    BadInput("no gzip", {"in.ndjson.gz": b"rubbish"}, "F: .*gzip", InvalidArgument),
    BadInput("no Parquet", {"Person.parquet": b"rubbish" * 9}, "F: .*Parquet", InvalidArgument),
    _bad_parquet("days", "born", pa.array([0, 2_932_897], pa.int32()).view(pa.date32())),
    _bad_parquet("moments", "joined", pa.array([0, 2**62], pa.timestamp("us"))),
    BadInput("unknown kind", {"in.xlsx": b"x"}, "F: unknown kind", InvalidArgument),
    BadInput("unknown stem", {"Nobody.csv": b"name\nx\n"}, "F: no type 'Nobody'", InvalidArgument),
    BadInput("empty CSV", {"Person.csv": b""}, "F:1: .*empty", InvalidArgument),
    BadInput("header", {"Person.csv": b"nme\nx\n"}, "F:1: .*'nme'", InvalidArgument),
    BadInput("header twice", {"Person.csv": b"name,name\nx,y\n"}, "F:1: .*twice", InvalidArgument),
    BadInput("short row", {"Person.csv": b"name,age\nx,1\ny\n"}, "F:3: .*1 cell for 2 columns"),
    BadInput("CSV value", {"Person.csv": b"name,age\nx,1\n\ny,old\n"}, "F:4: Person: 'age'"),
    BadInput("CSV check", {"Person.csv": b"name,email\nx,nobody\n"}, "F:2: Person 'x': 'email'"),
    BadInput("open quote", {"Person.csv": b'name\n"x\n'}, "F:2?: .*CSV", InvalidArgument),
    BadInput(
        "CSV bytes",
        {"Person.csv": b"name\n" + b"p\n" * 900_000 + b"\xff\n"},
        "F:900002: byte 0xFF is not UTF-8.*--encoding cp1252",
        InvalidArgument,
    ),
    BadInput("no zstd", {"in.ndjson.zst": b"rubbish"}, "F: .*zstd", InvalidArgument),
    BadInput("cut zstd", {"Person.csv.zst": _zstd(BASE)[:-3]}, "F: .*zstd", InvalidArgument),
    BadInput("no Arrow", {"Person.arrow": b"rubbish" * 9}, "F: .*Arrow", InvalidArgument),
    BadInput("packed Parquet", {"Person.parquet.gz": b"x"}, "F: unknown kind", InvalidArgument),
    BadInput(
        "header in another case",
        {"Task.csv": b"Title,POINTS\nx,1\n"},
        "F:1: Task has no property 'Title'; did you mean 'title'.*--map \"Title=title\"",
        InvalidArgument,
    ),
    BadInput(
        "header with spaces",
        {"Task.parquet": _parquet_file({"ti tle": ["x"]})},
        "F: Task has no property 'ti tle'; did you mean 'title'.*--map",
        InvalidArgument,
    ),
    BadInput(
        "two delimiters",
        {"Person.csv": b"name;age,born\nx;1,\n"},
        "F:1: .*'name;age'.*--delimiter ';'",
        InvalidArgument,
    ),
    BadInput(
        "decimal comma",
        {"Person.csv": b"name;rank\nx;1.5\ny;1,5\n"},
        "F:3: Person: 'rank': \"1,5\" has a comma",
    ),
    BadInput(
        "thousands", {"Person.csv": b'name,age\nx,"1,000"\n'}, "F:2: .*'age': \"1,000\" has a comma"
    ),
    BadInput("CSV fraction", {"Person.csv": b"name,age\nx,1.5\n"}, "F:2: .*1.5 is not an I32"),
    BadInput(
        "CSV bool",
        {"Person.csv": b"name,ok\nx,YES\ny,maybe\n"},
        'F:3: .*"maybe" is not a Bool; write .*yes',
    ),
    BadInput(
        "CSV epoch",
        {"Person.csv": b"name,born\nx,1\ny,20260414\n"},
        "F:3: .*20260414 is not a Date",
    ),
    BadInput(
        "array value", {"in.json": f"[{_X_TASK},\n{_P_AGE_TRUE}]".encode()}, "F:2: Person: 'age'"
    ),
    BadInput("cut array", {"in.json": f"[{_X_TASK},".encode()}, "F:2: not JSON.*line 1"),
    BadInput(
        "flat value",
        {"in.ndjson": b'{"title":"x"}\n{"title":5}'},
        "F:2: Task: 'title'",
        type="Task",
    ),
    BadInput(
        "flat key",
        {"in.ndjson": b'{"Title":"x"}'},
        "F:1: Task: .*'Title'; did you mean 'title'.*--map",
        type="Task",
    ),
    BadInput("CSV list", {"Person.csv": b"name,tags\nx,a;b\n"}, "F:2: .*'tags': \"a;b\".*JSON"),
)

BAD_INPUTS = (*BAD_VALUES, *BAD_ROWS, *BAD_LINES, *BAD_GRAPHS, *BAD_FILES)


def base_graph(folder: Path, settings: Settings | None = None) -> Graph:
    graph = init(folder / "graph.omni", SCHEMA, settings=settings or Settings())
    start = folder / "base.ndjson"
    start.write_text(BASE)
    graph.load(start, engine="local")
    return graph


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def check_bad(graph: Graph, folder: Path, case: BadInput, engine: str) -> OmnigraphError:
    """The load raises the right error at the right place, and does not change the graph."""
    before = (exported(graph), [c.graph_commit_id for c in graph.commits.list()])
    paths = write_files(folder / "in", case.files)
    found = _refusal(graph, paths, case, engine)
    assert isinstance(found, case.error), f"{case.name}: {found!r}"
    wanted = case.message.replace("F:", f"{re.escape(str(paths[0]))}:")
    said = told(found)
    assert re.search(wanted, said, re.DOTALL), said
    after = (exported(graph), [c.graph_commit_id for c in graph.commits.list()])
    assert after == before
    return found


def told(error: OmnigraphError) -> str:
    """The message, and a line for each violation, because the message has only the first one."""
    return "\n".join([error.message, *map(_line_of, getattr(error, "violations", ()))])


def _line_of(violation: Mapping[str, Any]) -> str:
    name = f" {violation['entity_id']!r}" if violation["entity_id"] else ""
    if "from" in violation:
        name = f" {violation['from']!r} -> {violation['to']!r}"
    at = f"{violation.get('file')}:{violation.get('line')}"
    entity = f"{violation['type']}{name}: " if violation["type"] else ""
    return f"{at}: {entity}{violation['message']}"


def _refusal(graph: Graph, paths: list[Path], case: BadInput, engine: str) -> OmnigraphError | None:
    try:
        graph.load(paths, case.mode, engine=engine, type=case.type)
    except OmnigraphError as error:
        return error
    return None


@dataclass(frozen=True)
class GoodInput:
    """Files that load, with the lines that the export gains and loses."""

    name: str
    files: Mapping[str, bytes]
    mode: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    type: str | None = None
    map: Mapping[str, str] | None = None


_X = '{"type":"Person","data":{"name":"x","age":7.0,"big":"77","born":18262,"vec":[1,2]}}'
_X_OUT = (
    '{"type":"Person","data":{"name":"x","age":7,"big":77,"born":"2020-01-01","vec":[1.0,2.0]}}'
)
_LIVES = '{"edge":"LivesIn","from":"x","to":"[\\"at\\",\\"1\\"]","data":{"id":"l3"}}'
_TASKS = r"""
{"type":"Task","data":{"title":"a"}}
{"type":"Task","data":{"title":"b","points":null,"due":null}}
{"type":"Task","data":{"title":"c","p\u006fints":null,"state":"done"}}
{"type":"Task","data":{"title":"d \"points\"","points":5}}
{"type":"Task","data":{"title":"e \"points\""}}
{ "data":{"title":"f","points":null},"type":"Task"}
{ "data":{"title":"g"},"type":"Task"}
"""
_TASKS_OUT = tuple(
    f'{{"type":"Task","data":{{"title":"{title}","state":"{state}","points":{points},"due":{due}}}}}'
    for title, state, points, due in (
        ("a", "open", "3", '"2030-01-01"'),
        ("b", "open", "null", "null"),
        ("c", "done", "null", '"2030-01-01"'),
        (r"d \"points\"", "open", "5", '"2030-01-01"'),
        (r"e \"points\"", "open", "3", '"2030-01-01"'),
        ("f", "open", "null", '"2030-01-01"'),
        ("g", "open", "3", '"2030-01-01"'),
    )
)
_ADA = '{"type":"Person","data":{"name":"ada","age":36,"code":"A"}}'
_KNOWS_SINCE = '{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k1","since":"2020-01-01"}}'
_ADA_2 = '{"type":"Person","data":{"name":"ada","age":37}}'

GOOD_INPUTS: tuple[GoodInput, ...] = (
    GoodInput("defaults", {"in.ndjson": _TASKS.encode()}, "append", _TASKS_OUT),
    GoodInput(
        "defaults of tables",
        {
            "Task.csv": b"title,points\na,3\n",
            "Task.1.csv": b"title,points,due\nb,,\n",
            "Task.2.parquet": _parquet_file({"title": ["g"]}),
        },
        "append",
        (_TASKS_OUT[0], _TASKS_OUT[1], _TASKS_OUT[6]),
    ),
    GoodInput("append", {"in.ndjson": f"{_LIVES}\n{_X}\n".encode()}, "append", (_X_OUT, _LIVES)),
    GoodInput(
        "gzip, BOM, comments, CRLF",
        {
            "in.ndjson.gz": gzip.compress(f"\ufeff// c\r\n\r\n{_X}\r\n{_LIVES}".encode()),
            "empty.ndjson": b"",
        },
        "append",
        (_X_OUT, _LIVES),
    ),
    GoodInput(
        "merge",
        {"a.ndjson": f"{_X}\n{_ADA}\n{_LIVES}".encode(), "b.ndjson": f"{_ADA_2}\n".encode()},
        "merge",
        (_X_OUT, _LIVES, _ADA_2),
        (_ADA,),
    ),
    GoodInput("merge of the same", {"in.ndjson": BASE.encode()}, "merge"),
    GoodInput(
        "ids beside the data",
        {
            "in.ndjson": (
                b'{"type":"Person","id":"ada","data":{"name":"ada","age":37}}\n'
                b'{"edge":"Knows","id":"k9","from":"bob","to":"ada","data":{}}\n'
                b'{"edge":"Knows","from":"bob","id":"k8","to":"bob"}\n'
            )
        },
        "merge",
        (
            _ADA_2,
            '{"edge":"Knows","from":"bob","to":"ada","data":{"id":"k9"}}',
            '{"edge":"Knows","from":"bob","to":"bob","data":{"id":"k8"}}',
        ),
        (_ADA,),
    ),
    GoodInput(
        "merge of the same edges without their ids",
        {"in.ndjson": re.sub(r'"id":"\w+"', "", BASE).encode()},
        "merge",
    ),
    GoodInput(
        "merge matches edges by a unique tuple",
        {"Knows.csv": b"from,to,since\nada,bob,2020-01-01\n"},
        "merge",
        (_KNOWS_SINCE,),
        (BASE.splitlines()[5],),
    ),
    GoodInput(
        "patch: only what is there",
        {
            "in.ndjson": b'{"type":"Person","data":{"name":"ada","rank":1.5}}\n'
            b'{"type":"Person","data":{"name":"bob","age":5,"vec":[1,2],"born":"2020-01-01"}}\n'
            b'{"edge":"Knows","data":{"id":"k1","since":"2020-01-01"}}\n',
            "more.ndjson": b'{"type":"Person","data":{"name":"bob","age":null,"code":"B"}}\n',
        },
        "patch",
        (
            '{"type":"Person","data":{"name":"ada","age":36,"rank":1.5,"code":"A"}}',
            '{"type":"Person","data":{"name":"bob","born":"2020-01-01","vec":[1.0,2.0],'
            '"code":"B"}}',
            _KNOWS_SINCE,
        ),
        (_ADA, BASE.splitlines()[1], BASE.splitlines()[5]),
    ),
    GoodInput(
        "patch: tables",
        {
            "Person.csv": b"name,rank,code\nada,2,\n",
            "Person.1.parquet": _parquet_file({"name": ["ada", "bob"], "email": ["a@b", None]}),
            "Person.2.arrow": _arrow_file({"id": ["bob"], "ok": [True]}, stream=False),
            "Knows.csv": b"src,dst,since\nada,bob,2020-01-01\n",
            "LivesIn.csv": b'from,to\nada,"[""at"",""1""]"\n',
        },
        "patch",
        (
            '{"type":"Person","data":{"name":"ada","age":36,"rank":2.0,"email":"a@b"}}',
            '{"type":"Person","data":{"name":"bob","ok":true}}',
            _KNOWS_SINCE,
        ),
        (_ADA, BASE.splitlines()[1], BASE.splitlines()[5]),
    ),
    GoodInput(
        "patch: new entities get their defaults",
        {"in.ndjson": b'{"title":"a"}\n{"points":null,"title":"b","due":null}\n'},
        "patch",
        (_TASKS_OUT[0], _TASKS_OUT[1]),
        type="Task",
    ),
    GoodInput("patch of the same", {"in.ndjson": BASE.encode()}, "patch"),
    GoodInput(
        "patch of the same edges without ids and properties",
        {"in.ndjson": re.sub(r'"id":"\w+"', "", BASE).encode()},
        "patch",
    ),
    GoodInput(
        "overwrite cascades",
        {"in.ndjson": b'{"type":"Person","data":{"name":"bob"}}'},
        "overwrite",
        (),
        (_ADA, BASE.splitlines()[3], BASE.splitlines()[5]),
    ),
    GoodInput(
        "CSV",
        {
            "Person.csv": b'name,age,big,born,vec\nx,7,77,2020-01-01,"[1,2]"\n',
            "LivesIn.csv": b'id,from,to\nl3,x,"[""at"",""1""]"\n',
        },
        "append",
        (_X_OUT, _LIVES),
    ),
)


def _table(title: str, delimiter: str) -> str:
    return delimiter.join(("title", "state")) + "\n" + delimiter.join((title, "open")) + "\n"


def _line(title: str) -> str:
    return f'{{"type":"Task","data":{{"title":"{title}"}}}}\n'


_FILES = {
    "Task.tsv": _table("k1", "\t").encode(),
    "Task.semicolon.csv": _table("k2", ";").encode(),
    "Task.tab.csv": _table("k3", "\t").encode(),
    "Task.pipe.CSV": _table("k4", "|").encode(),
    "Task.csv.zst": _zstd(_table("k5", ",")),
    "Task.TSV.GZ": gzip.compress(_table("k6", "\t").encode()),
    "Task.utf16.csv": _table("k7", ",").encode("utf-16"),
    "Task.bom.csv": _table("k8", ";").encode("utf-8-sig"),
    "lines.ndjson.zst": _zstd(_line("k9")),
    "utf16.ndjson": _line("k10").encode("utf-16"),
    "utf32.ndjson.gz": gzip.compress(_line("k11").encode("utf-32")),
    "Task.arrow": _arrow_file({"title": ["k12"], "points": [3.0]}, stream=False),
    "Task.stream.arrow": _arrow_file({"title": ["k13"], "points": [3]}, stream=True),
    "Task.feather": _arrow_file({"title": ["k14"]}, stream=False),
}
_NOTES = 'id,text\nn1,""\nn2,"a ""b"", """\n"n3","x,"""",y\nz"\nn4,""\n'
GOOD_INPUTS += (
    GoodInput(
        "every kind of file",
        _FILES,
        "append",
        tuple(_TASKS_OUT[0].replace('"a"', f'"k{n + 1}"') for n in range(len(_FILES))),
    ),
    GoodInput(
        "flat JSON of one type",
        {
            "in.ndjson": b'{"Title": "k1"}\n\n{"points": 3, "title": "k2"}\n'
            + _line("k3").encode(),
            "in.json": b'[{"Title": "k4",\n"points": 3}\n, {"title": "k5", "points": 3.0}]',
            "in.json.gz": gzip.compress('[{"title": "k6"}]'.encode("utf-16")),
            "lines.json": b'{"title": "k7"}\n{"title": "k8"}',
            "empty.json": b" [ ] ",
            "table.csv": b"Title\nk9\n",
        },
        "append",
        tuple(_TASKS_OUT[0].replace('"a"', f'"k{n + 1}"') for n in range(9)),
        type="Task",
        map={"Title": "title"},
    ),
    GoodInput(
        "JSON arrays of entities and edges",
        {"in.json": f"[{_X},\n{_LIVES}]".encode()},
        "append",
        (_X_OUT, _LIVES),
    ),
    GoodInput(
        "CSV: quoted empty cells",
        {"Note.csv": _NOTES.encode(), "Task.csv": b'title,points,due\na,"",""\nb,3,2030-01-01\n'},
        "append",
        (
            '{"type":"Note","data":{"id":"n1","text":""}}',
            r'{"type":"Note","data":{"id":"n2","text":"a \"b\", \""}}',
            r'{"type":"Note","data":{"id":"n3","text":"x,\"\",y\nz"}}',
            '{"type":"Note","data":{"id":"n4","text":""}}',
            '{"type":"Task","data":{"title":"a","state":"open","points":null,"due":null}}',
            '{"type":"Task","data":{"title":"b","state":"open","points":3,"due":"2030-01-01"}}',
        ),
    ),
    GoodInput(
        "CSV: values as people write them",
        {
            "Person.csv": b"name,age,ok,born,joined,rank\n"
            b"p1,1.0,True,18262,1577872800123,1\n"
            b"p2,,yes,,0,.5\np3,+3,NO,-1,-1,1e3\np4,007,0,2020-01-01,2020-01-01T10:00:00Z,5.\n"
            b"p5, 5 , FALSE ,,,\n",
            "LivesIn.csv": b"id,from,to\n"
            + b"".join(b'h%d,p%d,"[""at"",""1""]"\n' % (n, n) for n in range(1, 6)),
        },
        "append",
        (
            '{"type":"Person","data":{"name":"p1","age":1,"rank":1.0,"ok":true,"born":"2020-01-01",'
            '"joined":"2020-01-01T10:00:00.123Z"}}',
            '{"type":"Person","data":{"name":"p2","rank":0.5,"ok":true,'
            '"joined":"1970-01-01T00:00:00Z"}}',
            '{"type":"Person","data":{"name":"p3","age":3,"rank":1000.0,"ok":false,'
            '"born":"1969-12-31","joined":"1969-12-31T23:59:59.999Z"}}',
            '{"type":"Person","data":{"name":"p4","age":7,"rank":5.0,"ok":false,'
            '"born":"2020-01-01","joined":"2020-01-01T10:00:00Z"}}',
            '{"type":"Person","data":{"name":"p5","age":5,"ok":false}}',
            *(
                f'{{"edge":"LivesIn","from":"p{n}","to":"[\\"at\\",\\"1\\"]",'
                f'"data":{{"id":"h{n}"}}}}'
                for n in range(1, 6)
            ),
        ),
    ),
)


def check_good(graph: Graph, folder: Path, case: GoodInput, engine: str) -> None:
    """The export changes exactly as the case says.

    A dry run tells the same counts before and leaves nothing behind. Merges and patches can be
    repeated.
    """
    before, on_disk = exported(graph).splitlines(), stored_files(graph)
    files = write_files(folder / "in", case.files)
    load = partial(graph.load, files, case.mode, engine=engine, type=case.type, map=case.map)
    planned = load(dry_run=True)
    assert (planned.dry_run, planned.commit, planned.engine) == (True, None, engine)
    assert stored_files(graph) == on_disk
    assert exported(graph).splitlines() == before
    receipt = load()
    assert (receipt.nodes, receipt.edges) == (planned.nodes, planned.edges)
    after = exported(graph).splitlines()
    assert sorted(after) == sorted([*(set(before) - set(case.removed)), *case.added])
    if case.mode in ("merge", "patch"):
        assert load().commit is None
        assert exported(graph).splitlines() == after


def stored_files(graph: Graph) -> list[str]:
    """The files of a local graph, apart from those that order the writers of this host."""
    found = (path.relative_to(graph.uri) for path in Path(graph.uri).rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != "_locks")
