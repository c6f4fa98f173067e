"""A model of a graph with branches, in dicts. State machine tests compare graphs with it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Content = dict[str, dict[str, dict[str, Any]]]
"""Type name -> entity id -> row."""


@dataclass
class ModelGraph:
    """Branches, tags and a full copy of every committed state."""

    branches: dict[str, Content] = field(default_factory=lambda: {"main": {}})
    heads: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Content] = field(default_factory=dict)
    histories: dict[str, list[str]] = field(default_factory=lambda: {"main": []})
    tags: dict[str, str] = field(default_factory=dict)

    def committed(self, branch: str, commit_id: str, content: Content) -> None:
        self.branches[branch] = content
        self.heads[branch] = commit_id
        self.commits[commit_id] = copy.deepcopy(content)
        self.histories[branch].append(commit_id)

    def create_branch(self, name: str, source: str) -> None:
        self.branches[name] = copy.deepcopy(self.branches[source])
        self.heads[name] = self.heads[source]
        self.histories[name] = list(self.histories[source])

    def delete_branch(self, name: str) -> None:
        del self.branches[name], self.heads[name], self.histories[name]

    def rename_branch(self, name: str, new_name: str) -> None:
        self.branches[new_name] = self.branches.pop(name)
        self.heads[new_name] = self.heads.pop(name)
        self.histories[new_name] = self.histories.pop(name)

    def after(
        self,
        branch: str,
        type_name: str,
        upserts: Mapping[str, dict[str, Any]],
        deletes: frozenset[str] = frozenset(),
    ) -> Content:
        """The content of the branch after this change. The model itself does not change."""
        content = copy.deepcopy(self.branches[branch])
        rows = content.setdefault(type_name, {})
        rows.update({i: dict(row) for i, row in upserts.items()})
        for entity_id in deletes:
            rows.pop(entity_id, None)
        return content
