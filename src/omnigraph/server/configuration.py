"""The settings of a server: flags of `omnigraph serve`, and variables of the environment."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from omnigraph.errors import InvalidArgument

logger = logging.getLogger(__name__)

_MIB = 1024 * 1024
_FALSE = frozenset({"", "0", "false"})


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much one request, one actor and all requests of a process may use."""

    actor_inflight: int = 16
    """Writes of one actor at once, over all workers (`OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX`)."""

    actor_bytes: int = 4 * 1024 * _MIB
    """Estimated bytes of the writes of one actor at once (`OMNIGRAPH_PER_ACTOR_BYTES_MAX`)."""

    reads: int = 64
    """Reads of one process at once (`OMNIGRAPH_READ_INFLIGHT_MAX`)."""

    streams: int = 8
    """Exports and baselines of one process at once (`OMNIGRAPH_STREAM_INFLIGHT_MAX`)."""

    writes: int = 64
    """Writes of one process that run at once; others wait (`OMNIGRAPH_WRITE_INFLIGHT_MAX`)."""

    write_queue_ms: int = 10_000
    """How long a write waits before it is refused (`OMNIGRAPH_WRITE_QUEUE_TIMEOUT_MS`)."""

    query_timeout_ms: int = 30_000
    """How long a read may run; 0 is no limit (`OMNIGRAPH_QUERY_TIMEOUT_MS`)."""

    query_rows: int = 0
    """Rows of one answer; 0 is no limit (`OMNIGRAPH_QUERY_MAX_ROWS`)."""

    query_memory_bytes: int = 0
    """Memory of one query; 0 is the setting of the engine (`OMNIGRAPH_QUERY_MEMORY_BYTES`)."""

    answer_bytes: int = 32 * _MIB
    """Memory of one process and graph for small answers, which an equal query gets again until the
    next commit; 0 keeps none (`OMNIGRAPH_ANSWER_CACHE_BYTES`)."""

    body_bytes: int = _MIB
    """Size of a request body, decoded, where no other limit is named."""

    load_bytes: int = 32 * _MIB
    """Size of a body with data; 0 is no limit (`--max-load-bytes`)."""


_LIMIT_VARIABLES = {
    "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "actor_inflight",
    "OMNIGRAPH_PER_ACTOR_BYTES_MAX": "actor_bytes",
    "OMNIGRAPH_READ_INFLIGHT_MAX": "reads",
    "OMNIGRAPH_STREAM_INFLIGHT_MAX": "streams",
    "OMNIGRAPH_WRITE_INFLIGHT_MAX": "writes",
    "OMNIGRAPH_WRITE_QUEUE_TIMEOUT_MS": "write_queue_ms",
    "OMNIGRAPH_QUERY_TIMEOUT_MS": "query_timeout_ms",
    "OMNIGRAPH_QUERY_MAX_ROWS": "query_rows",
    "OMNIGRAPH_QUERY_MEMORY_BYTES": "query_memory_bytes",
    "OMNIGRAPH_ANSWER_CACHE_BYTES": "answer_bytes",
}
_AT_LEAST_ONE = frozenset({"actor_inflight", "actor_bytes", "reads", "streams", "writes"})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything that `omnigraph serve` is told."""

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    unauthenticated: bool = False
    read_only: bool = False
    require_all_graphs: bool = False
    shutdown_grace_seconds: float = 25.0
    """How long requests in flight may take after SIGTERM; 0 ends at once."""

    lame_duck_seconds: float = 1.0
    """How long the server still accepts connections after SIGTERM, with `/readyz` at 503."""

    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """Names under which agents call this server (`--allowed-host`), for the check of `Host`."""

    metrics_auth: bool = False
    console: bool = False
    """Whether the pages of the console are at `/console`."""

    load_sources: tuple[str, ...] = ()
    """Prefixes of storage that `POST /load` with `sources` may read."""

    cluster: str | None = None
    """The directory or root of the cluster whose applied revision is served (`--cluster`)."""

    queries: tuple[tuple[str, str], ...] = ()
    """The directory of stored queries of each graph id that has one (`--queries`)."""

    policies: tuple[tuple[str, str], ...] = ()
    """Graph ids and files with rules about them (`--policy`)."""

    server_policies: tuple[str, ...] = ()
    """Files with rules about the server itself (`--server-policy`)."""

    external_blobs: tuple[tuple[str, str], ...] = ()
    """Graph ids and addresses below which their blobs may lie (`--external-blobs`)."""

    log_format: str = "text"
    log_level: str = "INFO"
    limits: RequestLimits = field(default_factory=RequestLimits)


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable means yes: anything but empty, `0` and `false`."""
    return environment.get(name, "").strip().lower() not in _FALSE


def parse_bind(text: str) -> tuple[str, int]:
    """`host:port`; an IPv6 host stands in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isdecimal() and int(port) < 65536):
        raise InvalidArgument(f"--bind is HOST:PORT, like 127.0.0.1:8080, not {text!r}")
    return host, int(port)


def limits_of(environment: Mapping[str, str]) -> RequestLimits:
    """The limits that the environment sets. A value that is no number is warned of and ignored."""
    found: dict[str, int] = {}
    for variable, name in _LIMIT_VARIABLES.items():
        text = environment.get(variable)
        if text is None:
            continue
        least = 1 if name in _AT_LEAST_ONE else 0
        if text.strip().isdecimal() and int(text) >= least:
            found[name] = int(text)
        else:
            logger.warning("%s=%r is not a number of at least %d: ignored", variable, text, least)
    return replace(RequestLimits(), **found)


def settings_of(environment: Mapping[str, str]) -> ServerSettings:
    """What the environment says about a server; flags override it."""
    grace = environment.get("OMNIGRAPH_SHUTDOWN_GRACE_SECONDS", "")
    try:
        seconds = float(grace) if grace.strip() else 25.0
    except ValueError:
        logger.warning("OMNIGRAPH_SHUTDOWN_GRACE_SECONDS=%r is no number: ignored", grace)
        seconds = 25.0
    form = environment.get("OMNIGRAPH_LOG_FORMAT", "text").strip().lower()
    if form not in ("text", "json"):
        raise InvalidArgument(f"OMNIGRAPH_LOG_FORMAT is text or json, not {form!r}")
    return ServerSettings(
        unauthenticated=is_set(environment, "OMNIGRAPH_UNAUTHENTICATED"),
        require_all_graphs=is_set(environment, "OMNIGRAPH_REQUIRE_ALL_GRAPHS"),
        shutdown_grace_seconds=max(0.0, seconds),
        log_format=form,
        log_level=environment.get("OMNIGRAPH_LOG", "info").strip().upper() or "INFO",
        limits=limits_of(environment),
    )
