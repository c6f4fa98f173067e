"""Options that several commands take, spelled once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

Uri = Annotated[
    str | None,
    typer.Argument(metavar="URI", help="The graph: a directory or s3://bucket/prefix."),
]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The graph; default: the one of the config file."),
]
Branch = Annotated[str, typer.Option("--branch", "-b", help="The branch.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="COMMIT|TAG|TIME", help="Read the past instead of the head."),
]
Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Which query, if the text holds several.")
]
Expression = Annotated[
    str | None, typer.Option("-e", "--execute", metavar="GQ", help="The query text itself.")
]
QueryFile = Annotated[
    str | None, typer.Option("--query", "-q", metavar="FILE", help="A .gq file, `-` for stdin.")
]
Params = Annotated[
    str | None,
    typer.Option("--params", metavar="JSON", help="Parameters as a JSON object, or @FILE."),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="NAME=VALUE", help="One parameter; repeat for more."),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="Give up after this long."),
]
Engine = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="local, or spark for very large graphs.")
]
Types = Annotated[
    list[str] | None, typer.Option("--type", "-t", metavar="T", help="Only this type; repeatable.")
]
Page = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most this many.")
]
Cursor = Annotated[
    str | None, typer.Option("--cursor", help="Go on where an earlier answer stopped.")
]
Message = Annotated[str | None, typer.Option("--message", "-m", help="Says why, in the history.")]
IfCommit = Annotated[
    str | None,
    typer.Option(
        "--if-commit", metavar="ID", help="Only if the branch is still at this commit (exit 4)."
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option("--idempotency-key", metavar="KEY", help="A repeated key changes nothing twice."),
]


class ResultFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"
    ARROW = "arrow"


Format = Annotated[ResultFormat | None, typer.Option("--format", "-f", help="How to print rows.")]
