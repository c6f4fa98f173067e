"""Which step reads what, and the order of the steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.errors import PipelineInvalid
from omnigraph.spark.pipelines.model import FilePlace, Pipeline, PipelineStep
from omnigraph.values.known_names import did_you_mean

_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)+`|[A-Za-z_]\w*|\S",
    re.DOTALL,
)
_ENDS_TABLES = frozenset(
    (
        "where",
        "group",
        "order",
        "having",
        "limit",
        "select",
        "union",
        "except",
        "intersect",
        "window",
        "qualify",
        "on",
        "using",
        "cluster",
        "distribute",
        "sort",
        "offset",
        "set",
        "values",
    )
)
_BEFORE_A_TABLE = frozenset({"lateral", "only"})


@dataclass(frozen=True, slots=True)
class Flow:
    """The steps of a pipeline that its targets need."""

    order: tuple[str, ...]
    """Every step after the steps that it reads."""
    inputs: Mapping[str, tuple[str, ...]]
    """Step -> the sources and steps that it reads."""
    uses: Mapping[str, int]
    """Source or step -> how many needed steps and targets read it."""
    needed_sources: tuple[str, ...]

    def upstream(self, name: str) -> frozenset[str]:
        """The sources and steps that a source or step is made of, with itself."""
        found = {name}
        for each in self.inputs.get(name, ()):
            found |= self.upstream(each)
        return frozenset(found)


def flow_of(pipeline: Pipeline) -> Flow:
    """The flow; raises `PipelineInvalid` for unknown names and for a cycle, which it prints."""
    known = [*pipeline.sources, *pipeline.steps]
    problems = Problems(pipeline)
    inputs = {name: step_inputs(step, known) for name, step in pipeline.steps.items()}
    for name, step in pipeline.steps.items():
        for each in _named_inputs(step):
            if each not in known:
                hint = did_you_mean(each, known)
                problems.add(
                    f"step {name}: there is no source or step {each!r}; {hint}", step.place
                )
    for target in pipeline.targets:
        if target.origin not in known:
            hint = did_you_mean(target.origin, known)
            problems.add(
                f"target {target.type}: there is no source or step {target.origin!r}; {hint}",
                target.place,
            )
    problems.raise_if_any()
    order = _ordered(pipeline, inputs)
    needed: set[str] = set()
    waiting = [target.origin for target in pipeline.targets]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += inputs.get(name, ())
    uses = Counter(each for name in inputs if name in needed for each in inputs[name])
    uses.update(target.origin for target in pipeline.targets)
    return Flow(
        tuple(name for name in order if name in needed),
        {name: each for name, each in inputs.items() if name in needed},
        uses,
        tuple(name for name in pipeline.sources if name in needed),
    )


class Problems:
    """Mistakes of a pipeline, with their places in its file if it has one."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.found: list[dict[str, object]] = []

    def add(self, problem: str, place: FilePlace | None = None) -> None:
        where = {} if place is None else {"line": place.line, "column": place.column}
        self.found.append({"problem": problem, **where})

    def raise_if_any(self) -> None:
        if not self.found:
            return
        file = self._pipeline.file
        first = self.found[0]
        lines = []
        for each in self.found:
            where = f"{file}:{each['line']}:{each['column']}: " if file and "line" in each else ""
            lines.append(f"{where}{each['problem']}")
        raise PipelineInvalid(
            "\n".join(lines),
            problems=self.found,
            pipeline=self._pipeline.name,
            **({"file": file} if file else {}),
            **{key: first[key] for key in ("line", "column") if key in first},
        )


def _named_inputs(step: PipelineStep) -> tuple[str, ...]:
    """Inputs that must exist. SQL may also read tables of a catalog."""
    return (step.resolve.input,) if step.resolve is not None else step.inputs


def step_inputs(step: PipelineStep, known: Iterable[str]) -> tuple[str, ...]:
    """What a step reads."""
    if step.sql is None:
        return tuple(dict.fromkeys(_named_inputs(step)))
    names = {name.lower(): name for name in known}
    read = (names.get(table.lower()) for table in tables_in(step.sql))
    return tuple(dict.fromkeys(name for name in read if name is not None))


def tables_in(sql: str) -> list[str]:
    """The names after FROM and JOIN, and those that follow them after a comma."""
    found: list[str] = []
    depths: list[bool] = [False]  # for each open parenthesis: in a list of tables
    wanted = False
    for token in _TOKEN.findall(sql):
        word = token.lower()
        if token.startswith(("--", "/*", "'", '"')):
            continue
        if token == "(":
            depths.append(wanted)
        elif token == ")":
            depths.pop()
            depths = depths or [False]
            wanted = False
        elif word in ("from", "join"):
            depths[-1] = wanted = True
        elif token == ",":
            wanted = depths[-1]
        elif word in _ENDS_TABLES:
            depths[-1] = wanted = False
        elif wanted and word not in _BEFORE_A_TABLE and re.match(r"[A-Za-z_`]", token):
            found.append(token.strip("`"))
            wanted = False
    return found


def _ordered(pipeline: Pipeline, inputs: Mapping[str, tuple[str, ...]]) -> list[str]:
    done: list[str] = []
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done or name not in inputs:
            return
        if name in path:
            cycle = " -> ".join([*path[path.index(name) :], name])
            problems = Problems(pipeline)
            problems.add(f"the steps form a cycle: {cycle}", pipeline.steps[name].place)
            problems.raise_if_any()
        path.append(name)
        for each in inputs[name]:
            visit(each)
        path.pop()
        done.append(name)

    for name in inputs:
        visit(name)
    return done
