"""Create datasets and their physical branches. New names only, so nobody else's HEAD moves."""

from __future__ import annotations

import re
from urllib.parse import quote

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from omnigraph.errors import AlreadyExists
from omnigraph.lance_store.blobs import in_pieces, to_lance_rows, to_lance_schema
from omnigraph.lance_store.objects.base_paths import manifest_path, relocate
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.search.indexes import index_name
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store

# Of these object_store encodes nothing.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./:-]*")
_PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}


def physical_name(graph_branch: str, ulid: str) -> str:
    """A Lance branch name nobody used before: readable start, unique end."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", graph_branch)[:40].strip("-")
    return f"{readable or 'branch'}.{ulid}"


def create_branch(store: Store, source: DatasetVersion, name: str) -> DatasetVersion:
    """Branch a dataset at `source`; costs a few small files, no data."""
    with storage_errors(f"branching {source.location}"):
        root = _root_to_branch(store, source.location)
        start = source.version if source.branch is None else (source.branch, source.version)
        try:
            branch = root.create_branch(name, start)
        except (OSError, ValueError):
            # Lance writes the ref last, and nobody else uses this name: if it is there, the
            # answer to our own put got lost.
            if name not in root.branches.list():
                raise
            branch = root.checkout_version((name, None))
        version = int(branch.version)
        if _PLAIN_PATH.fullmatch(store.location.uri) is None:
            # The branch names the files it shares by the address that it was made through.
            relocate(store.location, [manifest_path(source.location, name, version)])
    return DatasetVersion(source.location, name, version)


def _root_to_branch(store: Store, location: str) -> Dataset:
    """The dataset, below odd local paths by another address.

    By a plain path Lance 14 makes the folder of its refs under the path's percent-encoded name:
    beside the graph, where the user may have no right to.
    """
    path = store.location.path
    if path is None or _PLAIN_PATH.fullmatch(str(path)):
        return store.open_head(location, None)
    return lance.dataset(f"file-object-store://{quote(str(path))}/{location}")


def create_dataset(
    store: Store, location: str, rows: pa.Table, indexed: tuple[str, ...] = ()
) -> DatasetVersion:
    """A new dataset with stable row ids and a BTREE on each of `indexed`; one creator wins."""
    if store.exists(location, None):
        raise AlreadyExists(f"dataset {location} exists", dataset=location)
    with storage_errors(f"creating {location}"):
        try:
            dataset = _commit_first_version(store, location, rows)
        except OSError as error:
            # The loser of a race gets a plain OSError; whether there is a dataset now tells why.
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
