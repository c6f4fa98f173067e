"""A load on this machine: prepare, then land in one commit through the one write path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph import failpoints
from omnigraph.commit.transaction import Transaction
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.load.commit_load import SMALL_INPUT, LoadBuild, Recheck, commit_load
from omnigraph.load.options import LoadOptions, LoadReceipt
from omnigraph.load.parsed_rows import BlobBases
from omnigraph.load.prepared import PreparedInput, prepare, prepared_input
from omnigraph.load.progress import Watch
from omnigraph.load.sources import ReadOptions, find_sources, refuse_unused_columns
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.settings.models import LoadSettings
from omnigraph.values.known_names import LOCAL


@dataclass(frozen=True, slots=True)
class LocalLoader:
    """The parts of an open graph that a load uses."""

    reader: ManifestReader
    commits: CommitGraph
    transaction: Transaction
    provider: EmbeddingProvider
    settings: LoadSettings
    small_input: int = SMALL_INPUT

    def load(
        self,
        data: Any,
        options: LoadOptions,
        watch: Watch,
    ) -> LoadReceipt:
        """Read `data`, check all of it, and commit it as one."""
        ref, state = self.reader.branch(options.branch)
        sources = find_sources(data, options.type_name)
        refuse_unused_columns(sources, options.columns)
        catalog = self.reader.snapshot(ref, state).catalog
        with prepared_input(catalog, self.settings) as prepared:
            reading = ReadOptions(options.columns, BlobBases(self.settings.blob_bases))
            prepare(prepared, sources, reading, self.provider, watch(sources))
            failpoints.hit("load.after_prepare")
            return self._land(prepared, options)

    def _land(self, prepared: PreparedInput, options: LoadOptions) -> LoadReceipt:
        landing = LoadBuild(
            prepared,
            self.reader.store,
            options.mode,
            Recheck(self.reader, self.commits),
            self.small_input,
        )
        return commit_load(
            self.transaction, prepared, options, landing.claims(), landing.build, LOCAL
        )
