"""Refs: the objects that name the existing branches and tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from omnigraph import failpoints
from omnigraph.errors import FormatUnknown, InvalidName, NotFound
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.manifest.layout import BRANCH_REFS, TAG_REFS, branch_ref, tag_ref
from omnigraph.manifest.records import MAIN_REF, BranchRef, Dated, TablePin
from omnigraph.values.identifiers import MAIN, check_ref_name, decode_ref_name

_Ref = TypeVar("_Ref")


@dataclass(frozen=True, slots=True)
class Tag(Dated):
    """A name for a commit. It holds the whole snapshot, so it outlives the branch of the commit."""

    name: str
    graph_commit_id: str
    graph_branch: str
    graph_manifest_version: int
    commit_created_at: int
    schema_id: str
    tables: tuple[TablePin, ...]
    created_at: int
    repeated: bool = field(default=False, compare=False)
    """An earlier call with the same idempotency key made it. This is not stored."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "graph_commit_id": self.graph_commit_id,
            "graph_branch": self.graph_branch,
            "created_at": self.created_at,
            "created_at_rfc3339": self.created_at_rfc3339,
        }


class BranchRefs:
    """Existing branches. `main` exists in every graph and has no object."""

    def __init__(self, files: ControlFiles) -> None:
        self._files = files

    def find(self, name: str) -> BranchRef | None:
        if name == MAIN:
            return MAIN_REF
        return _read(self._files, branch_ref(name), _branch_from_json)

    def names(self) -> list[str]:
        return [MAIN, *_names(self._files, BRANCH_REFS)]

    def create(self, ref: BranchRef) -> bool:
        return self._files.put(branch_ref(ref.name), json.dumps(asdict(ref)).encode())

    def remove(self, ref: BranchRef) -> None:
        """Remove the object of this incarnation; that of a newer branch of the same name stays."""
        key = branch_ref(ref.name)
        data = self._files.get(key)
        if data is None or _parse(key, data, _branch_from_json) != ref:
            return
        failpoints.hit("branch.before_unref")
        self._files.delete_exactly(key, data)


class TagRefs:
    """Existing tags."""

    def __init__(self, files: ControlFiles) -> None:
        self._files = files

    def find(self, name: str) -> Tag | None:
        """None also for a text that cannot be the name of a tag, such as a moment."""
        try:
            checked = check_ref_name(name, "tag")
        except InvalidName:
            return None
        return _read(self._files, tag_ref(checked), tag_from_json)

    def names(self) -> list[str]:
        return _names(self._files, TAG_REFS)

    def create(self, tag: Tag) -> bool:
        return self._files.put(tag_ref(tag.name), json.dumps(tag_to_json(tag)).encode())

    def remove(self, name: str) -> None:
        tag = self.find(name)
        if tag is None:
            raise NotFound(f"no tag {name!r}", tag=name)
        self._files.delete(tag_ref(tag.name))


def _names(files: ControlFiles, prefix: str) -> list[str]:
    stems = (name.removesuffix(".json") for name in files.list(prefix) if name.endswith(".json"))
    return sorted(decode_ref_name(stem) for stem in stems)


def _branch_from_json(body: dict[str, Any]) -> BranchRef:
    return BranchRef(**body)


def tag_to_json(tag: Tag) -> dict[str, Any]:
    """Everything of a tag, as it is stored."""
    body = {**asdict(tag), "tables": [pin.to_json() for pin in tag.tables]}
    del body["repeated"]
    return body


def tag_from_json(body: dict[str, Any]) -> Tag:
    return Tag(**{**body, "tables": tuple(TablePin.from_json(p) for p in body["tables"])})


def _read(
    files: ControlFiles, key: str, from_json: Callable[[dict[str, Any]], _Ref]
) -> _Ref | None:
    data = files.get(key)
    return None if data is None else _parse(key, data, from_json)


def _parse(key: str, data: bytes, from_json: Callable[[dict[str, Any]], _Ref]) -> _Ref:
    try:
        return from_json(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatUnknown(f"{key} cannot be read: {error}", object=key) from error
