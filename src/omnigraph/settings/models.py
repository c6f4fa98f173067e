"""Typed settings of the engine, frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from omnigraph.settings.embedding import EmbeddingSettings
from omnigraph.settings.machine_memory import memory_share
from omnigraph.settings.maintenance import MaintenanceSettings
from omnigraph.settings.pipeline import PipelineSettings

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
