"""The branch of a run: the target itself, a branch that is merged, or one that waits for review.

Names below `pipeline/<name>/` belong to the pipeline: `run-<id>` is a run under way, `review` waits
for a person, `conflict-<id>` could not be merged. Only one run of a pipeline is under way, because
it holds the lease of the pipeline. So a branch `run-…` that is there at the start of a run was
left by a killed run, and is removed: its rows are read again.

A server has no leases. There the branch has the number of the run, so that runs of the same
increment meet on one branch. The mark of the pipeline lets only one of them write its rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import omnigraph
from omnigraph.errors import AlreadyExists, MergeConflicts, NotFound, OmnigraphError
from omnigraph.spark.pipelines.model import Pipeline, PublishVia
from omnigraph.spark.pipelines.positions import branch_exists, is_served, last_run
from omnigraph.values.identifiers import MAIN


def branch_prefix(name: str) -> str:
    return f"pipeline/{name}/"


def review_branch(name: str) -> str:
    return f"{branch_prefix(name)}review"


def _is_behind(number: str, merged: int) -> bool:
    """The branch of this number belongs to a run that is merged already."""
    return number.isdigit() and int(number) <= merged


@dataclass
class RunBranch:
    """Where a run writes, and how that reaches the branch of the pipeline."""

    graph: omnigraph.Graph
    pipeline: Pipeline
    run_id: str
    base: str = MAIN
    """The branch whose positions and rows the run starts from."""
    own: str | None = None
    """The branch that was made for this run."""
    kept: str | None = None
    """The branch that stays: for review, or because of conflicts."""
    number: int = 0
    """The number of the run; `choose_base` finds it."""

    @property
    def written(self) -> str:
        """The branch that the run writes to."""
        return self.own or self.base

    def choose_base(self) -> None:
        """Remove what killed runs left, and find the branch to start from."""
        terms, graph, name = self.pipeline.publish, self.graph, self.pipeline.name
        if terms.branch != MAIN and not branch_exists(graph, terms.branch):
            graph.branches.create(terms.branch)
        self.base = terms.branch
        merged = last_run(graph, terms.branch, name).number
        self.number = merged + 1
        left = f"{branch_prefix(name)}run-"
        for branch in [b.name for b in graph.branches.list() if b.name.startswith(left)]:
            if not is_served(graph) or _is_behind(branch.removeprefix(left), merged):
                graph.branches.delete(branch)
        waiting = review_branch(name)
        if not terms.review or not branch_exists(graph, waiting):
            return
        if merged >= last_run(graph, waiting, name).number:
            graph.branches.delete(waiting)  # it was merged, or never had a run
        else:
            self.base = waiting

    def begin(self, *, apart: bool) -> None:
        """Make the branch of the run; with `apart` a straight commit has one, too."""
        terms = self.pipeline.publish
        if terms.review:
            self.own = review_branch(self.pipeline.name)
            if self.base != self.own:
                self.graph.branches.create(self.own, self.base)
        elif terms.via is PublishVia.MERGE or apart:
            if not is_served(self.graph):
                self.own = f"{branch_prefix(self.pipeline.name)}run-{self.run_id}"
                self.graph.branches.create(self.own, self.base)
                return
            self.own = f"{branch_prefix(self.pipeline.name)}run-{self.number}"
            with suppress(AlreadyExists):  # of another run of the same increment
                self.graph.branches.create(self.own, self.base)

    def publish(self, commit: str) -> str:
        """Merge what the run committed; the commit on the branch of the pipeline.

        A review leaves the branch, and the commit is the one on it.
        """
        if self.own is None:
            return commit
        if self.pipeline.publish.review:
            self.kept = self.own
            return commit
        message = self.pipeline.publish.message or f"pipeline {self.pipeline.name}"
        try:
            merged = self.graph.merge(self.own, self.base, message=message, delete_branch=True)
        except MergeConflicts:
            self.kept = f"{branch_prefix(self.pipeline.name)}conflict-{self.run_id}"
            self.graph.branches.rename(self.own, self.kept)
            raise
        except NotFound:
            # Another run of the same increment has merged the branch.
            done = last_run(self.graph, self.base, self.pipeline.name)
            if done.mark is None or done.number < self.number:
                raise
            return done.mark.commit_id
        made = getattr(merged, "commit", None)
        return commit if made is None else str(made.graph_commit_id)

    def abandon(self) -> None:
        """Remove the branch of a run that failed or changed nothing."""
        if self.own is None or self.kept is not None:
            return
        if self.pipeline.publish.review and self.base == self.own:
            return  # it has earlier runs
        try:
            self.graph.branches.delete(self.own)
        except OmnigraphError:
            return  # the next run removes it
