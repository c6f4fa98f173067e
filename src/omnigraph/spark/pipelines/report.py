"""The report of a run: `run.json`, and one HTML page that needs nothing else.

The page has no scripts and loads nothing. Every text in it is escaped, because names, values and
messages come from the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from omnigraph.spark.pipelines.flow import step_inputs
from omnigraph.spark.pipelines.flow_drawing import FlowArrow, FlowBox, draw_flow
from omnigraph.spark.pipelines.model import Pipeline
from omnigraph.spark.pipelines.report_style import STYLE
from omnigraph.spark.pipelines.results import PipelineRun, QuarantinedRow, RunStatus, TargetResult
from omnigraph.values.plurals import counted

PAGE, DATA = "report.html", "run.json"
SHOWN_ROWS = 20
_LONGEST = 160
_CHANGES = ("inserted", "updated", "unchanged", "removed", "cascaded", "rejected")


def write_report(
    run: PipelineRun,
    pipeline: Pipeline,
    folder: str | Path,
    quarantined: Sequence[QuarantinedRow] = (),
) -> str:
    """Write the report into `folder`; returns the path of its page.

    `quarantined` are examples of the rows that failed an expectation; the page shows the first.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    page = place / PAGE
    run = replace(run, report=str(page))
    told = json.dumps(run.to_dict(), indent=2, default=str, ensure_ascii=False)
    (place / DATA).write_text(told + "\n", encoding="utf-8")
    page.write_text("\n".join(_page(run, pipeline, quarantined)) + "\n", encoding="utf-8")
    return str(page)


def _page(
    run: PipelineRun, pipeline: Pipeline, quarantined: Sequence[QuarantinedRow]
) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield (
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    yield f"<title>{_text(run.pipeline)}: {_text(run.status)}</title>"
    yield f"<style>{STYLE}</style></head><body><main>"
    yield from _heading(run)
    yield from _problem(run)
    yield from _section("Flow", _flow(run, pipeline))
    yield from _section("Changes of the graph", _targets(run))
    yield from _section("Expectations", _expectations(run))
    yield from _section("Rows in quarantine", _quarantine(run, quarantined))
    yield from _section("Rows that the graph refused", _rejects(run))
    yield from _section("Steps", _steps(run))
    yield from _section("Sources", _sources(run))
    yield from _section("Samples", _samples(run))
    yield "</main></body></html>"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """A section, or nothing if it has no lines."""
    inside = list(lines)
    if inside:
        yield f"<section><h2>{_text(title)}</h2>"
        yield from inside
        yield "</section>"


# --- the parts of the page --------------------------------------------------------------------


def _heading(run: PipelineRun) -> Iterator[str]:
    what = "dry run" if run.dry_run else "run"
    yield "<header>"
    yield (
        f'<h1>{_text(run.pipeline)} <span class="pill {_text(run.status)}">'
        f"{_text(run.status)}</span></h1>"
    )
    facts = {
        what: run.run_id,
        "started": run.started_at,
        "took": duration(run.seconds),
        "branch": run.branch,
        "commit": run.commit,
        "for review": run.review_branch,
    }
    yield '<dl class="facts">'
    for name, value in facts.items():
        if value:
            yield f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
    yield "</dl>"
    yield f"<p>{_text(_summary(run))}</p>"
    for message in run.messages:
        yield f'<p class="note">{_text(message)}</p>'
    yield "</header>"


def _summary(run: PipelineRun) -> str:
    if run.status is RunStatus.FAILED:
        return "The run failed. The graph is not changed."
    changed = sum(t.inserted + t.updated + t.removed + t.cascaded for t in run.targets)
    if run.dry_run:
        return f"A run would change {counted(changed, 'entity')}. Nothing was written."
    if run.status is RunStatus.EMPTY:
        return "There was nothing to do, so there is no commit."
    left = f" on {run.review_branch}, for review" if run.review_branch else ""
    return f"One commit changed {counted(changed, 'entity')}{left}."


def _problem(run: PipelineRun) -> Iterator[str]:
    if run.error is None:
        return
    yield '<section class="problem"><h2>What went wrong</h2>'
    yield f"<p>{_text(run.error.get('error', ''))}</p>"
    places = {
        name: value
        for name, value in run.error.items()
        if name not in ("error", "code", "cause") and isinstance(value, str | int)
    }
    if places:
        yield '<dl class="facts">'
        for name, value in places.items():
            yield f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
        yield "</dl>"
    yield "</section>"


def _flow(run: PipelineRun, pipeline: Pipeline) -> Iterator[str]:
    drawn = draw_flow(*_boxes_and_arrows(run, pipeline))
    if drawn:
        yield f'<div class="wide">{drawn}</div>'


def _boxes_and_arrows(
    run: PipelineRun, pipeline: Pipeline
) -> tuple[list[FlowBox], list[FlowArrow]]:
    """Boxes and arrows of the drawing."""
    rows: dict[str, int | None] = {each.name: each.rows for each in run.sources}
    rows |= {each.name: each.rows_out for each in run.steps}
    times = {each.name: each.seconds for each in run.steps}
    failed = {each.step for each in run.expectations if each.action == "fail"}
    failed.add(str((run.error or {}).get("step") or (run.error or {}).get("source")))
    boxes = [
        FlowBox(name, name, "source", _source_detail(pipeline, name), name in failed)
        for name in pipeline.sources
    ]
    known = [*pipeline.sources, *pipeline.steps]
    arrows = []
    for name, step in pipeline.steps.items():
        kind = "SQL" if step.sql else "Python" if step.python else "resolve"
        seconds = f", {duration(times[name])}" if times.get(name) else ""
        boxes.append(FlowBox(name, name, "step", kind + seconds, name in failed))
        arrows += [FlowArrow(each, name, _rows(rows, each)) for each in step_inputs(step, known)]
    changed = {each.type: each for each in run.targets}
    wrong = (run.error or {}).get("target")
    for target in pipeline.targets:
        key = f"target {target.type}"
        detail = _short_change(changed.get(target.type)) or target.mode.value
        boxes.append(FlowBox(key, target.type, "target", detail, wrong == target.type))
        arrows.append(FlowArrow(target.origin, key, _rows(rows, target.origin)))
    return boxes, arrows


def _source_detail(pipeline: Pipeline, name: str) -> str:
    source = pipeline.sources[name]
    if source.graph is not None:
        return f"graph, {source.type}"
    kept = f", {source.incremental.value}" if source.incremental else ""
    return f"{source.format or 'files'}{kept}"


def _rows(rows: Mapping[str, int | None], name: str) -> str:
    count = rows.get(name)
    return "" if count is None else f"{count:,}"


def _short_change(target: TargetResult | None) -> str:
    if target is None:
        return ""
    signs = {"inserted": "+", "updated": "~", "removed": "−"}
    counts = {sign: getattr(target, name) for name, sign in signs.items()}
    told = [f"{sign}{count:,}" for sign, count in counts.items() if count]
    return "  ".join(told) or f"{target.unchanged:,} unchanged"


def _targets(run: PipelineRun) -> Iterator[str]:
    if not run.targets:
        return
    rows = []
    most = max(sum(getattr(each, name) for name in _CHANGES[:4]) for each in run.targets) or 1
    for each in run.targets:
        parts = "".join(
            f'<i class="{name}" style="width:{100 * getattr(each, name) / most:.2f}%"></i>'
            for name in _CHANGES[:4]
            if getattr(each, name)
        )
        counts = [_number(getattr(each, name)) for name in _CHANGES]
        rows.append([_cell(each.type), _cell(each.mode), *counts, f'<td class="bar">{parts}</td>'])
    yield from _table(["type", "mode", *_CHANGES, ""], rows)


def _expectations(run: PipelineRun) -> Iterator[str]:
    rows = []
    for each in run.expectations:
        share = "" if not each.rows else f"{each.failed / each.rows:.2%}"
        mark = "ok" if each.action == "none" and not each.failed else each.action
        rows.append(
            [
                _cell(each.step),
                f"<td><code>{_text(each.check)}</code></td>",
                _number(each.rows),
                _number(each.failed),
                f'<td class="number">{_text(share)}</td>',
                f'<td><span class="pill {_text(mark)}">{_text(mark)}</span></td>',
            ]
        )
    if rows:
        yield from _table(["step", "check", "rows", "failed", "share", "action"], rows)


def _quarantine(run: PipelineRun, quarantined: Sequence[QuarantinedRow]) -> Iterator[str]:
    count = sum(each.failed for each in run.expectations if each.action == "quarantine")
    if not count and not quarantined:
        return
    if run.quarantine:
        failed = counted(count, "failed check")
        yield f"<p>{_text(failed)}; all rows are in <code>{_text(run.quarantine)}</code></p>"
    rows = [
        [_cell(each.step), _cell(each.rule), _cell(each.origin or ""), _values(each.row)]
        for each in quarantined[:SHOWN_ROWS]
    ]
    if rows:
        yield from _table(["step", "rule", "origin", "row"], rows)


def _rejects(run: PipelineRun) -> Iterator[str]:
    count = sum(each.rejected for each in run.targets)
    found = list(_rejected_rows(run.rejects))
    if not count and not found:
        return
    if run.rejects:
        listed = counted(count or len(found), "row")
        yield f"<p>{_text(listed)}; all are in <code>{_text(run.rejects)}</code></p>"
    rows = [
        [
            _cell(each.get("type") or ""),
            _cell(each.get("rule") or ""),
            _cell(each.get("message") or ""),
            _values(each.get("row")),
        ]
        for each in found
    ]
    if rows:
        yield from _table(["type", "rule", "message", "row"], rows)


def _rejected_rows(path: str | None) -> Iterator[dict[str, Any]]:
    if path is None or not Path(path).is_file():
        return
    with Path(path).open(encoding="utf-8") as file:
        for line in islice(file, SHOWN_ROWS):
            row = json.loads(line)
            if isinstance(row, dict):
                yield row


def _steps(run: PipelineRun) -> Iterator[str]:
    longest = max((each.seconds for each in run.steps), default=0.0) or 1.0
    rows = [
        [
            _cell(each.name),
            _number(each.rows_in),
            _number(each.rows_out),
            f'<td class="number">{_text(duration(each.seconds))}</td>',
            f'<td class="bar"><i class="time" style="width:{100 * each.seconds / longest:.2f}%">'
            "</i></td>",
        ]
        for each in run.steps
    ]
    if rows:
        yield from _table(["step", "rows in", "rows out", "time", ""], rows)


def _sources(run: PipelineRun) -> Iterator[str]:
    rows = [
        [_cell(each.name), _number(each.files), _number(each.rows), _values(each.position)]
        for each in run.sources
    ]
    if rows:
        yield from _table(["source", "files", "rows", "position"], rows)


def _samples(run: PipelineRun) -> Iterator[str]:
    for name, found in run.samples.items():
        columns = list(dict.fromkeys(key for row in found for key in row))
        yield f"<h3>{_text(name)}</h3>"
        rows = [[_cell(_plain(row.get(column))) for column in columns] for row in found]
        yield from _table(columns, rows)


# --- texts ------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """`0.42 s`, `12.3 s`, `3 min 20 s`, `1 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest} s"


def _text(value: object) -> str:
    return escape(str(value), quote=True)


def _plain(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _cell(value: object) -> str:
    return f"<td>{_text(_plain(value))}</td>"


def _number(value: int | None) -> str:
    shown = "" if value is None else f"{value:,}"
    return f'<td class="number{"" if value else " zero"}">{shown}</td>'


def _values(row: Mapping[str, Any] | None) -> str:
    """A row as `name: value` pairs."""
    if not isinstance(row, Mapping):
        return _cell(row)
    parts = (
        f"<b>{_text(name)}</b> {_text(_plain(value)) or '<em>NULL</em>'}"
        for name, value in row.items()
    )
    return f'<td class="values">{" · ".join(parts)}</td>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr>'
    for place, name in enumerate(columns):
        numeric = any('class="number' in row[place] for row in rows)
        side = ' class="number"' if numeric else ""
        yield f"<th{side}>{_text(name)}</th>"
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(row)}</tr>"
    yield "</tbody></table></div>"
