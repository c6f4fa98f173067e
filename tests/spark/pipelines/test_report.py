"""The report of a run: complete, self-contained, and safe with hostile texts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

from omnigraph.spark.pipelines.flow_drawing import FlowArrow, FlowBox, draw_flow
from omnigraph.spark.pipelines.model import (
    Expectation,
    Incremental,
    OnFail,
    Pipeline,
    PipelineSource,
    PipelineStep,
    PipelineTarget,
    TargetMode,
)
from omnigraph.spark.pipelines.report import duration, write_report
from omnigraph.spark.pipelines.results import (
    ExpectationResult,
    PipelineRun,
    QuarantinedRow,
    RunStatus,
    SourceResult,
    StepResult,
    TargetResult,
)

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"

PIPELINE = Pipeline(
    name="packages",
    graph="packages.omni",
    sources={
        "raw_packages": PipelineSource(
            name="raw_packages", files=("p/*.csv",), format="csv", incremental=Incremental.FILES
        ),
        "raw_requires": PipelineSource(name="raw_requires", files=("r",), format="json"),
        "people": PipelineSource(name="people", format="jdbc"),
    },
    steps={
        "packages": PipelineStep(
            name="packages",
            sql="SELECT * FROM raw_packages",
            expect=(Expectation(check="name IS NOT NULL", on_fail=OnFail.QUARANTINE),),
        ),
        "requires": PipelineStep(
            name="requires", python="steps:requires", inputs=("raw_requires", "packages")
        ),
        "authors": PipelineStep(name="authors", sql="SELECT * FROM people"),
        "wrote": PipelineStep(name="wrote", sql="SELECT * FROM authors JOIN packages"),
    },
    targets=(
        PipelineTarget(type="Package", origin="packages"),
        PipelineTarget(type="Requires", origin="requires", mode=TargetMode.MIRROR),
        PipelineTarget(type="Author", origin="authors"),
        PipelineTarget(type="Wrote", origin="wrote"),
    ),
)
RUN = PipelineRun(
    pipeline="packages",
    run_id="01M7H8QRSTGJB9M89XSVK2F5M5",
    status=RunStatus.SUCCEEDED,
    branch="main",
    commit="01M7H8QRZZGJB9M89XSVK2F5M5",
    started_at="2026-11-17T02:00:00Z",
    seconds=83.4,
    sources=(
        SourceResult(name="raw_packages", rows=120_000, files=3, position={"files": 31}),
        SourceResult(name="raw_requires", rows=880_412, files=12),
        SourceResult(name="people", rows=5_120),
    ),
    steps=(
        StepResult(name="packages", rows_in=120_000, rows_out=119_988, seconds=4.2),
        StepResult(name="requires", rows_in=1_000_400, rows_out=870_001, seconds=31.0),
        StepResult(name="authors", rows_in=5_120, rows_out=4_800, seconds=12.4),
        StepResult(name="wrote", rows_in=124_788, rows_out=119_000, seconds=6.1),
    ),
    expectations=(
        ExpectationResult(
            step="packages",
            check="name IS NOT NULL",
            failed=12,
            action="quarantine",
            rows=120_000,
        ),
        ExpectationResult(step="packages", check=HOSTILE, failed=0, action="none", rows=120_000),
    ),
    targets=(
        TargetResult(type="Package", inserted=119_000, updated=900, unchanged=88),
        TargetResult(type="Requires", mode="mirror", inserted=70_001, unchanged=800_000, removed=9),
        TargetResult(type="Author", inserted=4_800, rejected=2),
        TargetResult(type="Wrote", inserted=119_000),
    ),
    quarantine=f"/q/{HOSTILE}",
    messages=(f"block {HOSTILE} is large",),
)
QUARANTINED = [
    QuarantinedRow(
        run_id=RUN.run_id,
        step="packages",
        rule="name IS NOT NULL",
        origin="p/1.csv",
        row={"name": None, "version": HOSTILE, HOSTILE: 1},
    )
]


class _Tags(HTMLParser):
    """Tags, and whether they are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def written(tmp_path: Path, run: PipelineRun, pipeline: Pipeline = PIPELINE) -> str:
    rejects = tmp_path / "rejects.ndjson"
    rejects.write_text(
        json.dumps({"type": "Author", "rule": "unique", "message": HOSTILE, "row": {"a": 1}})
    )
    path = write_report(run, pipeline, tmp_path / "report", QUARANTINED)
    return Path(path).read_text(encoding="utf-8")


def test_the_page_is_whole_and_hostile_texts_stay_texts(tmp_path: Path) -> None:
    from dataclasses import replace

    page = written(tmp_path, replace(RUN, rejects=str(tmp_path / "rejects.ndjson")))
    reader = _Tags()
    reader.feed(page)
    assert reader.open == []
    assert not {"script", "img", "link", "iframe", "a"} & set(reader.tags)
    assert not any(name.startswith("on") for name, _ in reader.attributes)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    for expected in ("120,000", "870,001", "1 min 23 s", "+119,000", "name IS NOT NULL", "0.01%"):
        assert expected in page
    assert page.count("&lt;script&gt;alert(1)") >= 5
    again = json.loads((tmp_path / "report" / "run.json").read_text())
    assert PipelineRun.from_dict(again).targets == RUN.targets
    assert again["report"] == str(tmp_path / "report" / "report.html")


def test_a_failed_run_says_where(tmp_path: Path) -> None:
    from dataclasses import replace

    error = {"error": f"step requires: {HOSTILE}", "code": "pipeline_failed", "step": "requires"}
    failed = replace(RUN, status=RunStatus.FAILED, commit=None, targets=(), error=error)
    page = written(tmp_path, failed)
    assert "What went wrong" in page
    assert "The graph is not changed" in page
    assert '<g class="box step bad"><title>requires</title>' in page


def test_an_empty_run_and_an_empty_pipeline(tmp_path: Path) -> None:
    empty = PipelineRun(pipeline="p", run_id="r", status=RunStatus.EMPTY, branch="main")
    page = written(tmp_path, empty, Pipeline(name="p", graph="g", sources={}, targets=()))
    assert "nothing to do" in page
    assert "<svg" not in page


def test_arrows_over_several_columns_go_around_boxes() -> None:
    boxes = [FlowBox(key, key, "step") for key in ("a", "b", "c", "d")]
    arrows = [FlowArrow(*pair) for pair in ("ab", "bc", "cd", "ad", "ac")]
    drawn = ET.fromstring(draw_flow(boxes, arrows))
    tag = "{http://www.w3.org/2000/svg}"
    tops = {}
    for group in drawn.iter(f"{tag}g"):
        name, rect = group.find(f"{tag}title"), group.find(f"{tag}rect")
        assert name is not None
        assert rect is not None
        x, y = float(rect.get("x", "")), float(rect.get("y", ""))
        tops[name.text] = (x, y, y + float(rect.get("height", "")))
    assert len({x for x, _, _ in tops.values()}) == 4
    paths = [path.get("d", "") for path in drawn.iter(f"{tag}path") if path.get("class") == "arrow"]
    long = next(path for path in paths if path.count("C") == 5)  # a -> d
    for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)(?= C| *$)", long):
        for left, top, bottom in tops.values():
            inside = left < float(x) < left + 196 and top < float(y) < bottom
            assert not inside


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 12.34, 83.4, 3900)] == [
        "0.40 s",
        "12.3 s",
        "1 min 23 s",
        "1 h 05 min",
    ]
