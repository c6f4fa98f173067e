"""The story that `omnigraph demo` tells; every number in it is measured."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import omnigraph
from omnigraph.cli.change_lines import change_line
from omnigraph.cli.demo.library import (
    QUERIES,
    SCHEMA,
    LibrarySize,
    author_name,
    data_lines,
    paper_code,
)
from omnigraph.cli.demo.telling import INDENT, Story, duration_text
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.session import PATH_VARIABLE, Session
from omnigraph.errors import SparkUnavailable
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.session import spark_session, stop_session

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph

ACTOR = "demo"
BRANCH = "review/titles"
KILL = "commit.after_advance_first=kill"


@dataclass(frozen=True, slots=True)
class Question:
    """A query of the demo, and what the story says about it."""

    title: str
    query: str
    params: dict[str, object]


QUESTIONS = (
    Question(
        "filter: recent papers about vector search",
        "recent",
        {"topic": "vector search", "since": 2015},
    ),
    Question(
        "traversal: what builds on paper P000100, up to three citations away",
        "influence",
        {"code": paper_code(100)},
    ),
    Question("aggregate: the most cited authors", "most_cited", {}),
    Question(
        "hybrid search, meaning and words: 'fish and reefs under water'",
        "hybrid",
        {"q": "fish and reefs under water"},
    ),
)
_LONGEST_LINE = 100


def tell(session: Session, folder: Path, size: LibrarySize, engine: str = "auto") -> None:
    """Tell the whole story, on a graph in `folder` that `engine` loads."""
    story = Story(session)
    began = time.perf_counter()
    graph = _make(story, folder, size, engine)
    _ask(story, graph)
    _branch(story, graph)
    _look_back(story, graph)
    _survive(story, graph)
    seconds = time.perf_counter() - began
    if session.json:
        body = {"uri": graph.uri, "entity_count": size.entities, "steps": story.steps}
        print_json({**body, "milliseconds": round(seconds * 1000, 1)})
        return
    story.chapter(f"All of that took {duration_text(seconds)}. The graph stays; go on from here:")
    started_by_path = Path(sys.argv[0]).name == "omnigraph" and not shutil.which("omnigraph")
    program = sys.argv[0] if started_by_path else "omnigraph"
    print_result(f"  {program} commit list {graph.uri}")
    queries = folder / "library.gq"
    print_result(f"  {program} query hybrid -q {queries} -p q='tea' --store {graph.uri}")


def _make(story: Story, folder: Path, size: LibrarySize, engine: str) -> Graph:
    story.chapter(f"A library of {size.entities:,} entities, made up but always the same")
    data = folder / "library.ndjson"
    (folder / "library.pg").write_text(SCHEMA, encoding="utf-8")
    (folder / "library.gq").write_text(QUERIES, encoding="utf-8")
    with story.step("write it as NDJSON"), data.open("w", encoding="utf-8") as file:
        file.writelines(data_lines(size))
    graph = omnigraph.init(folder / "library.omni", folder / "library.pg", actor=ACTOR)
    engine = _start_engine(story, engine)
    with story.step(
        f"load it in one commit ({engine}): checked, {size.papers:,} summaries turned into vectors",
        size.entities,
    ):
        graph.load(data, message="the library", progress=False, engine=engine)
    if engine == "spark":
        # Here, because the session is still running.
        from omnigraph.cli.demo.nightly import run_nightly

        run_nightly(story, folder)
        story.chapter("Back to the library")
    stop_session()
    with story.step("build the indexes the schema asks for"):
        graph.optimize()
    graph.tags.create("opening")
    return graph


def _start_engine(story: Story, engine: str) -> str:
    """Start Spark for `auto` and `spark`; `auto` falls back to local and says why."""
    if engine != "auto" and engine != "spark":
        return engine
    pipeline = PipelineSettings()
    try:
        with story.step(f"start Spark {pipeline.master}, the engine of large loads"):
            spark_session(pipeline)
    except SparkUnavailable as error:
        if engine == "spark":
            raise
        story.say(f"{INDENT}no Spark here, so this process loads: {error.message}")
        return "local"
    return "spark"


def _ask(story: Story, graph: Graph) -> None:
    story.chapter("Questions (the first of a kind reads from disk, the second from memory)")
    for asked in QUESTIONS:
        with story.step(asked.title):
            rows = graph.query(QUERIES, asked.query, asked.params).to_pylist()
        with story.step("the same again"):
            graph.query(QUERIES, asked.query, asked.params)
        story.show(rows)


def _branch(story: Story, graph: Graph) -> None:
    story.chapter("A branch to work on; main does not notice")
    with story.step(f"create {BRANCH}: no data is copied"):
        graph.branches.create(BRANCH)
    with story.step("change a title, retract a paper with its citations, add one with its author"):
        title = {"code": paper_code(1), "title": "Corrected", "year": 1991}
        graph.mutate(QUERIES, "retitle", title, BRANCH, message="a correction")
        graph.mutate(QUERIES, "retract", {"code": paper_code(2)}, BRANCH, message="a retraction")
        new = {"code": "P-new", "author": author_name(0)}
        graph.mutate(QUERIES, "add", new, BRANCH, message="a reply")
    with story.step("diff it against main"):
        changes = graph.diff("main", BRANCH)
    nodes = [change for change in changes if change.kind == "node"]
    for change in nodes:
        story.say(f"{INDENT}{_first_words(change_line(change))}")
    story.say(f"{INDENT}and {len(changes) - len(nodes)} edges")
    with story.step("meanwhile main changes another property of the same paper"):
        graph.mutate(QUERIES, "resummarize", {"code": paper_code(1)}, message="a new summary")
    with story.step("merge: property by property, so both changes stay"):
        graph.merge(BRANCH, message="reviewed")
    story.show(graph.query(QUERIES, "paper", {"code": paper_code(1)}).to_pylist())


def _first_words(line: str) -> str:
    return textwrap.shorten(line, _LONGEST_LINE, placeholder=" …")


def _look_back(story: Story, graph: Graph) -> None:
    story.chapter("The past stays readable")
    code = {"code": paper_code(1)}
    for title, options in (
        ("paper P000001 now", {}),
        ("the same paper at the tag 'opening'", {"at": "opening"}),
    ):
        with story.step(title):
            rows = graph.query(QUERIES, "paper", code, **options).to_pylist()  # type: ignore[arg-type]
        story.show(rows)


def _survive(story: Story, graph: Graph) -> None:
    story.chapter("A writer is killed in the middle of a commit; the next one cleans up")
    words = [
        "mutate",
        "add",
        "-q",
        "-",
        "-p",
        "code=P-lost",
        "-p",
        f"author={author_name(1)}",
    ]
    target = ["--store", graph.uri, "--as", "victim"]
    command = [sys.executable, "-m", "omnigraph.cli", *words, *target]
    # The story must always be the same, so the config file of the user is left out.
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": KILL, PATH_VARIABLE: os.devnull}
    with story.step("start a process, let it die between two tables (kill -9)"):
        died = subprocess.run(
            command, input=QUERIES, text=True, capture_output=True, env=environment, check=False
        )
    story.say(f"{INDENT}exit code {died.returncode}")
    with story.step("the next write, recovery included"):
        new = {"code": "P-kept", "author": author_name(2)}
        graph.mutate(QUERIES, "add", new, message="after the crash")
    for audit in graph.recoveries():
        what = f"{audit.operation_kind} of {audit.recovery_for_actor}"
        story.say(f"{INDENT}{audit.recovery_kind}: {what}")
    found = graph.query(QUERIES, "paper", {"code": "P-lost"}).row_count
    story.say(f"{INDENT}half a commit left behind: {found} papers")
