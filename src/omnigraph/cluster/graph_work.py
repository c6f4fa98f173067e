"""What the control plane does to one graph: preview and apply a schema, create, seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.cluster.changes import Migration
from omnigraph.cluster.declarations import GraphDeclaration
from omnigraph.commit.request import CommitTerms
from omnigraph.errors import IdempotencyConflict, OmnigraphError
from omnigraph.graph.open import create_managed, open_graph
from omnigraph.graph.schema_changes import apply_schema
from omnigraph.schema.changes import Granted
from omnigraph.settings.models import EmbeddingSettings, ExternalBlobSettings, Settings
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import LOCAL

_ALLOW_DATA_LOSS = "allow_data_loss"


def applied_settings(
    settings: Settings,
    profile: Mapping[str, str] | None,
    retention: Mapping[str, float] | None = None,
) -> Settings:
    """The settings of the engine with what a cluster applied to a graph: provider and retention."""
    if retention is not None:
        keep = retention.get("keep")
        maintenance = replace(
            settings.maintenance,
            keep_commits=None if keep is None else int(keep),
            keep_seconds=retention.get("older_than_seconds"),
        )
        settings = replace(settings, maintenance=maintenance)
    if profile is None:
        return settings
    kind = profile["kind"]
    key = profile.get("api_key")
    chosen: dict[str, Any] = {
        "provider": "openai-compatible" if kind == "openai" else kind,
        "model": profile.get("model"),
        "base_url": profile.get("base_url"),
        "api_key_env": None if key is None else key[2:-1],
    }
    known = settings.embedding
    return replace(
        settings,
        embedding=EmbeddingSettings(
            **chosen,
            width=known.width if known.model == chosen["model"] else None,
            batch_size=known.batch_size,
            deadline_seconds=known.deadline_seconds,
            attempts=known.attempts,
            backoff_seconds=known.backoff_seconds,
            parallel_requests=known.parallel_requests,
            requests_per_minute=known.requests_per_minute,
            journal_dir=known.journal_dir,
        ),
    )


def allowed_blobs(policy: Iterable[Mapping[str, str]] | None) -> ExternalBlobSettings:
    """The external blobs that a graph of a cluster allows; none if it declares none."""
    bases: dict[str, list[str]] = {"embedded_only": [], "server_safe": []}
    for each in policy or ():
        bases[each["scope"]].append(each["base"])
    return ExternalBlobSettings(tuple(bases["embedded_only"]), tuple(bases["server_safe"]))


def preview_schema(
    uri: str, source: SourceText, graph: GraphDeclaration, settings: Settings
) -> Migration:
    """The engine's plan for a schema change; nothing is written."""
    try:
        with open_graph(uri, read_only=True, settings=settings) as live:
            plan = live.schema.plan(source, backfill=graph.backfill)
            lossy = not plan.supported and _ALLOW_DATA_LOSS in plan.requires
            if lossy:
                plan = live.schema.plan(source, backfill=graph.backfill, allow_data_loss=True)
    except OmnigraphError as error:
        return Migration(supported=False, error=error.message, unavailable=True)
    return Migration(
        supported=plan.supported,
        steps=tuple(step.to_dict() for step in plan.steps),
        lines=tuple(str(plan).splitlines()),
        lossy=lossy and plan.supported,
        error=None if plan.supported else str(plan),
    )


def change_schema(
    uri: str,
    source: SourceText,
    graph: GraphDeclaration,
    settings: Settings,
    *,
    actor: str | None,
    lossy: bool,
) -> None:
    """Apply a schema as one commit of main."""
    with open_graph(uri, actor=actor, settings=settings) as live:
        granted = Granted(lossy, dict(graph.backfill))
        terms = CommitTerms(MAIN, actor, "cluster apply")
        apply_schema(live.engine, source, granted, terms, None, LOCAL)


def create_graph(uri: str, source: SourceText, settings: Settings, *, actor: str | None) -> None:
    """Create a graph with its declared schema."""
    create_managed(uri, source, actor=actor, settings=settings).close()


def load_seed(
    uri: str,
    graph: GraphDeclaration,
    settings: Settings,
    *,
    directory: str,
    actor: str | None,
    operation_id: str,
) -> None:
    """Load the seed data once: the operation that creates the graph is the key of the load."""
    if graph.seed is None:
        return
    files = [str(Path(directory) / Path(name).expanduser()) for name in graph.seed.files]
    chosen = replace(settings, external_blobs=allowed_blobs(graph.blob_policy))
    with open_graph(uri, actor=actor, settings=chosen) as live:
        try:
            live.load(
                files,
                graph.seed.mode,
                engine=LOCAL,
                progress=False,
                message="seed data",
                idempotency_key=f"cluster-seed-{operation_id}",
            )
        except IdempotencyConflict:
            return  # the first attempt loaded the files that it had
