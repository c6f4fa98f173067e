"""The DataFrame of a step: Spark SQL, a Python function, or entity resolution."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from omnigraph.errors import OmnigraphError, PipelineFailed, PipelineInvalid
from omnigraph.spark.pipelines.model import Pipeline, PipelineStep
from omnigraph.spark.pipelines.resolve import resolve_frame
from omnigraph.values.known_names import did_you_mean

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""

_COLUMN = re.compile(r"name `([^`]+)` cannot be resolved")
_PART_OF_QUERY = re.compile(r"== SQL[^\n]*==\n(.*?)\n[ ]*\^", re.DOTALL)
_FILE = re.compile(r"(?:file:(?://)?|s3://)[^\s\"'\]),]+")


class StepMaker:
    """Makes the frames of the steps of one run. SQL sees views of its session only."""

    def __init__(self, spark: Any, pipeline: Pipeline, warn: Callable[[str], object]) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._warn = warn

    def frame(self, step: PipelineStep, inputs: Mapping[str, Frame]) -> Frame:
        """Raises `PipelineFailed` with the step if Spark or the function refuses."""
        try:
            return self._frame(step, inputs)
        except PipelineFailed:
            raise
        except Exception as error:
            raise step_failed(self._pipeline, step.name, error) from error

    def _frame(self, step: PipelineStep, inputs: Mapping[str, Frame]) -> Frame:
        if step.sql is not None:
            for name, frame in inputs.items():
                frame.createOrReplaceTempView(name)
            return self._spark.sql(step.sql)
        if step.resolve is not None:
            return resolve_frame(self._spark, inputs[step.resolve.input], step.resolve, self._warn)
        function = find_function(self._pipeline, step)
        made = function(self._spark, dict(inputs))
        if type(made).__name__ != "DataFrame" or not hasattr(made, "sparkSession"):
            raise PipelineFailed(
                f"step {step.name}: {step.python} returned {type(made).__name__}, not a DataFrame",
                pipeline=self._pipeline.name,
                step=step.name,
            )
        return made


def find_function(pipeline: Pipeline, step: PipelineStep) -> Callable[..., Frame]:
    """The function of a `python` step."""
    assert step.python is not None
    module_name, _, name = step.python.partition(":")
    try:
        module = _module(Path(pipeline.folder), module_name)
    except Exception as error:
        raise PipelineInvalid(
            f"step {step.name}: {module_name} cannot be imported: {type(error).__name__}: {error}",
            problems=[{"problem": f"{module_name} cannot be imported: {error}"}],
            pipeline=pipeline.name,
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        names = [each for each, value in vars(module).items() if callable(value)]
        problem = f"{module_name} has no function {name!r}; {did_you_mean(name, names)}"
        raise PipelineInvalid(
            f"step {step.name}: {problem}",
            problems=[{"problem": problem}],
            pipeline=pipeline.name,
        )
    function: Callable[..., Frame] = found
    return function


def _module(folder: Path, name: str) -> ModuleType:
    """A module of the folder of the file, else one that is installed.

    Modules of two folders may have one name. Functions of the folder are sent to executors with
    their code, because executors do not have the folder.
    """
    path = _module_file(folder, name)
    if not path.is_file():
        return importlib.import_module(name)
    data = path.read_bytes()
    mark = blake2b(str(path).encode() + data, digest_size=6).hexdigest()
    own_name = f"_omnigraph_step_{mark}_{name.replace('.', '_')}"
    known = sys.modules.get(own_name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(own_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[own_name] = module
    try:
        with _searched(folder):
            before = set(sys.modules)
            spec.loader.exec_module(module)
            beside = [m for n, m in sys.modules.items() if n not in before and _is_in(folder, m)]
    except BaseException:
        del sys.modules[own_name]
        raise
    pickle = importlib.import_module("pyspark.cloudpickle")
    for each in (module, *beside):
        pickle.register_pickle_by_value(each)
    return module


def _module_file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('.', '/')}.py"


@contextmanager
def _searched(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _is_in(folder: Path, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


def step_failed(pipeline: Pipeline, step: str, error: Exception) -> PipelineFailed:
    """The error of a step, with the column and the file that Spark names."""
    text = _whole_text(error)
    column, file = _COLUMN.search(text), _FILE.search(text)
    return PipelineFailed(
        f"step {step}: {reason_of(error).removeprefix(f'step {step}: ')}",
        pipeline=pipeline.name,
        step=step,
        **({"column": column[1]} if column else {}),
        **({"file": file[0]} if file else {}),
        cause=cause_of(error),
    )


def job_failed(pipeline: Pipeline, error: Exception) -> PipelineFailed:
    """The error of a job that computed several steps, with the step that Spark's text shows."""
    text = _whole_text(error)
    step = _step_in(pipeline, text)
    file = _FILE.search(text)
    source = _source_of(pipeline, file[0]) if file else None
    where = f"step {step}: " if step else f"source {source}: " if source else ""
    return PipelineFailed(
        f"{where}{reason_of(error)}",
        pipeline=pipeline.name,
        **({"step": step} if step else {}),
        **({"source": source} if source else {}),
        **({"file": file[0]} if file else {}),
        cause=cause_of(error),
    )


def cause_of(error: Exception) -> dict[str, Any]:
    """The error below as `--json` shows it."""
    if isinstance(error, OmnigraphError):
        return error.to_dict()
    return {"error": reason_of(error), "code": type(error).__name__}


def reason_of(error: Exception) -> str:
    """The first line of a message, which says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0].removesuffix(" SQLSTATE:")


def _whole_text(error: BaseException) -> str:
    texts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(texts) < 8:
        texts.append(str(current))
        current = current.__cause__
    return "\n".join(texts)


def _step_in(pipeline: Pipeline, text: str) -> str | None:
    """Spark shows the part of a query in which a value failed, or where Python raised."""
    parts = (part.removeprefix("...").removesuffix("...") for part in _PART_OF_QUERY.findall(text))
    shown = [" ".join(part.split()) for part in parts]
    for name, step in pipeline.steps.items():
        sql = " ".join((step.sql or "").split())
        if any(part in sql for part in shown):
            return name
        if step.python is not None and f"in {step.python.partition(':')[2]}" in text:
            return name
    shown_files = [
        name
        for name, step in pipeline.steps.items()
        if step.python is not None
        and f'File "{_module_file(Path(pipeline.folder), step.python.partition(":")[0])}"' in text
    ]
    return shown_files[0] if len(shown_files) == 1 else None


def _source_of(pipeline: Pipeline, file: str) -> str | None:
    path = file.removeprefix("file://").removeprefix("file:")
    for name, source in pipeline.sources.items():
        for pattern in source.files:
            fixed = re.split(r"[*?\[]", pattern)[0]
            if path.startswith(fixed):
                return name
    return None
