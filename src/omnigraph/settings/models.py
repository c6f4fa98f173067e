"""Every setting of the engine with its type, default and meaning. All classes are frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from omnigraph.errors import InvalidArgument
from omnigraph.values.external_blobs import ExternalBases
from omnigraph.values.machine_memory import memory_share

ProviderName = Literal["local", "mock", "openai-compatible", "gemini"]
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How a write behaves while other writers are active."""

    lease_seconds: float = 10.0
    """A writer counts as dead when its intent gets no new epoch for this long. The process that
    waits for it measures the time on its own clock."""

    reprepare_limit: int = 5
    """How often an insert, upsert or load is prepared again after a conflict."""

    wait_limit_seconds: float = 120.0
    """How long a write waits for overlapping live writers before it gives up."""

    durability: Literal["process", "fsync"] = "process"
    """`process`: an acknowledged write survives the death of the process. `fsync`: it survives a
    power loss too (local disks)."""


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """How much of the commit history is in the head, and how the rest is packed."""

    window_low: int = 32
    """Commit rows that stay in the head when older ones move to a `__history` segment."""

    window_high: int = 64
    """Commit rows in the head that trigger the move."""

    window_bytes: int = 256 * 1024
    """Bytes of commit rows that trigger the move earlier."""

    fan_out: int = 16
    """Segments of one level that are gathered under one index segment."""

    inline_ids: int = 1000
    """Changed ids kept in the commit row; more go to a `__history` file."""

    kept_manifest_versions: int = 64
    """Old manifest versions that a publish leaves, because active readers may still use them."""

    idempotency_days: int = 7
    """How long a repeated idempotency key returns the first receipt."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Memory, disk and time that queries may use."""

    cache_bytes: int = field(default_factory=lambda: memory_share(6, 4 * _GIB))
    """Columns, adjacency and vectors kept in memory between queries; by default a sixth of the
    memory of the machine or container, 4 GiB at most."""

    cache_directory: str | None = None
    """Directory for sorted ids and adjacency, which later processes use again. None takes
    `OMNIGRAPH_CACHE_DIR`, else `~/.cache/omnigraph`; an empty text turns the files off."""

    cache_file_bytes: int = 16 * 1024**3
    """Bytes that the files in `cache_directory` may take; the least recently used are removed."""

    memory_bytes: int = field(default_factory=lambda: memory_share(3, 8 * _GIB))
    """Bytes of rows that one query may hold at once. Sorting and grouping use the disk beyond it,
    every other operator fails with an error. By default a third of the memory of the machine or
    container, 8 GiB at most."""

    spill_directory: str | None = None
    """Directory for rows of a query that do not fit into memory; None is the system's temporary
    directory."""

    spill_bytes: int = 64 * 1024**3
    """Bytes that one query may write to `spill_directory`."""

    timeout_seconds: float | None = None
    """How long a query may run when its call names no timeout."""

    max_rows: int | None = None
    """The most rows that the answer of a query may have; None is no limit."""

    answer_bytes: int = 0
    """Memory for small answers, which an equal query on an unmoved head gets again; 0 keeps none.
    A server keeps some."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Memory and directories that a local load may use."""

    memory_bytes: int = field(default_factory=lambda: memory_share(6, 2 * _GIB))
    """Memory for the checks over the whole input; the rest goes to disk. By default a sixth of the
    memory of the machine or container, 2 GiB at most."""

    temp_directory: str | None = None
    """Directory for rows that are not checked yet; None is the system's temporary directory."""

    blob_bases: tuple[str, ...] = ()
    """Directories whose files a blob value may name instead of `base64:…`; a load copies them."""


@dataclass(frozen=True, slots=True)
class ExternalBlobSettings:
    """The addresses below which a blob may lie outside of the graph; none unless they are named.

    A base is `file:///folder`, `s3://bucket/prefix`, `https://host/prefix` or `http://…`.
    """

    embedded_only: tuple[str, ...] = ()
    """Bases that hold for graphs which this process opens, and not for the clients of a server."""

    server_safe: tuple[str, ...] = ()
    """Bases that hold for the clients of a server, too. A server redirects readers there. A folder
    of one machine is never server-safe."""

    def for_server(self) -> ExternalBlobSettings:
        """What holds for the clients of a server."""
        return ExternalBlobSettings(server_safe=self.server_safe)


def external_bases(allowed: ExternalBlobSettings) -> ExternalBases:
    """All bases; refuses those that are wrong."""
    if any(base.startswith("file:") for base in allowed.server_safe):
        raise InvalidArgument(
            "external blobs: a folder of one machine is never server-safe; name it under "
            "embedded_only",
            setting="external_blobs",
        )
    return ExternalBases.of((*allowed.embedded_only, *allowed.server_safe))


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """The embedding provider of a graph. API keys are named by their variable, never held.

    The provider `local` needs no further setting; the others need an endpoint and a model.
    """

    provider: ProviderName = "local"

    model: str | None = None
    """The model that `@embed(model=…)` must name; None takes the provider's default."""

    width: int | None = None
    """Numbers per vector; needed for a model that the provider does not know."""

    base_url: str | None = None
    """URL of an OpenAI-compatible or Gemini endpoint; None is the vendor's URL."""

    api_key_env: str | None = None
    """Name of the environment variable that holds the key; None is the vendor's usual name."""

    batch_size: int = 64
    """Texts per request."""

    deadline_seconds: float = 30.0
    """Time limit of one `embed` call, retries and waits included."""

    attempts: int = 5
    """Attempts per request after failures that may pass: network, overload, 5xx."""

    backoff_seconds: float = 0.5
    """Wait after the first failed attempt. It doubles each time; a `Retry-After` overrides it."""

    parallel_requests: int = 4
    """Requests in flight while a branch is embedded."""

    requests_per_minute: float | None = None
    """The most requests that `embed` starts in a minute, over all threads; None is no limit."""

    journal_dir: str | None = None
    """Directory that holds vectors until they are committed, so that a run can be resumed; None is
    `~/.cache`."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The Spark session of this process, and the sizes from which Spark is chosen."""

    master: str = "local[*,4]"
    """`local[n,tries]`, `local-cluster[…]`, `spark://host:port`, or `sc://host` (Spark Connect)."""

    driver_memory: str | None = None
    """Heap of the embedded JVM in Spark's notation (`4g`); None takes a share of the memory."""

    conf: tuple[tuple[str, str], ...] = ()
    """Further `spark.*` settings; they override those of OmniGraph."""

    log_file: str | None = None
    """File for the output of the JVM; None is a file in the temporary directory, which the error
    names when the JVM fails."""

    archive_directory: str | None = None
    """Directory for a file of loaded Java classes (150 MB), with which a JVM starts in half the CPU
    time. The second session writes it. None takes `OMNIGRAPH_CACHE_DIR`, else `~/.cache/omnigraph`;
    an empty text turns it off."""

    spark_from_bytes: int = 2 * 1024**3
    """`engine="auto"` chooses Spark from this input size on; from half of it when a session runs.

    Measured with `python -m bench pipeline --scale full`: both engines are equally fast at 1.4 GiB
    of NDJSON on two cores and at 0.9 GiB on four; below that the local engine needs less memory and
    no JVM.
    """

    spark_merge_from_rows: int = 20_000_000
    """A merge with `engine="auto"` chooses Spark from this many changed rows on, if a session
    runs."""

    task_bytes: int = 64 * 1024**2
    """Input bytes of one task of a load."""


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """What cleanup never removes, and when the background upkeep starts."""

    minimum_age_seconds: float = 3600.0
    """Cleanup never removes a file or version that was written, or was current, within this time.
    The time must be longer than any read."""

    automatic: bool = True
    """Tables that this process writes are compacted and indexed in the background."""

    look_every_commits: int = 8
    """Commits to a table between two checks of its layout."""

    fragments: int = 32
    """Fragments smaller than `compacted_rows` that a table may gather before it is compacted.

    Measured with `python -m bench maintenance`: the CPU time of a commit, upkeep included, is 1.5
    times as much with 8 and 1.2 times with 16 as with 32 to 128. The CPU time of a read between
    commits rises from 32 on.
    """

    compacted_rows: int = 65_536
    """Fragments of this size are not compacted again, so that a background pass stays small."""

    deleted_share: float = 0.2
    """Share of a table's rows that may be deleted before compaction removes them from storage."""

    unindexed_rows: int = 20_000
    """Rows outside an index before it is extended. Queries find them too, but more slowly."""

    keep_commits: int | None = None
    """Cleans up in the background too and keeps this many commits readable on every branch."""

    keep_seconds: float | None = None
    """Like `keep_commits`: keeps commits that were the head of a branch less long ago. With both,
    a commit stays when either keeps it."""

    cleanup_every_commits: int = 1000
    """Commits of this process between two background cleanups."""

    orphan_tag_days: float = 7.0
    """How long a tag keeps an unpublished version that recovery has set aside, for inspection."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client waits for a server, and how often it repeats a request."""

    connect_seconds: float = 10.0
    """How long a connection may take."""

    answer_seconds: float = 60.0
    """How long the server may be silent before the client gives up. A query with a timeout of its
    own is waited for that long."""

    work_seconds: float = 3600.0
    """The same for loads, merges, schema changes, exports and upkeep."""

    attempts: int = 4
    """How often a request is sent at most. Only reads and writes with an idempotency key are sent
    again."""

    connections: int = 100
    """Connections that are open at the same time."""

    compressed: bool = False
    """Ask for compressed answers: for slow networks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the engine."""

    write: WriteSettings = WriteSettings()
    history: HistorySettings = HistorySettings()
    read: ReadSettings = field(default_factory=ReadSettings)
    load: LoadSettings = field(default_factory=LoadSettings)
    external_blobs: ExternalBlobSettings = ExternalBlobSettings()
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    client: ClientSettings = field(default_factory=ClientSettings)

    def allowing(self, external_blobs: Sequence[str]) -> Settings:
        """These settings with more bases of external blobs, which hold for this process only."""
        if not external_blobs:
            return self
        more = [external_blobs] if isinstance(external_blobs, str) else external_blobs
        allowed = self.external_blobs
        known = {*allowed.embedded_only, *allowed.server_safe}
        new = tuple(base for base in dict.fromkeys(more) if base not in known)
        embedded = (*allowed.embedded_only, *new)
        return replace(self, external_blobs=replace(allowed, embedded_only=embedded))
