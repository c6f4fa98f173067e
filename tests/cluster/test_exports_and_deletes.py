"""A graph is not deleted while it is exported, by this process, another one or a server."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cluster import commands
from omnigraph.commit.export_marks import export_mark, removal_mark
from omnigraph.commit.intents import IntentBoard
from omnigraph.errors import Contention
from omnigraph.graph.export_streams import ndjson_stream
from omnigraph.lance_store.objects.control_files import StoredFile, open_control_files
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph_testing.cluster_kit import PEOPLE, apply, call, codes, declare, write
from omnigraph_testing.crash import start
from omnigraph_testing.s3_server import S3Server

ADA = '{"type": "Person", "data": {"name": "Ada"}}\n'
KEEP = "graphs:\n  people: {schema: people.pg}"
REFUSED = "graph_delete_export_in_progress"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster in which the delete of a graph is approved."""
    folder = tmp_path_factory.mktemp("exports") / "config"
    write(folder, people_pg=PEOPLE, seed_ndjson=ADA)
    declare(folder, f"{KEEP}\n  old: {{schema: people.pg, data: {{seed: [seed.ndjson]}}}}")
    assert apply(folder).body["converged"]
    declare(folder, KEEP)
    assert commands.approve(call(folder, "bob"), "graph.old").ok
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "config"))


def old(folder: Path) -> Path:
    return folder / "graphs" / "old.omni"


def names(folder: Path) -> list[str]:
    with omnigraph.open(old(folder), read_only=True) as graph:
        found = graph.query("match { $p: Person } return { $p.name as name }")
        return [row["name"] for row in found]


def require_refusal(folder: Path) -> None:
    report = apply(folder)
    assert codes(report)[0] == REFUSED
    assert not report.body["converged"]
    assert names(folder) == ["Ada"], "nothing was removed"
    assert not list((folder / "__cluster" / "recoveries").iterdir()), "no server sets it aside"


def require_delete(folder: Path) -> None:
    """The refused apply has used up no approval."""
    report = apply(folder)
    assert report.body["converged"], codes(report)
    assert not old(folder).exists()


class Watched(io.BytesIO):
    """A target of an export: the first write tries to delete the graph."""

    folder: Path
    tried = False

    def write(self, data: object) -> int:
        if not self.tried:
            self.tried = True
            require_refusal(self.folder)
        return super().write(data)  # type: ignore[arg-type]


def test_an_export_to_a_stream(folder: Path) -> None:
    target = Watched()
    target.folder = folder
    with omnigraph.open(old(folder), read_only=True) as graph:
        graph.export(target)
    assert target.tried
    assert b"Ada" in target.getvalue()
    require_delete(folder)


def test_an_export_that_a_reader_takes_or_leaves(folder: Path) -> None:
    """As servers send it: the graph may go when the reader has gone."""
    with omnigraph.open(old(folder)) as graph:
        lines = ndjson_stream(graph.engine, graph.snapshot(), is_head=True, actor="eve")
        next(lines)
        require_refusal(folder)
        lines.close()
    require_delete(folder)


@pytest.mark.crash
def test_an_export_of_another_process_and_its_death(folder: Path) -> None:
    child = start("omnigraph_testing.cluster_kit:export_for_ever", {"uri": str(old(folder))})
    child.wait_for_report()
    require_refusal(folder)
    child.kill()
    child.finish()
    require_delete(folder)


def test_an_export_does_not_begin_during_a_delete(folder: Path) -> None:
    with omnigraph.open(old(folder), read_only=True) as graph:
        engine = graph.engine
        marks = (engine.board, SYSTEM_CLOCK, engine.settings.write, "bob")
        with removal_mark(*marks) as exports:
            assert exports == []
            with pytest.raises(Contention, match="being deleted"):
                graph.export(io.BytesIO())
        graph.export(io.BytesIO())
    assert not list((old(folder) / "__recovery").glob("*"))


def test_storage_that_refuses_the_mark_is_exported(folder: Path) -> None:
    """Nothing is left in a graph that may only be read, and nothing fails."""

    class Refusing:
        def __getattr__(self, name: str) -> object:
            return getattr(open_control_files(parse_location(old(folder), {})), name)

        def put_held(self, key: str, data: bytes) -> None:
            raise omnigraph.StorageFailure("read-only file system")

    board = IntentBoard(Refusing(), SYSTEM_CLOCK)  # type: ignore[arg-type]
    with export_mark(board, SYSTEM_CLOCK, WriteSettings(), None):
        require_delete(folder)


def test_a_killed_export_of_a_bucket_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock proves the death of a process there; the age of its mark does."""
    with S3Server() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        files = open_control_files(parse_location("s3://graphs/g.omni", server.environment()))
        board = IntentBoard(files, SYSTEM_CLOCK)
        settings = WriteSettings(lease_seconds=1000)
        left = export_mark(board, SYSTEM_CLOCK, settings, "eve")
        left.__enter__()
        with removal_mark(board, SYSTEM_CLOCK, settings, "bob") as exports:
            assert [each.actor_id for each in exports] == ["eve"]
        (mark,) = files.walk("__recovery")
        earlier = StoredFile(mark.path, mark.size, mark.modified - 2_001_000_000)
        walk = type(files).walk
        monkeypatch.setattr(
            type(files),
            "walk",
            lambda self, prefix: tuple(
                earlier if each.path == mark.path else each for each in walk(self, prefix)
            ),
        )
        with removal_mark(board, SYSTEM_CLOCK, settings, "bob") as exports:
            assert exports == []
        left.__exit__(None, None, None)
