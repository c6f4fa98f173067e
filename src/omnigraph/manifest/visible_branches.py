"""Readers for a caller that may not see every branch. Hidden branches are like unknown ones."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef
from omnigraph.manifest.refs import BranchRefs, Tag, TagRefs
from omnigraph.values.identifiers import check_ref_name

IsVisible = Callable[[str], bool]
"""Whether the caller may see the branch with this name."""


def visible_commits(reader: ManifestReader, is_visible: IsVisible) -> CommitGraph:
    """The commits of visible branches, and those merged into them from visible branches."""
    return CommitGraph(_VisibleReader(reader, is_visible), is_visible)


class _VisibleReader(ManifestReader):
    """Another view of the same reader, which shares its caches."""

    def __init__(self, whole: ManifestReader, is_visible: IsVisible) -> None:
        self.__dict__.update(whole.__dict__)
        self.branch_refs = _VisibleBranchRefs(whole.branch_refs, is_visible)
        self.tag_refs = _VisibleTagRefs(whole.tag_refs, is_visible)
        self._is_visible = is_visible

    def branch(self, name: str) -> tuple[BranchRef, BranchState]:
        checked = check_ref_name(name)
        if not self._is_visible(checked):
            self._refuse_unknown(checked)
        return super().branch(checked)

    def ref(self, name: str) -> BranchRef:
        return self.branch(name)[0]


class _VisibleBranchRefs(BranchRefs):
    def __init__(self, whole: BranchRefs, is_visible: IsVisible) -> None:
        self.__dict__.update(whole.__dict__)
        self._is_visible = is_visible

    def names(self) -> list[str]:
        return [name for name in super().names() if self._is_visible(name)]


class _VisibleTagRefs(TagRefs):
    """Tags of visible branches."""

    def __init__(self, whole: TagRefs, is_visible: IsVisible) -> None:
        self.__dict__.update(whole.__dict__)
        self._is_visible = is_visible

    def find(self, name: str) -> Tag | None:
        tag = super().find(name)
        return tag if tag is not None and self._is_visible(tag.graph_branch) else None

    def names(self) -> list[str]:
        return [name for name in super().names() if self.find(name) is not None]
