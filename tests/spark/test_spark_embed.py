from __future__ import annotations

from pathlib import Path

import pytest
from embedding_service import EmbeddingService

import omnigraph
from omnigraph.errors import EmbeddingUnavailable
from omnigraph.settings.models import EmbeddingSettings, PipelineSettings, Settings
from omnigraph.writes.shape import Edit

WIDTH = 4
SCHEMA = f"""
node Doc {{ name: String @key
  text: String?
  vec: Vector({WIDTH})? @embed("text", model="test") }}
"""


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_spark_workers_ask_a_service_and_a_run_that_fails_is_resumed(
    uri: str, tmp_path: Path
) -> None:
    with EmbeddingService(WIDTH) as service:
        settings = Settings(
            embedding=EmbeddingSettings(
                "openai-compatible",
                model="test",
                width=WIDTH,
                base_url=service.url,
                batch_size=2,
                attempts=1,
                requests_per_minute=6000,
                journal_dir=str(tmp_path / "journal"),
            ),
            pipeline=PipelineSettings(),
        )
        graph = omnigraph.init(uri, SCHEMA, settings=settings)
        rows = [{"name": f"d{i:02}", "text": f"text {i}"} for i in range(40)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("omnigraph.graph.edits.fill_edits", lambda _, changes, __: changes)
            graph.apply({"Doc": Edit(insert=rows)})
        head = graph.snapshot().graph_commit_id
        service.refuse_after(12)
        with pytest.raises(EmbeddingUnavailable):
            graph.embed(engine="spark")
        assert graph.snapshot().graph_commit_id == head
        service.refuse_after(None)
        receipt = graph.embed(engine="spark", message="vectors")
        assert (receipt.engine, receipt.embedded) == ("spark", 40)
        assert (receipt.requested, receipt.resumed) == (16, 24)
        assert len(graph.commits.list()) == 3
        read = graph.read("Doc", columns=["id", "vec"]).to_pylist()
        stored = {row["id"]: row["vec"] for row in read}
        assert stored["d07"] == service.vector("text 7")
        assert graph.embed(engine="spark").write.commit is None
