"""The local provider: averages of word vectors by `wordllama`, whose wheel has the weights."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omnigraph.embed.provider import Vector
from omnigraph.errors import EmbeddingUnavailable

DEFAULT_MODEL = "wordllama-l2-supercat-256"
WIDTH = 256


class LocalProvider:
    """Loads the weights on first use. Threads may share it."""

    model = DEFAULT_MODEL
    width = WIDTH

    def __init__(self) -> None:
        self._loaded: Any = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        # Not normalised, because `norm=True` divides by zero for a text without tokens.
        found: list[Vector] = self._model().embed(list(texts), norm=False).tolist()
        return found

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded


def _load() -> Any:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise EmbeddingUnavailable(
            "the local embedding model is not installed: pip install wordllama"
        )
    # Without these two arguments `load` downloads a tokenizer that the wheel already has.
    package = Path(spec.origin).parent
    return import_module("wordllama").WordLlama.load(cache_dir=package, disable_download=True)
