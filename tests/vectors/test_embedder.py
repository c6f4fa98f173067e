from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.embed.mock import MockProvider
from omnigraph.embed.provider import Vector
from omnigraph.errors import EmbeddingUnavailable, InvalidArgument, ModelMismatch
from omnigraph.graph.handle import Graph
from omnigraph.schema.build import catalog_from_text
from omnigraph.settings.models import EmbeddingSettings, Settings
from omnigraph.writes.shape import Edit

WIDTH = 4
SCHEMA = f"""
node Doc {{ name: String @key
  text: String?
  vec: Vector({WIDTH})? @embed("text", model="test")
  file: Blob? }}
node Plain {{ name: String @key }}
"""


class CountingProvider(MockProvider):
    def __init__(self) -> None:
        super().__init__("test", WIDTH)
        self.asked: list[str] = []
        self.fail_after: int | None = None

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.fail_after is not None and len(self.asked) >= self.fail_after:
            raise EmbeddingUnavailable("the service is down")
        self.asked += texts
        return super().embed(texts)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> CountingProvider:
    made = CountingProvider()
    monkeypatch.setattr("omnigraph.graph.engine.choose_provider", lambda *_: made)
    return made


@pytest.fixture
def docs(uri: str, tmp_path: Path, provider: CountingProvider) -> Graph:
    settings = Settings(
        embedding=EmbeddingSettings(
            batch_size=2, parallel_requests=1, journal_dir=str(tmp_path / "journal")
        )
    )
    graph = omnigraph.init(uri, SCHEMA, settings=settings)
    rows = [{"name": f"d{i}", "text": f"text {i}", "file": bytes([i])} for i in range(5)]
    insert_without_vectors(graph, [*rows, {"name": "none"}, {"name": "blank", "text": " "}])
    return graph


def insert_without_vectors(
    graph: Graph, rows: list[dict[str, Any]], type_name: str = "Doc"
) -> None:
    """As rows are that were there before the property."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.graph.edits.fill_edits", lambda _, changes, __: changes)
        graph.apply({type_name: Edit(insert=rows)})


def vectors(graph: Graph, branch: str = "main") -> dict[str, Any]:
    rows = graph.read("Doc", branch, columns=["id", "vec"]).to_pylist()
    return {row["id"]: row["vec"] for row in rows}


def of(text: str) -> list[float]:
    return pytest.approx(MockProvider("test", WIDTH).embed([text])[0], rel=1e-5)


def test_missing_vectors_come_in_one_commit_and_nothing_else_changes(
    docs: Graph, provider: CountingProvider
) -> None:
    docs.branches.create("review")
    before = docs.read("Doc", "review", columns=["id", "text", "file"]).sort_by("id")
    receipt = docs.embed("review", message="vectors")
    assert (receipt.embedded, receipt.requested, receipt.resumed) == (5, 5, 0)
    assert receipt.write.commit is not None
    assert receipt.write.commit.operation == "embed"
    assert receipt.write.commit.message == "vectors"
    found = vectors(docs, "review")
    assert found["d3"] == of("text 3")
    assert found["none"] is None
    assert found["blank"] is None
    assert docs.read("Doc", "review", columns=["id", "text", "file"]).sort_by("id") == before
    assert set(vectors(docs).values()) == {None}
    again = docs.embed("review")
    assert again.write.commit is None
    assert len(provider.asked) == 5


@pytest.mark.parametrize("first_run", [True, False])
def test_a_vector_of_another_text_is_stale_unless_it_came_with_the_text(
    docs: Graph, provider: CountingProvider, first_run: bool
) -> None:
    if first_run:
        docs.embed()
    else:
        rows = [{"name": f"d{i}", "text": f"text {i}", "vec": [0.0, 0, 0, i + 1]} for i in range(5)]
        docs.apply({"Doc": Edit(upsert=rows)})
    stored = docs.read("Doc", ids=["d1", "d2", "d3"]).sort_by("id").to_pylist()
    own = [9.0, 9.0, 9.0, 9.0]
    changed = [
        stored[0] | {"text": "new"},
        stored[1] | {"text": "new too", "vec": own},
        stored[2] | {"file": b"new"},
    ]
    docs.apply({"Doc": Edit(upsert=changed)})
    provider.asked.clear()
    assert docs.embed().embedded == 1
    assert provider.asked == ["new"]
    found = vectors(docs)
    assert found["d1"] == of("new")
    assert found["d2"] == own
    assert found["d3"] == stored[2]["vec"]
    assert docs.embed().embedded == 0


def test_a_run_that_fails_leaves_no_trace_and_the_next_one_goes_on(
    docs: Graph, provider: CountingProvider, tmp_path: Path
) -> None:
    head = docs.snapshot().graph_commit_id
    provider.fail_after = 4
    with pytest.raises(EmbeddingUnavailable):
        docs.embed()
    assert docs.snapshot().graph_commit_id == head
    assert len(provider.asked) == 4
    provider.fail_after = None
    receipt = docs.embed()
    assert (receipt.embedded, receipt.requested, receipt.resumed) == (5, 1, 4)
    assert vectors(docs)["d0"] == of("text 0")
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_model_that_does_not_fit_is_refused_before_any_text_is_sent(
    uri: str, provider: CountingProvider
) -> None:
    graph = omnigraph.init(uri, SCHEMA.replace('"test"', '"other"'))
    with pytest.raises(ModelMismatch):
        graph.embed()
    with pytest.raises(InvalidArgument, match="no @embed property on Plain"):
        graph.embed(types=["Plain"])
    assert provider.asked == []


def test_a_type_that_another_process_added_meanwhile_is_embedded_too(
    docs: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = SCHEMA + SCHEMA.replace("Doc", "Memo").replace("Plain", "Other")
    run = docs.engine.transaction.run

    def after_a_change(*arguments):
        other = omnigraph.open(docs.uri)
        other.schema.apply(catalog_from_text(more))
        insert_without_vectors(other, [{"name": "m", "text": "memo"}], "Memo")
        return run(*arguments)

    monkeypatch.setattr(docs.engine.transaction, "run", after_a_change)
    docs.embed()
    assert docs.read("Memo").column("vec").null_count == 0


def test_an_unknown_engine_is_refused(docs: Graph) -> None:
    with pytest.raises(InvalidArgument, match="no embed engine 'flink'"):
        docs.embed(engine="flink")
