"""Accepted schemas: immutable objects, one per accepted text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from omnigraph.catalog.declared_types import types_to_json
from omnigraph.catalog.identity import fingerprint, shape_hash
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.serialize import catalog_from_json, catalog_to_json
from omnigraph.errors import FormatUnknown, NotFound, SchemaDrift
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.manifest.layout import schema_object


@dataclass(frozen=True, slots=True)
class AcceptedSchema:
    """An accepted catalog with its schema text; the text is empty when none was kept."""

    schema_id: str
    source: str
    catalog: Catalog
    fingerprint: str
    steps: tuple[Mapping[str, Any], ...] = ()
    """How it came about from the schema before it, as JSON; empty for the first one."""
    schema_version: str | None = None
    """The commit that set it."""

    @property
    def schema_hash(self) -> str:
        """Graphs with the same declarations have the same hash."""
        return shape_hash(self.catalog)

    def types(self) -> list[dict[str, Any]]:
        """Every declared type with its ids, in the words of the steps of a plan."""
        return types_to_json(self.catalog)

    def to_dict(self) -> dict[str, Any]:
        """The `schema show` object of the CLI and HTTP."""
        return {
            "schema_id": self.schema_id,
            "schema_hash": self.schema_hash,
            "schema_version": self.schema_version,
            "fingerprint": self.fingerprint,
            "schema_source": self.source,
            "catalog": catalog_to_json(self.catalog),
        }


class SchemaStore:
    """Reads and writes accepted schemas."""

    def __init__(self, files: ControlFiles) -> None:
        self._files = files
        self._load = lru_cache(maxsize=64)(self._read)

    def write(
        self,
        schema_id: str,
        catalog: Catalog,
        source: str,
        commit_id: str,
        steps: Sequence[Mapping[str, Any]] = (),
    ) -> AcceptedSchema:
        body = {
            "source": source,
            "fingerprint": fingerprint(catalog),
            "catalog": catalog_to_json(catalog),
            "steps": list(steps),
            "commit_id": commit_id,
        }
        self._files.put(schema_object(schema_id), json.dumps(body, ensure_ascii=False).encode())
        return self.read(schema_id)

    def read(self, schema_id: str) -> AcceptedSchema:
        return self._load(schema_id)

    def _read(self, schema_id: str) -> AcceptedSchema:
        data = self._files.get(schema_object(schema_id))
        if data is None:
            raise NotFound(f"schema object {schema_id} is missing from storage", schema=schema_id)
        try:
            body = json.loads(data)
            catalog = catalog_from_json(body["catalog"])
        except (ValueError, KeyError, TypeError) as error:
            raise FormatUnknown(
                f"schema object {schema_id} cannot be read: {error}", schema=schema_id
            ) from error
        found = fingerprint(catalog)
        if found != body["fingerprint"]:
            raise SchemaDrift(
                f"schema object {schema_id} was changed after it was accepted: restore "
                f"{schema_object(schema_id)} from a backup",
                expected=body["fingerprint"],
                found=found,
                schema=schema_id,
            )
        return AcceptedSchema(
            schema_id,
            body["source"],
            catalog,
            body["fingerprint"],
            tuple(body.get("steps", ())),
            body.get("commit_id"),
        )
