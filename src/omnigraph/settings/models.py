"""Typed settings of the engine, frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from omnigraph.settings.machine_memory import memory_share

ProviderName = Literal["local", "mock", "openai-compatible", "gemini"]


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """`local` needs nothing; the others say where and which model."""

    provider: ProviderName = "local"

    model: str | None = None
    """What `@embed(model=…)` must say; None takes the provider's default."""

    width: int | None = None
    """Numbers per vector; needed for models the provider does not know."""

    base_url: str | None = None
    """Of an OpenAI-compatible or Gemini endpoint; None is the vendor's own."""

    api_key_env: str | None = None
    """Name of the environment variable with the key; None is the vendor's usual one."""

    batch_size: int = 64
    """Texts per request."""

    deadline_seconds: float = 30.0
    """For one `embed` call, retries and waits included."""

    attempts: int = 5
    """Per request, for failures that may pass: network, overload, 5xx."""

    backoff_seconds: float = 0.5
    """First wait between attempts; it doubles, a `Retry-After` overrides it."""

    parallel_requests: int = 4
    """Requests in flight while a branch is embedded."""

    requests_per_minute: float | None = None
    """The most requests `embed` starts in a minute, over all threads; None: no limit."""

    journal_dir: str | None = None
    """Where vectors wait for their commit, so that a run can be resumed; None is `~/.cache`."""


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """Cleanup's caution and the reconciler's thresholds."""

    minimum_age_seconds: float = 3600.0
    """What was current, or was written, less long ago is never removed: longer than any read."""

    automatic: bool = True
    """Tables this process writes are compacted and indexed in the background."""

    look_every_commits: int = 8
    """Commits to a table between two looks at its layout."""

    fragments: int = 32
    """Fragments smaller than `compacted_rows` that a table may gather before it is compacted.

    `python -m bench maintenance`: CPU of a commit, upkeep included, is 1.5 times as much with 8,
    1.2 with 16 and the same with 32 to 128; that of a read between commits rises from 32 on.
    """

    compacted_rows: int = 65_536
    """Fragments of this size are left alone: a background pass never rewrites more than it must."""

    deleted_share: float = 0.2
    """Share of stored rows that may be deleted before they are dropped from storage."""

    unindexed_rows: int = 20_000
    """Rows an index may not know before it is extended; they are found, only slower."""

    keep_commits: int | None = None
    """Clean up in the background too, keeping this many commits readable on every branch."""

    cleanup_every_commits: int = 1000
    """Commits of this process between two background cleanups."""

    orphan_tag_days: float = 7.0
    """How long an unpublished version pushed aside by recovery stays for whoever investigates."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The Spark session of this process, and when work is worth one."""

    master: str = "local[*,4]"
    """`local[n,tries]`, `local-cluster[…]`, `spark://host:port`, or `sc://host` (Spark Connect)."""

    driver_memory: str | None = None
    """Heap of the embedded JVM, as Spark spells it (`4g`); None takes a share of the machine."""

    conf: tuple[tuple[str, str], ...] = ()
    """Further `spark.*` settings; they win over ours."""

    log_file: str | None = None
    """What the JVM prints; None is a file in the temporary directory, named when it fails."""

    spark_from_bytes: int = 2 * 1024**3
    """`engine="auto"` takes Spark for inputs of this size; from half of it when one is up.

    `python -m bench pipeline --scale full`: both are equally fast at 1.4 GiB of NDJSON on two cores
    and at 0.9 on four; below that the local engine needs less memory and no JVM.
    """

    spark_merge_from_rows: int = 20_000_000
    """A merge with `engine="auto"` takes Spark for so many changed rows, if a session is up."""

    task_bytes: int = 64 * 1024**2
    """Input of one task: how finely a load is spread over the workers."""


_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How one write behaves among others."""

    lease_seconds: float = 10.0
    """An intent without a new epoch for this long, on the observer's clock, is dead."""

    reprepare_limit: int = 5
    """How often an insert, upsert or load is prepared again after a conflict."""

    wait_limit_seconds: float = 120.0
    """How long a write waits for overlapping live writers before it gives up."""

    durability: Literal["process", "fsync"] = "process"
    """`process`: acknowledged survives process death. `fsync`: power loss too (local disks)."""


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """How much of the commit history sits in the head, and how the rest is packed."""

    window_low: int = 32
    """Commit rows left in the head after older ones moved to a `__history` segment."""

    window_high: int = 64
    """Commit rows in the head that trigger the move."""

    window_bytes: int = 256 * 1024
    """Bytes of commit rows that trigger the move earlier."""

    fan_out: int = 16
    """Segments of one level that are gathered under one index segment."""

    inline_ids: int = 1000
    """Changed ids kept in the commit row; more go to a `__history` file."""

    kept_manifest_versions: int = 64
    """Old manifest versions left for readers in flight when a publish trims."""

    idempotency_days: int = 7
    """How long a repeated idempotency key returns the first receipt."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What queries may use."""

    cache_bytes: int = field(default_factory=lambda: memory_share(6, 4 * _GIB))
    """Columns, adjacency and vectors kept in memory between queries; by default a sixth of the
    memory of the machine or container, 4 GiB at most."""

    cache_directory: str | None = None
    """Where sorted ids and adjacency are kept between processes. None: `OMNIGRAPH_CACHE_DIR`, else
    `~/.cache/omnigraph`; an empty text: nowhere."""

    cache_file_bytes: int = 16 * 1024**3
    """What the files there may take; those used longest ago go first."""

    memory_bytes: int = field(default_factory=lambda: memory_share(3, 8 * _GIB))
    """Rows one query may hold at once; sorts and groups of more use the disk, all else is an
    error. By default a third of the memory of the machine or container, 8 GiB at most."""

    spill_directory: str | None = None
    """Where rows of a query wait that do not fit; the system's own by default."""

    spill_bytes: int = 64 * 1024**3
    """What the rows of one query may take there."""

    timeout_seconds: float | None = None
    """How long a query may run unless it is given a timeout of its own."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What a local load may use."""

    memory_bytes: int = field(default_factory=lambda: memory_share(6, 2 * _GIB))
    """For the batch-wide checks; what does not fit is on disk. By default a sixth of the memory of
    the machine or container, 2 GiB at most."""

    temp_directory: str | None = None
    """Where rows wait until they are checked; the system's own by default."""

    blob_bases: tuple[str, ...] = ()
    """Directories whose files a blob property may name instead of `base64:…`; they are copied."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the engine can be told."""

    write: WriteSettings = WriteSettings()
    history: HistorySettings = HistorySettings()
    read: ReadSettings = field(default_factory=ReadSettings)
    load: LoadSettings = field(default_factory=LoadSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
