from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from omnigraph.catalog.embedding import EmbedRule, embed_rules
from omnigraph.embed.choose import choose_provider
from omnigraph.embed.mock import MockProvider
from omnigraph.embed.provider import EmbeddingProvider, check_model, embed_query, embed_texts
from omnigraph.errors import (
    EmbeddingRefused,
    EmbeddingUnavailable,
    InvalidArgument,
    ModelMismatch,
)
from omnigraph.schema.build import catalog_from_text
from omnigraph.settings.embedding import EmbeddingSettings
from omnigraph.values.clock import SYSTEM_CLOCK

Answer = tuple[int, dict[str, str], Any]


class Service:
    """A loopback endpoint that answers what the test scripts, then what `respond` says."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.script: list[Answer] = []
        self.respond: Callable[[Any], Any] = openai_answer
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append((self.path, dict(self.headers), body))
                script = service.script
                status, headers, answer = (
                    script.pop(0) if script else (200, {}, service.respond(body))
                )
                raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.5]


def openai_answer(body: Any) -> Any:
    data = [{"index": i, "embedding": vector_of(t)} for i, t in enumerate(body["input"])]
    return {"data": data[::-1]}


def gemini_answer(body: Any) -> Any:
    texts = [r["content"]["parts"][0]["text"] for r in body["requests"]]
    return {"embeddings": [{"values": vector_of(t)} for t in texts]}


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever)
    thread.start()
    yield service
    service.server.shutdown()
    thread.join()
    service.server.server_close()


@pytest.fixture
def settings(service: Service) -> EmbeddingSettings:
    return EmbeddingSettings(
        provider="openai-compatible",
        model="small",
        width=3,
        base_url=service.url,
        batch_size=2,
        deadline_seconds=5,
        backoff_seconds=0.01,
    )


def choose(settings: EmbeddingSettings, **environment: str) -> EmbeddingProvider:
    return choose_provider(settings, environment, SYSTEM_CLOCK)


def close(provider: EmbeddingProvider) -> None:
    provider._caller._client.close()  # type: ignore[attr-defined]


def test_openai_compatible(service: Service, settings: EmbeddingSettings) -> None:
    provider = choose(settings, OPENAI_API_KEY="secret")
    assert provider.embed(["a", "bb", "ccc"]) == [vector_of(t) for t in ("a", "bb", "ccc")]
    assert [body["input"] for _, _, body in service.requests] == [["a", "bb"], ["ccc"]]
    path, headers, body = service.requests[0]
    assert (path, headers["Authorization"]) == ("/embeddings", "Bearer secret")
    assert "dimensions" not in body
    close(provider)


def test_gemini(service: Service, settings: EmbeddingSettings) -> None:
    service.respond = gemini_answer
    provider = choose(replace(settings, provider="gemini"), GEMINI_API_KEY="secret")
    assert provider.embed(["a", "bb", "ccc"]) == [vector_of(t) for t in ("a", "bb", "ccc")]
    path, headers, body = service.requests[0]
    assert path == "/models/small:batchEmbedContents"
    assert headers["x-goog-api-key"] == "secret"
    assert body["requests"][0]["outputDimensionality"] == 3
    close(provider)


def test_what_may_pass_is_repeated(service: Service, settings: EmbeddingSettings) -> None:
    service.script = [(503, {}, {}), (429, {"Retry-After": "0.05"}, {}), (500, {}, {})]
    provider = choose(settings)
    assert provider.embed(["a"]) == [vector_of("a")]
    assert len(service.requests) == 4
    assert "Authorization" not in service.requests[0][1]
    close(provider)


def test_it_gives_up(service: Service, settings: EmbeddingSettings) -> None:
    service.script = [(503, {}, {"error": "busy"})] * 9
    provider = choose(settings)
    with pytest.raises(EmbeddingUnavailable, match="busy") as caught:
        provider.embed(["a"])
    assert caught.value.retryable
    assert len(service.requests) == 5
    service.script = [(429, {"Retry-After": "60"}, {})]
    began = SYSTEM_CLOCK.monotonic()
    with pytest.raises(EmbeddingUnavailable):
        provider.embed(["a"])
    assert SYSTEM_CLOCK.monotonic() - began < 3
    close(provider)


def test_deadline_covers_a_silent_service(service: Service, settings: EmbeddingSettings) -> None:
    service.respond = lambda body: (threading.Event().wait(1.5), openai_answer(body))[1]
    provider = choose(replace(settings, deadline_seconds=0.3))
    began = SYSTEM_CLOCK.monotonic()
    with pytest.raises(EmbeddingUnavailable):
        provider.embed(["a"])
    assert SYSTEM_CLOCK.monotonic() - began < 1.2
    close(provider)


def test_nobody_listens(settings: EmbeddingSettings) -> None:
    provider = choose(replace(settings, base_url="http://127.0.0.1:9", attempts=2))
    with pytest.raises(EmbeddingUnavailable):
        provider.embed(["a"])
    close(provider)


@pytest.mark.parametrize(
    "answer",
    [
        (401, {}, {"error": "bad key"}),
        (200, {}, b"<html>"),
        (200, {}, {"data": []}),
        (200, {}, {"other": 1}),
    ],
)
def test_refusals_are_not_repeated(
    service: Service, settings: EmbeddingSettings, answer: Answer
) -> None:
    service.script = [answer]
    provider = choose(settings, OPENAI_API_KEY="top-secret")
    with pytest.raises(EmbeddingRefused) as caught:
        provider.embed(["a"])
    assert "top-secret" not in str(caught.value)
    assert len(service.requests) == 1
    close(provider)


@pytest.mark.parametrize("vector", [[1.0, 2.0], [0.0, 0.0, 0.0], [float("nan"), 1.0, 1.0]])
def test_vectors_without_use_are_refused(
    service: Service, settings: EmbeddingSettings, vector: list[float]
) -> None:
    service.respond = lambda body: {"data": [{"index": 0, "embedding": vector}]}
    provider = choose(settings)
    with pytest.raises(EmbeddingRefused):
        embed_texts(provider, ["a"])
    close(provider)


def test_blank_and_repeated_texts_are_not_sent(
    service: Service, settings: EmbeddingSettings
) -> None:
    provider = choose(settings)
    found = embed_texts(provider, ["a", None, "  ", "a", "bb"])
    assert found == [vector_of("a"), None, None, vector_of("a"), vector_of("bb")]
    assert [body["input"] for _, _, body in service.requests] == [["a", "bb"]]
    assert embed_texts(provider, [None]) == [None]
    with pytest.raises(EmbeddingRefused, match="blank"):
        embed_query(provider, " ", None, 3)
    close(provider)


def test_impossible_configurations_are_refused_by_name() -> None:
    with pytest.raises(EmbeddingRefused, match="OPENAI_API_KEY"):
        choose(EmbeddingSettings(provider="openai-compatible"))
    with pytest.raises(EmbeddingRefused, match="MY_KEY"):
        choose(EmbeddingSettings(provider="gemini", base_url="http://x", api_key_env="MY_KEY"))
    with pytest.raises(InvalidArgument, match="width"):
        choose(EmbeddingSettings(provider="gemini", model="new"), GEMINI_API_KEY="k")
    with pytest.raises(InvalidArgument, match="wordllama"):
        choose(EmbeddingSettings(model="other"))
    with pytest.raises(InvalidArgument, match="nope"):
        choose(EmbeddingSettings(provider="nope"))  # type: ignore[arg-type]


def test_model_and_width_must_be_the_recorded_ones() -> None:
    provider = MockProvider("m", 8)
    check_model(provider, "m", 8)
    check_model(provider, None, 8)
    with pytest.raises(ModelMismatch) as caught:
        check_model(provider, "n", 8)
    assert (caught.value.expected, caught.value.actual) == ("n", "m")
    with pytest.raises(ModelMismatch):
        check_model(provider, "m", 9)


def cosine(left: list[float], right: list[float]) -> float:
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    return dot / math.hypot(*left) / math.hypot(*right)


def test_mock_is_deterministic_and_near_for_shared_words() -> None:
    provider = choose(EmbeddingSettings(provider="mock"))
    fox, wolf, far, mark = provider.embed(["red fox", "fox, grey", "stock market", "?!"])
    assert provider.embed(["Red FOX"]) == [fox]
    assert fox[:2] == pytest.approx([0.14415, 0.05297], abs=1e-4)
    assert cosine(fox, wolf) > cosine(fox, far)
    assert len(mark) == provider.width == 64
    assert math.hypot(*mark) == pytest.approx(1)


def test_local_needs_no_configuration_and_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the local model must not call out")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    provider = choose(EmbeddingSettings())
    cat, kitten, market = provider.embed(["a cat", "a kitten", "stock market crash"])
    assert len(cat) == provider.width == 256
    assert cosine(cat, kitten) > cosine(cat, market)
    assert embed_texts(provider, ["", "日本"])[0] is None


def test_choosing_a_provider_loads_nothing_heavy() -> None:
    code = (
        "import sys; from omnigraph.embed.choose import choose_provider as c;"
        "from omnigraph.settings.embedding import EmbeddingSettings as E;"
        "c(E(), {}, None); print([m for m in ('httpx', 'wordllama', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rules_in_the_schema() -> None:
    catalog = catalog_from_text(
        'node P { bio: String?  v: Vector(8)? @embed("bio", model="m")  w: Vector(8)? '
        '@embed("bio")  x: Vector(2)? }'
    )
    assert embed_rules(catalog.resolve("P")) == (
        EmbedRule("v", "bio", "m"),
        EmbedRule("w", "bio", None),
    )
