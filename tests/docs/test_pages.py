"""Every example of the documentation does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_runner import PageRun, has_examples
from typer.testing import CliRunner

from omnigraph.cli.main import app

ROOT = Path(__file__).parents[2]
# docs/spark.md and docs/pipelines.md run where Spark tests share a session: test_spark_page.py
# docs/clients.md and docs/server.md need a server: test_clients_page.py; test_operator_page.py
# docs/agents.md needs one, too: test_agents_page.py
APART = ("agents.md", "spark.md", "pipelines.md", "clients.md", "server.md", "operator.md")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")])


@pytest.fixture(autouse=True)
def _an_empty_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("OMNIGRAPH_CONFIG", "OMNIGRAPH_HOME", "OMNIGRAPH_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if p.name not in APART and has_examples(p.read_text(encoding="utf-8"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_examples(page: Path, tmp_path: Path) -> None:
    for file in page.parent.iterdir() if page.parent.parent == ROOT / "examples" else ():
        (tmp_path / file.name).symlink_to(file)
    run = PageRun(str(page.relative_to(ROOT)), tmp_path)
    assert run.follow(page.read_text(encoding="utf-8")) > 0


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*/*.gq")), ids=lambda p: p.stem)
def test_stored_queries_of_the_examples_are_clean(example: Path) -> None:
    schema = example.with_suffix(".pg")
    found = CliRunner().invoke(app, ["lint", "--query", str(example), "--schema", str(schema)])
    assert (found.exit_code, found.stdout) == (0, "")
