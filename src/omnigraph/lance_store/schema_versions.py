"""Versions of a dataset that has no rows, because the metadata of its schema is its content.

A version is one file: the manifest of an earlier version with another number, time and metadata. It
is put only if its number is free, which is the compare-and-swap of a publication. Lance's commit
ends with the same put. Before it Lance writes a file with the transaction, and after it a file with
the number of the newest version. No reader of such a dataset needs them, and they take four times
as long as the put.

`tests/lance_store/test_schema_versions.py` pins what this module takes from the format of Lance.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.errors import StorageFailure
from omnigraph.lance_store.dataset_files import version_file
from omnigraph.lance_store.objects.manifest_files import ManifestFile, read_manifest
from omnigraph.lance_store.objects.protobuf import fields, length_delimited, number_field
from omnigraph.lance_store.store import DatasetVersion, Store

# Numbers of fields in the manifest of Lance.
_FRAGMENT, _VERSION, _AUXILIARY, _METADATA, _INDEXES, _TIMESTAMP = 2, 3, 4, 5, 6, 7
_TRANSACTION_FILE, _TRANSACTION_SECTION = 12, 23
_KEY, _VALUE = 1, 2
_SECONDS, _NANOSECONDS = 1, 2

_OF_ONE_VERSION = frozenset(
    {
        _FRAGMENT,
        _VERSION,
        _AUXILIARY,
        _METADATA,
        _INDEXES,
        _TIMESTAMP,
        _TRANSACTION_FILE,
        _TRANSACTION_SECTION,
    }
)
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SchemaVersions:
    """Makes versions of one lineage. It holds the parts that all of them have in common."""

    file: ManifestFile
    common: bytes

    @staticmethod
    def like(store: Store, at: DatasetVersion) -> SchemaVersions | None:
        """From the manifest of an earlier version; None when that version is gone."""
        path = version_file(at)
        data = store.files.get(path)
        if data is None:
            return None
        file = read_manifest(data, path)
        kept = (raw for number, raw, _ in fields(file.message) if number not in _OF_ONE_VERSION)
        return SchemaVersions(file, b"".join(kept))

    def put(self, store: Store, at: DatasetVersion, metadata: Mapping[bytes, bytes]) -> bool:
        """Make the version `at`; False when its number is taken."""
        seconds, nanoseconds = divmod(time.time_ns(), _SECOND)
        moment = number_field(_SECONDS, seconds) + number_field(_NANOSECONDS, nanoseconds)
        message = b"".join(
            (
                self.common,
                number_field(_VERSION, at.version),
                length_delimited(_TIMESTAMP, moment),
                *(
                    length_delimited(
                        _METADATA, length_delimited(_KEY, key) + length_delimited(_VALUE, value)
                    )
                    for key, value in metadata.items()
                ),
            )
        )
        path, data = version_file(at), self.file.with_only(message)
        try:
            return store.files.put(path, data)
        except StorageFailure:
            # The answer to a put that succeeded may get lost, with those to all its repetitions.
            found = store.files.get(path)
            if found is None:
                raise
            return found == data
