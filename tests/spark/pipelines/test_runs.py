"""Runs of a small pipeline: increments, expectations, publishing, failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store
from pipeline_case import Case, touch

import omnigraph
from omnigraph import ExpectationFailed, PipelineBusy, PipelineFailed
from omnigraph.maintain.table_upkeep import look_at
from omnigraph.spark import pipelines
from omnigraph.spark.pipelines import RunStatus
from omnigraph.spark.pipelines.publishing import RunBranch
from omnigraph.spark.upkeep import SparkUpkeep

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_increments_are_committed_once(case: Case, spark: Any) -> None:
    case.packages("A ,1.0,3", "b,2.0,", ",x,", "c,beta,1")
    case.requires("ab", "bc")
    first = case.run(spark).raise_if_failed()
    assert first.status is RunStatus.SUCCEEDED
    assert case.names() == ["a", "b", "c"]
    assert case.pairs() == ["ab", "bc"]
    checks = [(e.failed, e.action, e.rows) for e in first.expectations]
    assert checks == [(1, "quarantine", 4), (2, "warn", 4)]
    assert [(s.name, s.rows_in, s.rows_out) for s in first.steps] == [("packages", 4, 3)]
    assert {s.name: (s.rows, s.files) for s in first.sources} == {"raw": (4, 1), "needs": (2, 1)}
    (row,) = case.loaded().quarantine()
    assert row.step == "packages"
    assert row.rule == "name IS NOT NULL AND name <> ''"
    assert row.origin is not None
    assert row.origin.endswith("in/packages/1.csv")
    assert row.row["version"] == "x"
    again = case.run(spark)
    assert (again.status, again.commit) == (RunStatus.EMPTY, None)
    case.packages("d,4,4")
    case.requires("da")
    second = case.run(spark).raise_if_failed()
    assert {t.type: t.inserted for t in second.targets} == {"Package": 1, "Requires": 1}
    assert [c.graph_commit_id for c in case.commits()] == [second.commit, first.commit]
    assert case.loaded().status().runs == 2


def test_changed_late_and_repeated_files(case: Case, spark: Any) -> None:
    old = case.packages("a,1,1", file="old")
    touch(old, 1_000_000)
    case.run(spark).raise_if_failed()
    touch(old, 1_000_000)
    assert case.run(spark).status is RunStatus.EMPTY, "the same size and time"
    old.write_text("name,version,size\na,2,1\n")
    touch(old, 1_000_000)
    late = case.packages("z,1,1", file="late")
    touch(late, 500_000)
    assert case.run(spark).sources[0].files == 1, "a late file is new; size and time are the same"
    touch(old, 1_000_001)
    changed = case.run(spark).raise_if_failed()
    assert (changed.sources[0].files, changed.targets[0].updated) == (1, 1)
    late.unlink()
    assert case.run(spark).status is RunStatus.EMPTY
    everything = case.run(spark, full=True)
    assert (everything.status, everything.sources[0].files) == (RunStatus.EMPTY, 1)
    touch(old, 2_000_000)
    backfill = case.run(spark, since="1970-01-20", until="1970-02-01")
    assert backfill.sources[0].files == 1
    assert case.run(spark, since="1990-01-01").status is RunStatus.EMPTY
    assert case.names() == ["a", "z"]


def test_a_failed_expectation_publishes_nothing(case: Case, spark: Any) -> None:
    text = case.file.read_text().replace("on_fail: warn}", "on_fail: fail, tolerate: 0.4}")
    case.file.write_text(text)
    case.packages("a,1,1", "b,beta,1", "c,3,1")
    assert case.run(spark).raise_if_failed().expectations[1].action == "none"
    case.packages("d,x,1", "e,beta,1", "f,3,1")
    failed = case.run(spark)
    assert failed.status is RunStatus.FAILED
    assert failed.exit_code == 1
    assert isinstance(failed.failure, ExpectationFailed)
    assert (failed.failure.failed, failed.failure.rows, failed.failure.step) == (2, 3, "packages")
    assert case.names() == ["a", "b", "c"]
    assert len(case.commits()) == 1
    assert failed.report is not None
    assert [run.status for run in case.loaded().runs()] == ["failed", "succeeded"]


def test_rules_of_the_graph(case: Case, spark: Any) -> None:
    case.packages("a,1,1", "b,1,1")
    case.requires("ab", "ax", "xb")
    failed = case.run(spark)
    assert isinstance(failed.failure, PipelineFailed)
    assert (failed.failure.target, failed.failure.step) == ("Requires", "needs")
    assert failed.failure.cause is not None
    assert failed.failure.cause["total"] == 2
    assert case.names() == []
    case.file.write_text(case.file.read_text() + "publish: {on_error: skip}\n")
    skipped = case.run(spark).raise_if_failed()
    assert {t.type: t.rejected for t in skipped.targets} == {"Package": 0, "Requires": 2}
    assert skipped.rejects is not None
    assert case.pairs() == ["ab"]


def test_dry_run_changes_nothing(case: Case, spark: Any) -> None:
    case.packages("a,1,1", ",1,1")
    dry = case.run(spark, dry_run=True).raise_if_failed()
    assert dry.dry_run
    assert dry.samples["Package"][0]["name"] == "a"
    assert [t.inserted for t in dry.targets if t.type == "Package"] == [1]
    assert dry.expectations[0].failed == 1
    assert not Path(case.uri).exists()
    case.run(spark).raise_if_failed()
    case.packages("b,1,1")
    assert case.run(spark, dry_run=True).targets[0].inserted == 1
    assert case.names() == ["a"]
    assert case.run(spark).raise_if_failed().targets[0].inserted == 1


def test_merge_review_and_conflicts(case: Case, spark: Any) -> None:
    base = case.file.read_text()
    case.file.write_text(base + "publish: {via: merge, message: nightly, actor: etl}\n")
    case.packages("a,1,1")
    merged = case.run(spark).raise_if_failed()
    with case.graph() as graph:
        assert [b.name for b in graph.branches.list()] == ["main"]
        head = graph.commits.show("main")
        assert (head.graph_commit_id, head.message) == (merged.commit, "nightly")
        assert head.actor_id == "etl"
    assert case.run(spark).status is RunStatus.EMPTY, "the merge carried the position"
    case.file.write_text(base + "publish: {review: true}\n")
    case.packages("b,1,1")
    waiting = case.run(spark).raise_if_failed()
    assert waiting.review_branch == "pipeline/packages/review"
    assert case.names() == ["a"]
    assert case.run(spark).status is RunStatus.EMPTY, "the review branch has the position"
    case.packages("c,1,1")
    case.run(spark).raise_if_failed()
    assert case.loaded().status().review_branches == ("pipeline/packages/review",)
    with case.graph() as graph:
        graph.merge("pipeline/packages/review")
    assert case.names() == ["a", "b", "c"]
    assert case.run(spark).status is RunStatus.EMPTY, "a person's merge carried the position"
    case.file.write_text(base + "publish: {via: merge}\n")
    case.packages("a,2,9")
    with case.graph() as graph:
        # Another writer changes what the run changes, while the run is on its own branch.
        failpoints_at = Racing(graph)
        conflict = failpoints_at.run(lambda: case.run(spark))
    assert conflict.status is RunStatus.FAILED
    assert conflict.exit_code == 5
    assert conflict.review_branch == f"pipeline/packages/conflict-{conflict.run_id}"
    with case.graph() as graph:
        graph.merge(conflict.review_branch, strategy="theirs", delete_branch=True)
    assert case.run(spark).status is RunStatus.EMPTY


class Racing:
    """Lets another writer commit before a run merges its branch."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def run(self, call: Any) -> Any:
        before = RunBranch.publish

        def publish(branch: RunBranch, commit: str) -> str:
            self._graph.load([{"name": "a", "version": "3"}], "merge", type="Package")
            return before(branch, commit)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunBranch, "publish", publish)
            return call()


def test_one_run_at_a_time(case: Case, spark: Any) -> None:
    case.packages("a,1,1")
    case.run(spark).raise_if_failed()
    case.packages("b,1,1")
    with case.graph() as graph, graph.engine.leases.hold("pipeline:packages", "another"):
        with pytest.raises(PipelineBusy, match="under way"):
            case.run(spark)
        assert case.loaded().status().running is not None
        assert case.names() == ["a"]
    case.run(spark).raise_if_failed()
    assert case.loaded().status().running is None
    assert case.names() == ["a", "b"]
    listed = pipelines.list_pipelines(case.uri)
    assert [(p.pipeline, p.runs) for p in listed] == [("packages", 2)]


def test_python_steps_joins_and_shared_steps(tmp_path: Path, spark: Any) -> None:
    case = Case(
        tmp_path,
        """
version: 1
name: packages
graph: packages.omni
schema: packages.pg
sources:
  raw: {files: in/packages, format: csv, options: {header: true}}
steps:
  clean: {sql: "SELECT name, version, size FROM raw WHERE name IS NOT NULL"}
  sized: {python: "own_steps:sized", inputs: [clean]}
  pairs: {sql: "SELECT x.name AS a, y.name AS b FROM clean x JOIN clean y ON x.name < y.name"}
targets:
  - type: Package
    from: sized
    mode: mirror
    map: {name: name, size: length, version: upper(version)}
  - {type: Requires, from: pairs, mode: mirror, ends: {from: a, to: b}}
""",
    )
    (tmp_path / "own_steps.py").write_text(
        "import helper_of_steps\n"
        "def sized(spark, inputs):\n"
        "    from pyspark.sql.functions import udf\n"
        "    length = udf(lambda text: helper_of_steps.length(text), 'int')\n"
        "    return inputs['clean'].withColumn('length', length('name'))\n"
    )
    (tmp_path / "helper_of_steps.py").write_text("def length(text):\n    return len(text)\n")
    case.packages("a,x,", "bb,y,", "ccc,z,")
    assert case.loaded().validate() == ()
    first = case.run(spark).raise_if_failed()
    assert {s.name: s.rows_out for s in first.steps} == {"clean": 3, "sized": 3, "pairs": 3}
    with case.graph() as graph:
        rows = graph.read("Package").to_pylist()
    assert {r["id"]: (r["size"], r["version"]) for r in rows} == {
        "a": (1, "X"),
        "bb": (2, "Y"),
        "ccc": (3, "Z"),
    }
    assert case.run(spark).status is RunStatus.EMPTY
    case.packages("a,x,", "bb,y,", file="1")
    second = case.run(spark).raise_if_failed()
    assert {t.type: t.removed for t in second.targets} == {"Package": 1, "Requires": 2}
    assert case.pairs() == ["abb"]


def test_a_graph_as_a_source(tmp_path: Path, spark: Any) -> None:
    schema = "node Note { name: String @key  text: String? }"
    other = omnigraph.init(tmp_path / "other.omni", schema)
    other.load({"Note": [{"name": "a", "text": "1"}, {"name": "b", "text": "2"}]})
    case = Case(
        tmp_path,
        """
version: 1
name: packages
graph: packages.omni
schema: packages.pg
sources:
  notes: {graph: other.omni, type: Note, incremental: commits}
steps:
  kept: {sql: "SELECT name, text AS version FROM notes WHERE _op <> 'delete'"}
targets:
  - {type: Package, from: kept}
""",
    )
    first = case.run(spark).raise_if_failed()
    assert first.sources[0].rows == 2
    assert case.run(spark).status is RunStatus.EMPTY
    other.load({"Note": [{"name": "b", "text": "3"}, {"name": "c", "text": "4"}]}, "merge")
    other.mutate('query q() { delete Note where name = "a" }')
    second = case.run(spark).raise_if_failed()
    assert (second.sources[0].rows, second.steps[0].rows_out) == (3, 2)
    assert {t.type: (t.inserted, t.updated) for t in second.targets} == {"Package": (1, 1)}
    assert case.names() == ["a", "b", "c"]


def test_a_stream_as_a_source(tmp_path: Path, spark: Any) -> None:
    case = Case(
        tmp_path,
        f"""
version: 1
name: packages
graph: packages.omni
schema: packages.pg
sources:
  lines:
    format: json
    options: {{path: "{tmp_path}/in/requires"}}
    schema: package STRING, dep STRING
    incremental: stream
steps:
  packages: {{sql: "SELECT explode(array(package, dep)) AS name FROM lines"}}
targets:
  - {{type: Package, from: packages}}
  - {{type: Requires, from: lines, ends: {{from: package, to: dep}}}}
""",
    )
    case.requires("ab")
    first = case.run(spark).raise_if_failed()
    assert first.status is RunStatus.SUCCEEDED
    assert case.run(spark).status is RunStatus.EMPTY
    case.requires("bc")
    case.run(spark).raise_if_failed()
    assert case.pairs() == ["ab", "bc"]
    assert len(case.commits()) == 2


@pytest.mark.s3
def test_files_of_a_bucket(tmp_path: Path, spark: Any, s3: Any) -> None:
    bucket = "pipelines"
    s3.create_bucket(bucket)
    store = S3Store(
        bucket,
        endpoint=s3.endpoint,
        access_key_id="test",
        secret_access_key="test",
        region="us-east-1",
        client_options={"allow_http": True},
    )
    case = Case(
        tmp_path,
        f"""
version: 1
name: packages
graph: packages.omni
schema: packages.pg
sources:
  raw:
    files: s3://{bucket}/in/**/*.csv
    format: csv
    options: {{header: true}}
    incremental: files
  needs: {{files: "s3://{bucket}/needs/*.ndjson", format: ndjson}}
targets:
  - {{type: Package, from: raw}}
  - {{type: Requires, from: needs, ends: {{from: package, to: dep}}, map: {{}}}}
""",
    )
    obstore.put(store, "in/x/1.csv", b'name,version,size\na,"1\n2",3\nb,,\n')
    obstore.put(store, "needs/1.ndjson", b'{"package": "a", "dep": "b"}\n')
    case.run(spark).raise_if_failed()
    assert case.names() == ["a", "b"]
    obstore.put(store, "in/y/z/2.csv", b"name,version,size\nc,9,9\n")
    second = case.run(spark).raise_if_failed()
    assert (second.sources[0].files, second.sources[0].rows) == (1, 1)
    assert case.names() == ["a", "b", "c"]
    assert case.pairs() == ["ab"]


def layout_of(graph: omnigraph.Graph, type_name: str) -> Any:
    engine, snapshot = graph.engine, graph.snapshot()
    entity = snapshot.catalog.resolve(type_name)
    maintenance = engine.settings.maintenance
    return look_at(engine.store, snapshot.pin(entity.table_key), entity, maintenance)


@pytest.fixture
def executors_did(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of upkeep that executors did, in order."""
    done: list[str] = []
    each = SparkUpkeep.each

    def noted(self: SparkUpkeep, name: str, *arguments: Any, **options: Any) -> Any:
        done.append(name)
        return each(self, name, *arguments, **options)

    monkeypatch.setattr(SparkUpkeep, "each", noted)
    return done


def test_executors_index_a_table_that_grew_much(
    case: Case, spark: Any, executors_did: list[str]
) -> None:
    case.packages("a,1,1")
    assert case.run(spark).raise_if_failed().messages == ()
    assert executors_did == [], "a small table needs nothing"
    case.packages(*(f"p{n},1,{n}" for n in range(25_000)))
    assert case.run(spark).raise_if_failed().messages == ()
    assert executors_did == ["index"]
    with case.graph() as graph:
        assert layout_of(graph, "Package").unindexed_rows == 0
        assert graph.verify(full=True).ok


@pytest.mark.slow
def test_executors_compact_a_table_of_many_runs(
    case: Case, spark: Any, executors_did: list[str]
) -> None:
    # Lance compacts fragments together that the same segment of the index of ids covers. Each run
    # adds a segment; after some of them one replaces the others.
    for number in range(16):
        case.packages(*(f"p{number}-{n},1,{n}" for n in range(25_000)))
        assert case.run(spark).raise_if_failed().messages == ()
    assert executors_did.count("index") >= 16
    assert "compaction" in executors_did
    with case.graph() as graph:
        assert layout_of(graph, "Package").unindexed_rows == 0
        assert graph.read("Package").num_rows == 400_000
        assert graph.verify(full=True).ok
