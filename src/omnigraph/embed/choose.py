"""Settings -> provider. No model is loaded and no service is called before the first `embed`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from omnigraph.embed.local import LocalProvider
from omnigraph.embed.mock import DEFAULT_MODEL as MOCK_MODEL
from omnigraph.embed.mock import DEFAULT_WIDTH as MOCK_WIDTH
from omnigraph.embed.mock import MockProvider
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import EmbeddingRefused, InvalidArgument
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import Clock

_REMOTE = {"openai-compatible": "OpenAiCompatibleProvider", "gemini": "GeminiProvider"}
_REMOTE_MODULE = "omnigraph.embed.remote_providers"
"""Imported when one is chosen, because other graphs do not need the HTTP client."""


def choose_provider(
    settings: EmbeddingSettings, environment: Mapping[str, str], clock: Clock
) -> EmbeddingProvider:
    """The configured provider; an impossible configuration is refused."""
    match settings.provider:
        case "local":
            return _local(settings)
        case "mock":
            return MockProvider(settings.model or MOCK_MODEL, settings.width or MOCK_WIDTH)
        case "openai-compatible" | "gemini":
            return _remote(settings, environment, clock)
    raise InvalidArgument(
        f"no embedding provider {settings.provider!r}; there are: local, mock, {', '.join(_REMOTE)}"
    )


def _local(settings: EmbeddingSettings) -> EmbeddingProvider:
    provider = LocalProvider()
    wrong_model = settings.model not in (None, provider.model)
    if wrong_model or settings.width not in (None, provider.width):
        raise InvalidArgument(
            f"the local provider has one model, {provider.model}, of {provider.width} numbers"
        )
    return provider


def _remote(
    settings: EmbeddingSettings, environment: Mapping[str, str], clock: Clock
) -> EmbeddingProvider:
    kind: Any = getattr(import_module(_REMOTE_MODULE), _REMOTE[settings.provider])
    model = settings.model or kind.default_model
    width = settings.width or kind.widths.get(model)
    if width is None:
        raise InvalidArgument(f"model {model!r} is not known here: set `width` too", model=model)
    variable = settings.api_key_env or kind.key_variable
    key = environment.get(variable)
    # A server of the user needs no key, unless the settings name a variable for it.
    if not key and (settings.base_url is None or settings.api_key_env is not None):
        raise EmbeddingRefused(f"set {variable} to the key of the embedding service")
    provider: EmbeddingProvider = kind(model, width, key, settings, clock)
    return provider
