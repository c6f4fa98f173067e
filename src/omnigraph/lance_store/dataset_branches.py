"""Create datasets and their physical branches. Names are new, so no existing HEAD moves."""

from __future__ import annotations

import re
from urllib.parse import quote

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from omnigraph.errors import AlreadyExists
from omnigraph.lance_store.blobs import in_pieces, to_lance_rows, to_lance_schema
from omnigraph.lance_store.dataset_files import version_file
from omnigraph.lance_store.objects.relocation import relocate
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.reads.indexes import index_name
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store

# The object_store crate does not encode these characters.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./:-]*")
_PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}


def physical_name(graph_branch: str, ulid: str) -> str:
    """A new name for a Lance branch: a readable start and a unique end."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", graph_branch)[:40].strip("-")
    return f"{readable or 'branch'}.{ulid}"


def create_branch(store: Store, source: DatasetVersion, name: str) -> DatasetVersion:
    """Branch a dataset at `source`, which writes a few small files and no data."""
    with storage_errors(f"branching {source.location}"):
        root = _root_to_branch(store, source.location)
        start = source.version if source.branch is None else (source.branch, source.version)
        try:
            branch = root.create_branch(name, start)
        except (OSError, ValueError):
            # Lance writes the ref last, and no other process uses this name. If the ref exists,
            # the answer to our own put got lost.
            if name not in root.branches.list():
                raise
            branch = root.checkout_version((name, None))
        created = DatasetVersion(source.location, name, int(branch.version))
        if _PLAIN_PATH.fullmatch(store.location.uri) is None:
            # The branch names shared files by the address that it was created with.
            relocate(store.location, [version_file(created)])
    return created


def _root_to_branch(store: Store, location: str) -> Dataset:
    """The dataset, opened by a URL where its local path has characters that are encoded.

    Opened by its path, Lance 14 would create the folder of refs under the percent-encoded path,
    which is beside the graph, where the user may not write.
    """
    path = store.location.path
    if path is None or _PLAIN_PATH.fullmatch(str(path)):
        return store.open_head(location, None)
    return lance.dataset(f"file-object-store://{quote(str(path))}/{location}")


def create_dataset(
    store: Store, location: str, rows: pa.Table, indexed: tuple[str, ...] = ()
) -> DatasetVersion:
    """Create a dataset with stable row ids and a BTREE on each of `indexed`.

    Of several processes that create it, one succeeds.
    """
    if store.exists(location, None):
        raise AlreadyExists(f"dataset {location} exists", dataset=location)
    with storage_errors(f"creating {location}"):
        try:
            dataset = _commit_first_version(store, location, rows)
        except OSError as error:
            # A process that lost the race gets a plain OSError.
            if store.exists(location, None):
                raise AlreadyExists(f"dataset {location} exists", dataset=location) from error
            raise
        if indexed:
            segments = [
                dataset.create_index_uncommitted(c, "BTREE", name=index_name(c), fragment_ids=[])
                for c in indexed
            ]
            operation = LanceOperation.CreateIndex(segments, [])
            dataset = LanceDataset.commit(dataset, operation, read_version=1, max_retries=0)
    return DatasetVersion(location, None, int(dataset.version))


def _commit_first_version(store: Store, location: str, rows: pa.Table) -> Dataset:
    uri = store.dataset_uri(location, None)
    options = dict(store.location.options) or None
    schema = to_lance_schema(_with_primary_key(rows.schema))
    fragments = []
    for piece in in_pieces(rows):
        fragments += write_fragments(
            to_lance_rows(piece), uri, schema=schema, mode="create", storage_options=options
        )
    return LanceDataset.commit(
        uri,
        LanceOperation.Overwrite(schema, fragments),
        read_version=0,
        max_retries=0,
        storage_options=options,
        enable_stable_row_ids=True,
    )


def _with_primary_key(schema: pa.Schema) -> pa.Schema:
    if "id" not in schema.names:
        return schema
    position = schema.get_field_index("id")
    return schema.set(position, schema.field(position).with_metadata(_PRIMARY_KEY))
