"""The paths and object names of a graph on disk."""

from __future__ import annotations

from omnigraph.values.identifiers import EntityKind, TableKey, encode_ref_name, fnv1a64_hex

MANIFEST = "__manifest"
RECOVERY = "__recovery"
QUARANTINE = "_quarantine"
HISTORY = "__history"
SCHEMAS = "__schema"
BRANCH_REFS = "_refs/branches"
TAG_REFS = "_refs/tags"
LOCKS = "_locks"
REQUESTS = "__requests"
OPERATIONS = "__operations"
RECOVERY_AUDIT = "_graph_commit_recoveries.lance"

CLUSTER = "__cluster"
"""Beside the graphs of a cluster: its ledger and what belongs to it."""
CLUSTER_STATE = "state.json"
CLUSTER_GRAPHS = "graphs"
GRAPH_SUFFIX = ".omni"

_FOLDERS = {EntityKind.NODE: "nodes", EntityKind.EDGE: "edges"}
TABLE_FOLDERS = tuple(f"{folder}/" for folder in _FOLDERS.values())


def is_own_name(name: str) -> bool:
    """Whether a graph has a file or folder of this name in its directory."""
    folders = {path.partition("/")[0] for path in (BRANCH_REFS, TAG_REFS)}
    return name.startswith("__") or name in {
        *folders,
        *_FOLDERS.values(),
        QUARANTINE,
        LOCKS,
        RECOVERY_AUDIT,
    }


def table_location(key: TableKey) -> str:
    """The path of the table of a new type; an existing table stays at the path in its pin."""
    return f"{_FOLDERS[key.kind]}/{fnv1a64_hex(key.type_name)}"


def dataset_folder(path: str) -> str:
    """The dataset, or the folder of control objects, that a path belongs to."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in _FOLDERS.values() else parts[0]


def reclaimed_marker(location: str) -> str:
    """The object that cleanup leaves where it removed a dataset.

    No table is created at that path again, because version numbers must not start over there.
    """
    return f"{location}/_reclaimed"


def branch_ref(name: str) -> str:
    return f"{BRANCH_REFS}/{encode_ref_name(name)}.json"


def tag_ref(name: str) -> str:
    return f"{TAG_REFS}/{encode_ref_name(name)}.json"


def schema_object(schema_id: str) -> str:
    return f"{SCHEMAS}/{schema_id}.json"


def history_object(segment_id: str) -> str:
    return f"{HISTORY}/{segment_id}.json"


def change_list_object(change_list_id: str) -> str:
    return f"{HISTORY}/{change_list_id}.arrow"
