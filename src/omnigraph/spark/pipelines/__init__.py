"""Pipelines that are declared in a file and run on Spark.

Example:
    >>> from omnigraph.spark import pipelines
    >>> pipelines.load("packages.yaml").run().status
"""

from omnigraph.spark.pipelines.found_tables import InferredPipeline
from omnigraph.spark.pipelines.inferred_files import infer
from omnigraph.spark.pipelines.loaded import LoadedPipeline, list_pipelines, load
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
from omnigraph.spark.pipelines.results import (
    ExpectationResult,
    ListedPipeline,
    PipelinePlan,
    PipelineRun,
    PipelineStatus,
    PlannedSource,
    PlannedStage,
    PlannedTarget,
    QuarantinedRow,
    RunStatus,
    SourceResult,
    StepResult,
    TargetResult,
)

__all__ = [
    "CompareBy",
    "ComparedColumn",
    "Expectation",
    "ExpectationResult",
    "FilePlace",
    "Incremental",
    "InferredPipeline",
    "ListedPipeline",
    "LoadedPipeline",
    "OnFail",
    "Pipeline",
    "PipelinePlan",
    "PipelineRun",
    "PipelineSource",
    "PipelineStatus",
    "PipelineStep",
    "PipelineTarget",
    "PlannedSource",
    "PlannedStage",
    "PlannedTarget",
    "PublishTerms",
    "PublishVia",
    "QuarantinedRow",
    "ResolveOptions",
    "ResolveOutput",
    "RunStatus",
    "SourceResult",
    "SparkTerms",
    "StepResult",
    "TargetMode",
    "TargetResult",
    "infer",
    "list_pipelines",
    "load",
]
