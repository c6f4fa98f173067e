"""What every load engine must do, as data: good inputs with their results.

`check_good` runs one case against an engine, given as the value of `engine=`.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.graph.handle import Graph
from omnigraph_testing.load_suite import BASE, exported, write_files


@dataclass(frozen=True)
class GoodInput:
    """Files that load, and the lines of the export afterwards that are not in BASE's."""

    name: str
    files: Mapping[str, bytes]
    mode: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def _parquet(columns: Mapping[str, list[object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue()


_X = '{"type":"Person","data":{"name":"x","age":7,"big":"77","born":18262,"vec":[1,2]}}'
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
_ADA_2 = '{"type":"Person","data":{"name":"ada","age":37}}'

GOOD_INPUTS = (
    GoodInput("defaults", {"in.ndjson": _TASKS.encode()}, "append", _TASKS_OUT),
    GoodInput(
        "defaults of tables",
        {
            "Task.csv": b"title,points\na,3\n",
            "Task.1.csv": b"title,points,due\nb,,\n",
            "Task.2.parquet": _parquet({"title": ["g"]}),
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


def check_good(graph: Graph, folder: Path, case: GoodInput, engine: str) -> None:
    """The export changes by exactly what the case says."""
    before = exported(graph).splitlines()
    graph.load(write_files(folder / "in", case.files), case.mode, engine=engine)
    after = exported(graph).splitlines()
    assert sorted(after) == sorted([*(set(before) - set(case.removed)), *case.added])
