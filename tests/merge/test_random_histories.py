"""Random histories on several branches, criss-cross included, against the model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.graph.open import init
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph.testing.merge_model import Content, ModelHistory

SCHEMA = """
node Thing {
  key: String @key
  a: I64?
  b: String?
}
"""
KEYS = ("p", "q", "r")
BRANCHES = ("main", "x", "y")
SMALL = Settings(history=HistorySettings(window_low=1, window_high=2, fan_out=2, inline_ids=1))

WRITE = st.tuples(
    st.just("write"),
    st.sampled_from(BRANCHES),
    st.sampled_from(KEYS),
    st.sampled_from(("a", "b", "delete")),
    st.integers(0, 2),
)
MERGE = st.tuples(
    st.just("merge"),
    st.permutations(BRANCHES).map(lambda names: (names[0], names[1])),
    st.sampled_from(("ours", "theirs")),
)


def edited(content: Content, key: str, what: str, value: int) -> Content:
    changed = dict(content)
    if what == "delete":
        changed.pop(("Thing", key), None)
        return changed
    old = changed.get(("Thing", key), {"id": key, "key": key, "a": None, "b": None})
    changed["Thing", key] = {**old, what: value if what == "a" else str(value)}
    return changed


@settings(max_examples=25)
@given(st.lists(WRITE | MERGE, min_size=3, max_size=14))
def test_merged_content_is_the_models(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = init(Path(folder) / "g", SCHEMA, settings=SMALL)
        model = ModelHistory()
        model.commit("main", graph.branches.show("main").head_commit_id, {})
        for name in BRANCHES[1:]:
            graph.branches.create(name)
            model.heads[name] = model.heads["main"]
        for step in steps:
            if step[0] == "write":
                _, branch, key, what, value = step
                before = model.content(branch)
                content = edited(before, key, what, value)
                row = content.get(("Thing", key))
                edit = {"upsert": [row]} if row else {"delete": [key]}
                receipt = graph.apply({"Thing": edit}, branch)
                assert (receipt.commit is None) == (content == before)
                if receipt.commit is not None:
                    model.commit(branch, receipt.commit.graph_commit_id, content)
            else:
                _, (source, target), strategy = step
                result = graph.merge(source, into=target, strategy=strategy)
                if model.heads[source] in model.ancestors(model.heads[target]):
                    assert result.outcome == "already_up_to_date"
                    continue
                content, _ = model.merge(target, source, strategy)
                commit = result.commit
                assert commit is not None
                assert commit.merged_parent_commit_id == model.heads[source]
                model.commit(target, commit.graph_commit_id, content, model.heads[source])
            for branch in BRANCHES:
                rows = graph.read("Thing", branch).to_pylist()
                assert {("Thing", r["id"]): r for r in rows} == model.content(branch)
