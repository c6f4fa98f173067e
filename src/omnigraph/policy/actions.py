"""The actions that rules are about, and which parts of a rule go with which of them."""

from __future__ import annotations

READ = "read"
EXPORT = "export"
CHANGE = "change"
SCHEMA_READ = "schema_read"
SCHEMA_APPLY = "schema_apply"
BRANCH_CREATE = "branch_create"
BRANCH_DELETE = "branch_delete"
BRANCH_MERGE = "branch_merge"
INVOKE_QUERY = "invoke_query"
ADMIN = "admin"
GRAPH_LIST = "graph_list"
CONFIG_MANAGE = "config_manage"

ANYWHERE = "*"
"""In place of a branch: some branch, whichever; no branch has this name."""

DATA_ACTIONS = (READ, EXPORT, CHANGE)
"""Actions with rules about types, properties and rows."""

BRANCH_ACTIONS = (READ, EXPORT, CHANGE, SCHEMA_READ)
"""Actions whose rules may name the branch that is read or written."""

TARGET_ACTIONS = (SCHEMA_APPLY, BRANCH_CREATE, BRANCH_DELETE, BRANCH_MERGE)
"""Actions whose rules may name the branch that is made, changed or removed."""

SERVER_ACTIONS = (GRAPH_LIST, CONFIG_MANAGE)
"""Actions on the server. `admin` is also one, and an action on a graph as well."""

GRAPH_ACTIONS = (*BRANCH_ACTIONS, *TARGET_ACTIONS, INVOKE_QUERY, ADMIN)
ALL_ACTIONS = (*GRAPH_ACTIONS, *SERVER_ACTIONS)


def is_server_action(action: str) -> bool:
    """Whether a server bundle may have a rule about this action."""
    return action == ADMIN or action in SERVER_ACTIONS


def action_named(text: str) -> str | None:
    """The action of this name; `schema-apply` is another spelling of `schema_apply`."""
    name = text.replace("-", "_")
    return name if name in ALL_ACTIONS else None
