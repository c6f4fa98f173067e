"""Options that several commands take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from omnigraph.cli.output import WrongUsage

Uri = Annotated[
    str | None,
    typer.Argument(
        metavar="URI", help="The graph: a directory, s3://bucket/prefix or http://host/graphs/ID."
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        "--uri",
        metavar="URI",
        help="The graph; default: the graph of the config file.",
    ),
]
Branch = Annotated[str, typer.Option("--branch", "-b", metavar="BRANCH", help="The branch.")]


@dataclass(frozen=True)
class BranchPlace:
    """A branch of a graph; the graph may be given as an argument or with `--store`."""

    uri: Uri = None
    store: Store = None
    branch: Branch = "main"


ExternalBlobs = Annotated[
    list[str] | None,
    typer.Option(
        "--external-blobs",
        metavar="BASE",
        help="An address below which blobs may lie outside of the graph; repeatable.",
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        "--snapshot",
        metavar="COMMIT|TAG|TIME|BRANCH",
        help="Read the past instead of the head of --branch; HEAD~1 and main~3 count back.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="End with an error after this long."),
]


class AutoEngine(StrEnum):
    """Where the work runs; `auto` chooses."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class WorkEngine(StrEnum):
    """Where the work runs: in this process, or on executors of Spark."""

    LOCAL = "local"
    SPARK = "spark"


Engine = Annotated[
    WorkEngine,
    typer.Option("--engine", help="Where the work runs: in this process, or on Spark."),
]
Types = Annotated[
    list[str] | None, typer.Option("--type", "-t", metavar="T", help="Only this type; repeatable.")
]
Page = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most this many.")
]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="CURSOR", help="Go on where an earlier answer stopped."),
]
Message = Annotated[
    str | None,
    typer.Option("--message", "-m", metavar="TEXT", help="The message of the commit."),
]
IfCommit = Annotated[
    str | None,
    typer.Option(
        "--if-commit",
        metavar="ID",
        help="Refuse (exit code 4) unless this is the head of the branch.",
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key", metavar="KEY", help="A second run with the same key changes nothing."
    ),
]

Severities = Annotated[
    list[str] | None,
    typer.Option(
        "--severity",
        metavar="CODE=LEVEL",
        help="Weigh a code: error, warn or off; repeatable.",
    ),
]


def severities(given: list[str] | None) -> dict[str, str]:
    """The values of `--severity` by code."""
    found: dict[str, str] = {}
    for text in given or ():
        code, equals, level = text.partition("=")
        if not equals:
            raise WrongUsage(f"--severity {text!r} is not CODE=LEVEL, for example OG-CD-101=error")
        found[code.strip()] = level.strip()
    return found


class ResultFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"
    ARROW = "arrow"


Format = Annotated[
    ResultFormat | None, typer.Option("--format", "-f", help="How to print rows; default: table.")
]
Metadata = Annotated[
    bool,
    typer.Option("--metadata", help="With jsonl: the first line describes the result."),
]


class MergeStrategy(StrEnum):
    """What happens to conflicts."""

    FAIL = "fail"
    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True)
class Deciding:
    """How conflicts are decided: options of every command that merges."""

    strategy: Annotated[
        MergeStrategy,
        typer.Option(
            "--strategy", help="On conflicts: fail, ours (the target wins), theirs (the source)."
        ),
    ] = MergeStrategy.FAIL
    resolutions: Annotated[
        str | None,
        typer.Option(
            "--resolutions",
            metavar="FILE",
            help="A YAML or JSON file that decides single conflicts.",
        ),
    ] = None


QueriesPlace = Annotated[
    str | None,
    typer.Option(
        "--queries",
        metavar="DIR",
        help="Stored queries for a store: a directory of .gq files. A server has its own.",
    ),
]
