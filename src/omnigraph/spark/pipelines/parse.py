"""Pipeline files -> `Pipeline`: strict YAML or JSON, every mistake with its line and column.

`${NAME}` and `${NAME:-default}` in texts are replaced by variables of the caller, else of the
environment. `$${` is a literal `${`. Relative paths are relative to the folder of the file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, cast

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import YAMLError

from omnigraph.errors import InvalidName, NotFound, PipelineInvalid
from omnigraph.spark.pipelines.model import (
    CompareBy,
    ComparedColumn,
    Expectation,
    FilePlace,
    Incremental,
    OnFail,
    Pipeline,
    PipelineSource,
    PipelineStep,
    PipelineTarget,
    PublishTerms,
    PublishVia,
    ResolveOptions,
    ResolveOutput,
    SparkTerms,
    TargetMode,
)
from omnigraph.values.external_blobs import base_problem, shown_uri
from omnigraph.values.identifiers import MAIN, check_ref_name
from omnigraph.values.known_names import did_you_mean

FILE_FORMATS = ("parquet", "csv", "json", "ndjson", "text", "orc")
_ENDINGS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".txt": "text",
    ".orc": "orc",
}
_NAME = re.compile(r"[a-z0-9-]{1,64}")
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")
_LONGEST_SHOWN = 60

_Enum = TypeVar("_Enum", bound=StrEnum)


def parse_pipeline(path: str | os.PathLike[str], variables: Mapping[str, str]) -> Pipeline:
    """The pipeline of a file; raises `PipelineInvalid` with all mistakes of the file."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"no pipeline file at {file}", file=str(file)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineInvalid(
            f"{file}: cannot be read: {error}", problems=[], file=str(file)
        ) from None
    return parse_text(text, file, variables)


def parse_text(text: str, file: Path, variables: Mapping[str, str]) -> Pipeline:
    """As `parse_pipeline`, from the text of the file."""
    reading = _Reading(file, {**os.environ, **variables})
    body = _yaml(text, reading)
    pipeline = _pipeline(_Node(reading, body, FilePlace(str(file), 1, 1)), file)
    reading.raise_if_any()
    assert pipeline is not None
    return pipeline


@dataclass
class _Reading:
    """The file that is read, and the mistakes that were found in it so far."""

    file: Path
    variables: Mapping[str, str]
    problems: list[dict[str, Any]] = field(default_factory=list)

    def add(self, place: FilePlace, problem: str) -> None:
        found = {"problem": problem, "line": place.line, "column": place.column}
        if found not in self.problems:
            self.problems.append(found)

    def raise_if_any(self) -> None:
        if not self.problems:
            return
        self.problems.sort(key=lambda each: (each["line"], each["column"]))
        first = self.problems[0]
        lines = [f"{self.file}:{p['line']}:{p['column']}: {p['problem']}" for p in self.problems]
        raise PipelineInvalid(
            "\n".join(lines),
            problems=self.problems,
            file=str(self.file),
            line=first["line"],
            column=first["column"],
        )


def _yaml(text: str, reading: _Reading) -> Any:
    try:
        # Round trip, because only that reader keeps the places of keys. Tabs are legal in JSON.
        return YAML(typ="rt", pure=True).load(text.replace("\t", " "))
    except DuplicateKeyError as error:
        mark = error.problem_mark
        key = re.search(r'duplicate key "(.*?)"', str(error.problem or ""))
        problem = f"the key `{key[1]}` is there twice" if key else "a key is there twice"
    except (YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "this is neither YAML nor JSON"
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    reading.add(FilePlace(str(reading.file), line, column), problem)
    reading.raise_if_any()
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class _Node:
    """One value of the file and its place. Readers report mistakes and return a usable value."""

    reading: _Reading
    value: Any
    place: FilePlace
    name: str = ""

    def wrong(self, problem: str) -> None:
        self.reading.add(self.place, f"`{self.name}` {problem}" if self.name else problem)

    def mapping(self, known: Iterable[str] | None, required: Iterable[str] = ()) -> _Mapping:
        """The value as a mapping that has only `known` keys; None allows any text."""
        value = self.value
        if not isinstance(value, dict):
            self.wrong(f"must hold `key: value` pairs, got {_shown(value)}")
            return _Mapping(self, {})
        names = None if known is None else list(known)
        items = {}
        for key, item in value.items():
            place = self._place_of_key(key)
            if not isinstance(key, str):
                self.reading.add(place, f"a key must be a text, got {_shown(key)}")
            elif names is not None and key not in names:
                self.reading.add(place, f"unknown key `{key}`; {did_you_mean(key, names)}")
            else:
                items[key] = _Node(self.reading, item, self._place_of_value(key), key)
        for key in required:
            if key not in value:
                self.wrong(f"needs the key `{key}`")
        return _Mapping(self, items)

    def _place_of_key(self, key: Any) -> FilePlace:
        line, column = self.value.lc.key(key)
        return FilePlace(self.place.file, line + 1, column + 1)

    def _place_of_value(self, key: Any) -> FilePlace:
        line, column = self.value.lc.value(key)
        return FilePlace(self.place.file, line + 1, column + 1)

    def items(self) -> list[_Node]:
        if not isinstance(self.value, list):
            self.wrong(f"must be a list, got {_shown(self.value)}")
            return []
        found = []
        for number, item in enumerate(self.value):
            line, column = cast("Any", self.value).lc.item(number)
            place = FilePlace(self.place.file, line + 1, column + 1)
            found.append(_Node(self.reading, item, place, f"{self.name}[{number}]"))
        return found

    def text(self) -> str:
        """A text with its variables replaced; not empty."""
        if not isinstance(self.value, str):
            self.wrong(f"must be a text, got {_shown(self.value)}")
            return ""
        found = _VARIABLE.sub(self._variable, str(self.value))
        if not found.strip():
            self.wrong("is empty")
        return found

    def _variable(self, match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name, default = match[1], match[2]
        if name is None:
            self.wrong("has `${` that is not `${NAME}` or `${NAME:-default}`; write `$${` for it")
            return ""
        value = self.reading.variables.get(name) or default
        if value is None:
            self.wrong(f"needs the variable {name}: set it, or write ${{{name}:-default}}")
            return ""
        return value

    def texts(self) -> tuple[str, ...]:
        """A text, or a list of texts."""
        if isinstance(self.value, list):
            return tuple(item.text() for item in self.items())
        return (self.text(),)

    def option_text(self) -> str:
        """A value for an option of Spark: numbers and booleans become text."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, int | float):
            return str(self.value)
        if isinstance(self.value, str):
            return _VARIABLE.sub(self._variable, str(self.value))
        self.wrong(f"must be a text, a number or a boolean, got {_shown(self.value)}")
        return ""

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self.wrong(f"must be true or false, got {_shown(self.value)}")
            return False
        return bool(self.value)

    def number(self, low: float, high: float) -> float:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(f"must be a number, got {_shown(value)}")
            return low
        if not math.isfinite(value) or not low <= value <= high:
            self.wrong(f"must be from {low:g} to {high:g}, got {value}")
        return float(value)

    def whole(self, least: int) -> int:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(f"must be a whole number, got {_shown(value)}")
            return least
        if value < least:
            self.wrong(f"must be at least {least}, got {value}")
        return int(value)

    def choice(self, kind: type[_Enum]) -> _Enum:
        known = [member.value for member in kind]
        text = self.value if isinstance(self.value, str) else None
        if text in known:
            return kind(text)
        hint = did_you_mean(str(self.value), known)
        self.wrong(f"must be one of {', '.join(known)}, got {_shown(self.value)}; {hint}")
        return kind(known[0])


@dataclass(frozen=True, slots=True)
class _Mapping:
    """The known keys of a mapping."""

    node: _Node
    items: Mapping[str, _Node]

    def get(self, key: str) -> _Node | None:
        return self.items.get(key)

    def text(self, key: str) -> str | None:
        found = self.items.get(key)
        return None if found is None else found.text()

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.items.get(key)
        return () if found is None else found.texts()

    def options(self, key: str) -> dict[str, str]:
        found = self.items.get(key)
        if found is None:
            return {}
        return {name: each.option_text() for name, each in found.mapping(None).items.items()}

    def expressions(self, key: str) -> dict[str, str] | None:
        found = self.items.get(key)
        if found is None:
            return None
        return {name: each.text() for name, each in found.mapping(None).items.items()}

    def exactly_one(self, *keys: str) -> bool:
        given = [key for key in keys if key in self.items]
        if len(given) == 1:
            return True
        listed = ", ".join(f"`{key}`" for key in keys)
        told = "none" if not given else " and ".join(f"`{key}`" for key in given)
        self.node.wrong(f"needs exactly one of {listed}, and has {told}")
        return False


_PIPELINE = (
    "version",
    "name",
    "graph",
    "schema",
    "evolve",
    "external_blobs",
    "sources",
    "steps",
    "targets",
    "publish",
    "quarantine",
    "spark",
)


def _pipeline(root: _Node, file: Path) -> Pipeline | None:
    body = root.mapping(_PIPELINE, ("version", "name", "graph", "sources", "targets"))
    version = body.get("version")
    if version is not None and version.value != 1:
        version.wrong(f"must be 1, got {_shown(version.value)}")
    name = body.text("name") or ""
    if name and not _NAME.fullmatch(name):
        body.items["name"].wrong("has only a-z, 0-9 and `-`, and at most 64 of them")
    folder = file.absolute().parent
    sources = _named(body, "sources", lambda n, node: _source(n, node, folder))
    steps = _named(body, "steps", _step)
    for step in steps.keys() & sources.keys():
        body.items["steps"].wrong(f"{step}: a source has this name already")
    _refuse_names_by_case(body, [*sources, *steps])
    targets = (
        [_target(node) for node in body.items["targets"].items()] if "targets" in body.items else []
    )
    if "targets" in body.items and not targets:
        body.items["targets"].wrong("is empty: a run would write nothing")
    schema, evolve, quarantine = body.text("schema"), body.get("evolve"), body.text("quarantine")
    graph = body.text("graph")
    return Pipeline(
        name=name,
        graph=_path(folder, graph) if graph else "",
        sources=sources,
        steps=steps,
        targets=tuple(targets),
        publish=_publish(body.get("publish")),
        schema=_path(folder, schema) if schema else None,
        evolve=evolve.boolean() if evolve is not None else False,
        quarantine=_path(folder, quarantine) if quarantine else None,
        external_blobs=_external_blobs(body),
        spark=_spark(body.get("spark")),
        file=str(file.absolute()),
        folder=str(folder),
    )


def _external_blobs(body: _Mapping) -> tuple[str, ...]:
    bases = body.texts("external_blobs")
    for base in bases:
        problem = base_problem(base)
        if problem is not None:
            body.items["external_blobs"].wrong(f"{shown_uri(base)}: {problem}")
    return bases


def _refuse_names_by_case(body: _Mapping, names: list[str]) -> None:
    """Spark does not distinguish names of views by case."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            body.node.wrong(f"{other!r} and {name!r} differ only in case; Spark takes them for one")


def _named(body: _Mapping, key: str, make: Any) -> dict[str, Any]:
    """The entries of `sources` or `steps` by name."""
    found = body.get(key)
    if found is None:
        return {}
    entries = found.mapping(None).items
    for name, node in entries.items():
        if not _VIEW.fullmatch(name):
            node.reading.add(node.place, f"`{name}` must be a name of letters, digits and `_`")
    return {name: make(name, node) for name, node in entries.items()}


_SOURCE = tuple(f.name for f in fields(PipelineSource) if f.name not in ("name", "place"))


def _source(name: str, node: _Node, folder: Path) -> PipelineSource:
    body = node.mapping(_SOURCE)
    incremental = body.get("incremental")
    each = incremental.choice(Incremental) if incremental is not None else None
    branch = body.text("branch")
    found = PipelineSource(
        name=name,
        files=tuple(_path(folder, text) for text in body.texts("files")),
        format=body.text("format"),
        options=body.options("options"),
        schema=body.text("schema"),
        graph=body.text("graph"),
        type=body.text("type"),
        branch=branch or MAIN,
        commit=body.text("commit"),
        tag=body.text("tag"),
        incremental=each,
        place=node.place,
    )
    if found.graph is not None:
        return _graph_source(body, found, folder)
    for key in ("type", "branch", "commit", "tag"):
        if key in body.items:
            body.items[key].wrong("is for a source with `graph`")
    if found.files:
        return _file_source(body, found)
    if found.format is None:
        node.wrong("needs `files`, `graph` or `format`")
    if each in (Incremental.FILES, Incremental.COMMITS):
        assert incremental is not None
        incremental.wrong("of a Spark format is `stream`, or left out")
    return found


def _graph_source(body: _Mapping, found: PipelineSource, folder: Path) -> PipelineSource:
    for key in ("files", "format", "options", "schema"):
        if key in body.items:
            body.items[key].wrong("is not for a source with `graph`")
    if found.type is None:
        body.node.wrong("needs `type`, a node or edge type of the graph")
    states = [key for key in ("branch", "commit", "tag") if key in body.items]
    if len(states) > 1:
        body.node.wrong(f"names several states: {', '.join(states)}")
    if found.incremental is not None:
        if found.incremental is not Incremental.COMMITS:
            body.items["incremental"].wrong("of a graph is `commits`, or left out")
        if found.commit is not None or found.tag is not None:
            body.items["incremental"].wrong("follows a branch, not a commit or a tag")
    assert found.graph is not None
    return _replaced(found, graph=_path(folder, found.graph))


def _file_source(body: _Mapping, found: PipelineSource) -> PipelineSource:
    kind = found.format or _ENDINGS.get(_ending(found.files[0]))
    if kind is None:
        body.node.wrong(f"needs `format`: one of {', '.join(FILE_FORMATS)}")
    elif kind not in FILE_FORMATS:
        hint = did_you_mean(kind, FILE_FORMATS)
        body.items["format"].wrong(f"of files is one of {', '.join(FILE_FORMATS)}; {hint}")
    if found.incremental in (Incremental.COMMITS, Incremental.STREAM):
        body.items["incremental"].wrong("of files is `files`, or left out")
    return _replaced(found, format=kind)


def _ending(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    for packed in (".gz", ".zst", ".bz2"):
        name = name.removesuffix(packed)
    return Path(name).suffix.lower()


def _replaced(source: PipelineSource, **changes: Any) -> PipelineSource:
    values = {f.name: getattr(source, f.name) for f in fields(source)}
    return PipelineSource(**{**values, **changes})


def _step(name: str, node: _Node) -> PipelineStep:
    body = node.mapping(("sql", "python", "resolve", "inputs", "expect"))
    body.exactly_one("sql", "python", "resolve")
    python = body.text("python")
    if python and not re.fullmatch(r"[\w.]+:\w+", python):
        body.items["python"].wrong(f"is `module:function`, got {python!r}")
    if "inputs" in body.items and python is None:
        body.items["inputs"].wrong("is for `python`: SQL and `resolve` name what they read")
    expect = body.get("expect")
    resolve = body.get("resolve")
    return PipelineStep(
        name=name,
        sql=body.text("sql"),
        python=python,
        resolve=_resolve(resolve) if resolve is not None else None,
        inputs=body.texts("inputs"),
        expect=tuple(_expectation(each) for each in expect.items()) if expect is not None else (),
        place=node.place,
    )


def _expectation(node: _Node) -> Expectation:
    body = node.mapping(("check", "on_fail", "tolerate"), ("check",))
    action, tolerate = body.get("on_fail"), body.get("tolerate")
    on_fail = action.choice(OnFail) if action is not None else OnFail.FAIL
    if tolerate is not None and on_fail is not OnFail.FAIL:
        tolerate.wrong("is for `on_fail: fail`, which it makes tolerant")
    return Expectation(
        check=body.text("check") or "",
        on_fail=on_fail,
        tolerate=tolerate.number(0, 1) if tolerate is not None else 0.0,
        place=node.place,
    )


_RESOLVE = tuple(f.name for f in fields(ResolveOptions) if f.name != "place")


def _resolve(node: _Node) -> ResolveOptions:
    body = node.mapping(_RESOLVE, ("input", "block", "compare", "threshold", "id"))
    threshold, compare = body.get("threshold"), body.get("compare")
    known: dict[str, Any] = {
        "input": body.text("input") or "",
        "block": body.texts("block"),
        "compare": tuple(_compared(each) for each in compare.items()) if compare else (),
        "threshold": threshold.number(0, 1) if threshold is not None else 1.0,
        "id": body.text("id") or "",
    }
    if "compare" in body.items and not known["compare"]:
        body.items["compare"].wrong("is empty")
    for key, each in body.items.items():
        if key == "output":
            known[key] = each.choice(ResolveOutput)
        elif key not in known:
            known[key] = each.whole(1) if isinstance(each.value, int) else each.text()
    return ResolveOptions(**known, place=node.place)


def _compared(node: _Node) -> ComparedColumn:
    body = node.mapping(("column", "by", "weight"), ("column", "by", "weight"))
    by, weight = body.get("by"), body.get("weight")
    return ComparedColumn(
        column=body.text("column") or "",
        by=by.choice(CompareBy) if by is not None else next(iter(CompareBy)),
        weight=weight.number(0, 1e9) if weight is not None else 0.0,
    )


def _target(node: _Node) -> PipelineTarget:
    body = node.mapping(("type", "from", "mode", "map", "ends", "scope"), ("type", "from"))
    mode, ends = body.get("mode"), body.get("ends")
    chosen = mode.choice(TargetMode) if mode is not None else TargetMode.MERGE
    given = None
    if ends is not None:
        pair = ends.mapping(("from", "to"), ("from", "to"))
        given = {key: each.text() for key, each in pair.items.items()}
    scope = body.text("scope")
    if scope is not None and chosen is not TargetMode.MIRROR:
        body.items["scope"].wrong("is for `mode: mirror`")
    return PipelineTarget(
        type=body.text("type") or "",
        origin=body.text("from") or "",
        mode=chosen,
        columns=body.expressions("map"),
        ends=given,
        scope=scope,
        place=node.place,
    )


def _publish(node: _Node | None) -> PublishTerms:
    if node is None:
        return PublishTerms()
    body = node.mapping([f.name for f in fields(PublishTerms)])
    via, review = body.get("via"), body.get("review")
    on_error, most = body.text("on_error"), body.get("max_errors")
    branch = body.text("branch") or MAIN
    try:
        check_ref_name(branch)
    except InvalidName as error:
        body.items["branch"].wrong(f"is no name of a branch: {error.message}")
    if on_error not in (None, "fail", "skip"):
        body.items["on_error"].wrong(f"is fail or skip, got {on_error!r}")
    if most is not None and on_error != "skip":
        most.wrong("is for `on_error: skip`")
    reviewed = review.boolean() if review is not None else False
    chosen = via.choice(PublishVia) if via is not None else None
    if reviewed and chosen is PublishVia.COMMIT:
        body.items["review"].wrong("needs `via: merge`, because a review has a branch of its own")
    return PublishTerms(
        branch=branch,
        via=chosen or (PublishVia.MERGE if reviewed else PublishVia.COMMIT),
        review=reviewed,
        message=body.text("message"),
        actor=body.text("actor"),
        on_error=on_error or "fail",
        max_errors=most.whole(0) if most is not None else None,
    )


def _spark(node: _Node | None) -> SparkTerms:
    if node is None:
        return SparkTerms()
    body = node.mapping(("master", "conf", "packages"))
    return SparkTerms(
        master=body.text("master"), conf=body.options("conf"), packages=body.texts("packages")
    )


def _path(folder: Path, text: str) -> str:
    """An absolute path; addresses stay as they are."""
    if "://" in text:
        return text
    path = os.path.expanduser(text)  # noqa: PTH111 - it does not raise
    return os.path.normpath(folder / path)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = "a mapping" if isinstance(value, dict) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
