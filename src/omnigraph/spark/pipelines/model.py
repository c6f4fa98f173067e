"""A pipeline as data: what its file declares, checked and with paths made absolute.

`parse.py` makes these objects from a file; a program may make them itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omnigraph.values.identifiers import MAIN


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a part of a pipeline is declared; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Incremental(StrEnum):
    """What a source gives to the next run."""

    FILES = "files"
    """Files that no run has processed; a file with another size or time counts as new."""
    COMMITS = "commits"
    """The changes of a graph after the last commit that a run processed."""
    STREAM = "stream"
    """The next batch of a Structured Streaming source."""


class OnFail(StrEnum):
    """What a run does with rows that fail an expectation."""

    WARN = "warn"
    QUARANTINE = "quarantine"
    FAIL = "fail"


class TargetMode(StrEnum):
    """How the rows of a target change the stored entities of its type."""

    APPEND = "append"
    MERGE = "merge"
    PATCH = "patch"
    OVERWRITE = "overwrite"
    MIRROR = "mirror"


class CompareBy(StrEnum):
    """How two values of a column are compared; `resolve.py` has the rules."""

    EXACT = "exact"
    EDIT = "edit"
    JARO_WINKLER = "jaro_winkler"
    TOKENS = "tokens"
    NUMBER = "number"
    VECTORS = "vectors"


class ResolveOutput(StrEnum):
    """What a `resolve` step gives."""

    ENTITIES = "entities"
    """One row for each entity, with the keys of its rows in `origins`."""
    ROWS = "rows"
    """The input with the id of its entity."""
    PAIRS = "pairs"
    """`from`, `to` and `score` of the rows that are the same, for edges."""


class PublishVia(StrEnum):
    """How the commit of a run reaches the branch."""

    COMMIT = "commit"
    MERGE = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSource:
    """Rows that come from outside: files, a Spark format, or a graph."""

    name: str
    files: tuple[str, ...] = ()
    """Paths, globs and folders, for a source of files."""
    format: str | None = None
    """A Spark format; for files `parquet`, `csv`, `json`, `ndjson` or `text`."""
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    """The columns as DDL text. Without it Spark infers them."""
    graph: str | None = None
    type: str | None = None
    branch: str = MAIN
    commit: str | None = None
    tag: str | None = None
    incremental: Incremental | None = None
    place: FilePlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A condition in Spark SQL on the rows of a step. NULL counts as not met."""

    check: str
    on_fail: OnFail = OnFail.FAIL
    tolerate: float = 0.0
    """The share of rows that may fail, for `fail`."""
    place: FilePlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """How much the likeness of one column counts in an entity resolution."""

    column: str
    """A column or an SQL expression."""
    by: CompareBy
    weight: float
    """More than 0; weights need not sum to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveOptions:
    """Entity resolution: which rows of `input` mean the same entity."""

    input: str
    block: tuple[str, ...]
    """SQL expressions; only rows with an equal value of one of them are compared."""
    compare: tuple[ComparedColumn, ...]
    threshold: float
    """From 0 to 1: pairs with at least this score are the same entity."""
    id: str
    """The column that gets the id of the entity."""
    key: str | None = None
    """The column or SQL expression that identifies a row; by default a hash of all its values."""
    output: ResolveOutput = ResolveOutput.ENTITIES
    max_block: int = 1000
    """Blocks with more rows are not compared, and a warning names them."""
    place: FilePlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStep:
    """A named DataFrame; exactly one of `sql`, `python` and `resolve` says how it is made."""

    name: str
    sql: str | None = None
    python: str | None = None
    """`module:function`; the module is searched in the folder of the file first."""
    resolve: ResolveOptions | None = None
    inputs: tuple[str, ...] = ()
    """What a `python` step gets. SQL names its inputs itself."""
    expect: tuple[Expectation, ...] = ()
    place: FilePlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTarget:
    """A node or edge type that gets the rows of a step or source."""

    type: str
    origin: str
    """The step or source (`from` in the file)."""
    mode: TargetMode = TargetMode.MERGE
    columns: Mapping[str, str] | None = None
    """Property -> column or SQL expression (`map` in the file)."""
    ends: Mapping[str, str] | None = None
    """`from` and `to` of an edge type -> column or SQL expression."""
    scope: str | None = None
    """With `mirror`: a condition of the query language; other entities are not removed."""
    place: FilePlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTerms:
    """Where and how a run is committed."""

    branch: str = MAIN
    via: PublishVia = PublishVia.COMMIT
    review: bool = False
    message: str | None = None
    actor: str | None = None
    on_error: str = "fail"
    """`fail` or `skip`: what happens to rows that break a rule of the graph."""
    max_errors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTerms:
    """The session that a run starts if the process has none."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One pipeline: sources, steps, targets, and how a run is published."""

    name: str
    graph: str
    """The address of the graph: a path, `s3://…` or `http(s)://host/graphs/id`."""
    sources: Mapping[str, PipelineSource]
    targets: tuple[PipelineTarget, ...]
    steps: Mapping[str, PipelineStep] = field(default_factory=dict)
    publish: PublishTerms = field(default_factory=PublishTerms)
    schema: str | None = None
    """The path of a schema file; a missing graph is made from it."""
    evolve: bool = False
    """Whether a run may change the schema of the graph to that of the file."""
    external_blobs: tuple[str, ...] = ()
    """Addresses below which blobs may lie outside of the graph."""
    quarantine: str | None = None
    """The folder of quarantined rows; by default under the folder of the run."""
    spark: SparkTerms = field(default_factory=SparkTerms)
    file: str | None = None
    """The file that declares the pipeline, if there is one."""
    token: str | None = field(default=None, repr=False)
    """The bearer token, if the graph is on a server."""
    folder: str = "."
    """Python steps are imported from here, and reports are written below it."""

    @property
    def runs_folder(self) -> str:
        """Reports and quarantined rows of all runs are below this folder."""
        return f"{self.folder}/.omnigraph/pipelines/{self.name}"

    def describe(self) -> dict[str, Any]:
        """The flow of the pipeline: every name with what it reads, for reports."""
        return {
            "sources": list(self.sources),
            "steps": list(self.steps),
            "targets": [{"type": each.type, "from": each.origin} for each in self.targets],
        }
