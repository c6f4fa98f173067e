"""Cleanup during a save: the files are too young to remove, or the save raises an error."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_table_writer_crashes import written

from omnigraph import open
from omnigraph.errors import WriterFenced
from omnigraph.graph.handle import Graph
from omnigraph.maintain.cleanup import Cleanup
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph.spark.source.table_writer import commit_write
from omnigraph_testing.invariants import assert_at_rest


def files(graph: Graph) -> set[Path]:
    return set(Path(graph.uri).glob("nodes/**/data/*.lance"))


def impatient(graph: Graph) -> Graph:
    """For whom every file is old enough, as if the save had taken an hour."""
    maintenance = MaintenanceSettings(automatic=False, minimum_age_seconds=0)
    return open(graph.uri, settings=Settings(maintenance=maintenance))


def test_files_of_a_save_are_too_young_for_cleanup(people: Graph) -> None:
    save = written(people, 0, "a", "b")
    staged = files(people)
    assert staged
    assert people.cleanup(keep=1, confirm=True).files == 0
    assert files(people) == staged
    commit_write(*save)  # type: ignore[arg-type]
    people.cleanup(keep=1, confirm=True)
    assert sorted(people.read("Person")["id"].to_pylist()) == ["a", "b"]
    assert_at_rest(people)


def test_a_save_whose_files_are_gone_says_so_and_can_be_repeated(people: Graph) -> None:
    save = written(people, 0, "a", "b")
    impatient(people).cleanup(keep=1, confirm=True)
    with pytest.raises(WriterFenced, match=r"GraphWriter"):
        commit_write(*save)  # type: ignore[arg-type]
    assert people.read("Person").num_rows == 0
    commit_write(*written(people, 0, "a", "b"))  # type: ignore[arg-type]
    assert people.read("Person").num_rows == 2
    assert_at_rest(people)


def test_a_long_save_waits_for_the_cleanup_that_has_its_files_on_the_list(
    people: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, begun, results, batch = written(people, 0, "a", "b")
    save = (request, replace(begun, begun_at=0), results, batch)  # type: ignore[type-var]
    found, go_on = threading.Event(), threading.Event()
    remove = Cleanup._remove

    def late(*arguments: Any) -> None:
        found.set()
        assert go_on.wait(60)
        remove(*arguments)

    monkeypatch.setattr(Cleanup, "_remove", late)
    with ThreadPoolExecutor() as pool:
        cleanup = pool.submit(impatient(people).cleanup, keep=1, confirm=True)
        assert found.wait(60)
        commit = pool.submit(commit_write, *save)  # type: ignore[arg-type]
        with pytest.raises(TimeoutError):
            commit.result(1)
        go_on.set()
        assert cleanup.result(60).files > 0
        with pytest.raises(WriterFenced, match="GraphWriter"):
            commit.result(60)
    assert people.read("Person").num_rows == 0
    assert_at_rest(people)
