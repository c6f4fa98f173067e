"""The part of `Graph` about branches coming together: diff, merge, revert, change feed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.graph.engine import Engine
from omnigraph.values.identifiers import MAIN

if TYPE_CHECKING:
    from omnigraph.commit.request import WriteReceipt
    from omnigraph.diff.change import ChangePage
    from omnigraph.feed import FeedPage
    from omnigraph.merge.conflicts import MergePreview, MergeResult


class Branching:
    """Operations over several commits; `Graph` gives them its engine and its actor."""

    actor: str | None

    @property
    @abstractmethod
    def engine(self) -> Engine: ...

    @abstractmethod
    def writable(self) -> Engine: ...

    def diff(
        self,
        a: str,
        b: str,
        types: Sequence[str] | None = None,
        *,
        kinds: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ChangePage:
        """What turns `a` into `b`: each a branch, commit, tag or moment of main.

        A list of changes (nodes before edges, by type and id) with `before` and `after` images.
        With `limit` the list has a `next_cursor`: pass it to get the next page of the same two
        commits, wherever the branches are by then.

        Example:
            >>> [(c.op, c.id) for c in graph.diff("main", "review", types=["Person"])]
        """
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.graph import history

        options = history.PageOptions(ChangeFilter.of(types, kinds, ops), limit, cursor)
        return history.diff(self.engine, a, b, options)

    def merge(
        self,
        source: str,
        into: str = MAIN,
        strategy: str = "fail",
        resolutions: object = None,
        preview: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        engine: str = "auto",
    ) -> MergeResult | MergePreview:
        """Bring what `source` changed into `into`, property by property, as one commit.

        `strategy` decides every conflict for `ours` (the target) or `theirs` (the source);
        `resolutions` decides single ones: a list, or a JSON or YAML file, of `{type_name,
        entity_id, property?, take: base|ours|theirs|delete}` or `{…, value: …}`. What is left
        raises `MergeConflicts`. `preview=True` returns the list of conflicts instead, with
        `outcome` and `changes`, and writes nothing. `delete_branch=True` removes `source`
        afterwards, unless it moved meanwhile. `engine="spark"` has executors merge the rows of
        very large merges; `auto` takes them from `PipelineSettings.spark_merge_from_rows` on, if
        a session is up. The result is the same.

        Example:
            >>> graph.merge("review/x", into="main", strategy="theirs").outcome
        """
        from omnigraph.graph import merging

        options = merging.MergeOptions(strategy, resolutions, self.actor, message, engine)
        if preview:
            return self.preview_merge(source, into, strategy, resolutions)
        return merging.merge(self.writable(), source, into, options, delete_branch=delete_branch)

    def preview_merge(
        self, source: str, into: str = MAIN, strategy: str = "fail", resolutions: object = None
    ) -> MergePreview:
        """`merge(preview=True)`: the conflicts, with `outcome` and `changes`."""
        from omnigraph.graph import merging

        options = merging.MergeOptions(strategy, resolutions, self.actor, None)
        return merging.preview(self.engine, source, into, options)

    def revert(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        strategy: str = "fail",
        resolutions: object = None,
        message: str | None = None,
    ) -> WriteReceipt:
        """Undo what a commit changed, as a new commit on `branch`.

        Later changes of the same properties are conflicts (*theirs* = the state before the
        commit). Reverting a merge undoes all it brought. `commit` of the receipt is None when
        nothing of the commit is left.
        """
        from omnigraph.graph import merging

        options = merging.MergeOptions(strategy, resolutions, self.actor, message)
        return merging.revert(self.writable(), commit_id, branch, options)

    def cherry_pick(
        self,
        commit_id: str,
        onto: str = MAIN,
        *,
        strategy: str = "fail",
        resolutions: object = None,
        message: str | None = None,
    ) -> WriteReceipt:
        """Make the changes of one commit, of any branch, again on `onto`."""
        from omnigraph.graph import merging

        options = merging.MergeOptions(strategy, resolutions, self.actor, message)
        return merging.cherry_pick(self.writable(), commit_id, onto, options)

    def changes(
        self,
        branch: str = MAIN,
        cursor: str | None = None,
        start: str = "now",
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage:
        """What happened on a branch since `cursor`, commit by commit, at most `limit` changes.

        Without a cursor: from `start`, which is `now`, `beginning` or `after:<commit id>`. Go on
        with `page.cursor`, at once while `page.has_more`. A cursor is bound to the graph, this
        branch and the filter. `FeedGap` means: take a new `baseline`.
        """
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.feed import FeedRequest, poll

        request = FeedRequest(branch, ChangeFilter.of(types, kinds, ops), limit)
        return poll(self.engine.reader, request, cursor, start)

    def baseline(
        self,
        branch: str = MAIN,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage:
        """Everything that is there now, as inserts, and a cursor for `changes` behind it.

        Pass the cursor (and the same filter) to `changes`: it hands out the rest of the baseline
        first, then what happened after it. Nothing is missed and nothing comes twice.
        """
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.feed import FeedRequest, baseline

        request = FeedRequest(branch, ChangeFilter.of(types, kinds, None), limit)
        return baseline(self.engine.reader, request)
