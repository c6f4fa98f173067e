"""Named crash points: a no-op unless a test or `OMNIGRAPH_FAILPOINTS` arms one.

`OMNIGRAPH_FAILPOINTS="commit.after_arm=kill,commit.after_advance=sleep:2@3"`: the action happens on
the n-th hit (`@n`, default the first) and on no other. `arm` refuses a name that is not listed in
`ALL_POINTS`, and a test checks that the product visits every listed name. So a typo cannot make a
crash test pass silently.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass

COMMIT_POINTS = (
    "commit.after_fork_branch",
    "commit.after_fork_publish",
    "commit.after_stage",
    "commit.before_arm",
    "commit.after_arm",
    "commit.after_revalidate",
    "commit.after_advance_first",
    "commit.after_advance",
    "commit.before_publish",
    "commit.after_publish",
    "commit.after_disarm",
)
GROUP_POINTS = (
    "group.after_arm",
    "group.after_stage",
    "group.after_advance_first",
    "group.after_member",
    "group.before_publish",
    "group.after_publish",
    "group.after_disarm",
)
ROLLBACK_POINTS = ("commit.rollback_restored", "commit.rollback_published")
RECOVERY_POINTS = (
    "recovery.after_takeover",
    "recovery.after_cancel",
    "recovery.after_restore_first",
    "recovery.after_restore",
    "recovery.after_publish",
    "recovery.after_audit",
    "recovery.after_disarm",
)
PUBLISH_POINTS = ("publish.after_history", "publish.after_stage", "publish.after_swap")
BRANCH_POINTS = (
    "branch.create_after_physical",
    "branch.create_after_ref",
    "branch.delete_after_mark",
    "branch.before_unref",
    "branch.delete_after_unref",
    "branch.rename_after_mark",
    "branch.rename_after_ref",
)
CLEANUP_POINTS = ("cleanup.after_find", "cleanup.after_removal")
MERGE_POINTS = ("merge.after_rows", "merge.after_history", "merge.before_branch_delete")
INIT_POINTS = ("init.after_tables", "init.after_schema", "init.after_manifest")
CACHE_POINTS = ("cache.before_array",)
LOAD_POINTS = (
    "load.after_prepare",
    "load.after_check",
    "load.after_write_first",
    "load.after_write",
)
SCHEMA_POINTS = (
    "schema_apply.before_validate",
    "schema_apply.before_effects",
    "schema_apply.after_backfill_batch",
    "schema_apply.after_table",
)
SPARK_POINTS = ("spark.task_written",)
PIPELINE_POINTS = ("pipeline.before_commit", "pipeline.after_load", "pipeline.after_publish")
MIGRATION_POINTS = ("migration.after_branch",)
CLUSTER_POINTS = (
    "cluster_apply.before_graph_create",
    "cluster_apply.after_graph_create",
    "cluster_apply.before_schema_apply",
    "cluster_apply.after_schema_apply",
    "cluster_apply.before_graph_delete",
    "cluster_apply.after_graph_delete",
    "cluster_apply.after_payload_phase",
    "cluster_apply.before_state_write",
    "cluster_apply.after_state_write",
)

ALL_POINTS = (
    COMMIT_POINTS
    + GROUP_POINTS
    + ROLLBACK_POINTS
    + RECOVERY_POINTS
    + PUBLISH_POINTS
    + BRANCH_POINTS
    + CLEANUP_POINTS
    + MERGE_POINTS
    + INIT_POINTS
    + CACHE_POINTS
    + LOAD_POINTS
    + SCHEMA_POINTS
    + SPARK_POINTS
    + PIPELINE_POINTS
    + MIGRATION_POINTS
    + CLUSTER_POINTS
)


class FailpointRaised(RuntimeError):
    """Raised by an armed `raise` failpoint; no OmnigraphError, so that no code handles it."""


@dataclass
class _Armed:
    action: str
    on_hit: int
    hits: int = 0


_lock = threading.Lock()
_armed: dict[str, _Armed] = {}


def arm(name: str, action: str, on_hit: int = 1) -> None:
    """Make the `on_hit`-th visit of `name` do `kill`, `raise` or `sleep:<seconds>`."""
    if name not in ALL_POINTS:
        raise ValueError(f"unknown failpoint {name!r}; known: {', '.join(ALL_POINTS)}")
    if action not in ("kill", "raise") and not action.startswith("sleep:"):
        raise ValueError(f"unknown failpoint action {action!r}: kill, raise or sleep:<seconds>")
    _armed[name] = _Armed(action, on_hit)


def disarm_all() -> None:
    _armed.clear()


def hit(name: str) -> None:
    """Visit a crash point. Costs one dict truth test when nothing is armed."""
    if not _armed:
        return
    with _lock:
        armed = _armed.get(name)
        if armed is None:
            return
        armed.hits += 1
        if armed.hits != armed.on_hit:
            return
    if armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif armed.action == "raise":
        raise FailpointRaised(name)
    else:
        time.sleep(float(armed.action.removeprefix("sleep:")))


def arm_from_environment(text: str) -> None:
    """Arm every entry of an `OMNIGRAPH_FAILPOINTS` value."""
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, action = entry.partition("=")
        action, _, count = action.partition("@")
        arm(name, action, int(count or 1))


arm_from_environment(os.environ.get("OMNIGRAPH_FAILPOINTS", ""))
