"""Which embedding provider a graph uses, as data. Keys are named, never held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
