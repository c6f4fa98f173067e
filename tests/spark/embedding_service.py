"""An OpenAI-compatible embedding service on the loopback, for workers in processes of their own."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from omnigraph.embed.mock import MockProvider


class EmbeddingService:
    """Answers with the mock provider's vectors; refuses when it was told to."""

    def __init__(self, width: int) -> None:
        self._provider = MockProvider("test", width)
        self._lock = threading.Lock()
        self._left: int | None = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = service.answer(body["input"])
                self.send_response(503 if answer is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(answer or {}).encode())

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def refuse_after(self, requests: int | None) -> None:
        self._left = requests

    def answer(self, texts: list[str]) -> dict[str, Any] | None:
        with self._lock:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    return None
        vectors = enumerate(self._provider.embed(texts))
        return {"data": [{"index": i, "embedding": vector} for i, vector in vectors]}

    def vector(self, text: str) -> Any:
        return pytest.approx(self._provider.embed([text])[0], rel=1e-5)

    def __enter__(self) -> EmbeddingService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
