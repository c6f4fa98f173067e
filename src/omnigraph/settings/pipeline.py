"""Where Spark runs and what it may use."""

from __future__ import annotations

from dataclasses import dataclass


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
