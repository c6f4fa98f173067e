"""Random schema changes, writes, branches, upkeep and crashes against a model made of dicts."""

from __future__ import annotations

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph import failpoints
from omnigraph.errors import SchemaRefused, ValidationFailed
from omnigraph.graph.open import init, open_graph
from omnigraph_testing import workloads
from omnigraph_testing.invariants import assert_at_rest, content

TYPE_NAMES = ("A", "B", "C", "D")
NAMES = ("p", "q", "r", "s")
IDS = tuple(f"i{n}" for n in range(6))
CRASHES = (
    "schema_apply.before_effects",
    "schema_apply.after_backfill_batch",
    "schema_apply.after_table",
    "commit.after_stage",
    "commit.after_arm",
    "commit.after_advance_first",
    "commit.after_advance",
    "publish.after_stage",
    "publish.after_swap",
    "commit.after_publish",
)
WIDER = {"I32": "I64", "I64": "String", "String": "String"}


@dataclass
class Column:
    kind: str
    nullable: bool = True
    unique: bool = False


@dataclass
class Kind:
    """A node type of the model."""

    columns: dict[str, Column] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)


Model = dict[str, Kind]


def text_of(model: Model, hints: dict[tuple[str, ...], str] | None = None) -> str:
    """The schema text; `hints` are old names by (type,) and by (type, property)."""
    lines = []
    for name, kind in model.items():
        hint = (hints or {}).get((name,))
        lines.append(f"node {name} {_hint(hint)} {{ k: String @key")
        for prop, column in kind.columns.items():
            marks = "?" * column.nullable + " @unique" * column.unique
            lines.append(f"  {prop}: {column.kind}{marks} {_hint((hints or {}).get((name, prop)))}")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _hint(old: str | None) -> str:
    return f'@rename_from("{old}")' if old else ""


def rows_of(model: Model) -> dict[str, Any]:
    """As `content` gives them."""
    return {
        name: {i: {"id": i, "k": i} | row for i, row in kind.rows.items()}
        for name, kind in model.items()
        if kind.rows
    }


def breaks(kind: Kind) -> bool:
    for name, column in kind.columns.items():
        values = [row[name] for row in kind.rows.values()]
        if not column.nullable and None in values:
            return True
        present = [v for v in values if v is not None]
        if column.unique and len(set(present)) < len(present):
            return True
    return False


class SchemaMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evolve-machine-"))
        self.uri = str(self.folder / "g")
        model = {"A": Kind({"p": Column("I32"), "q": Column("String")})}
        self.graph = init(self.uri, text_of(model), settings=workloads.settings())
        self.branches: dict[str, Model] = {"main": model}
        self.tags: dict[str, dict[str, Any]] = {}
        self.texts = {"main": text_of(model)}

    def teardown(self) -> None:
        failpoints.disarm_all()
        if hasattr(self, "folder"):
            report = self.graph.verify()
            assert report.ok, report
            assert_at_rest(self.graph)
            shutil.rmtree(self.folder)

    # Choices

    def branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.branches)))

    def some_type(self, data: st.DataObject, model: Model) -> str:
        return data.draw(st.sampled_from(sorted(model)))

    def value(self, data: st.DataObject, column: Column) -> Any:
        number = st.integers(0, 3)
        values = st.sampled_from(["x", "y", "7"]) if column.kind == "String" else number
        return data.draw(st.one_of(st.none(), values) if column.nullable else values)

    # Rows

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        model = copy.deepcopy(self.branches[branch])
        name = self.some_type(data, model)
        kind = model[name]
        rows = []
        for i in data.draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)):
            row = {prop: self.value(data, c) for prop, c in kind.columns.items()}
            kind.rows[i] = row
            rows.append({"k": i} | row)
        edit = {name: {"upsert": rows}}
        if breaks(kind):
            with pytest.raises(ValidationFailed):
                self.graph.apply(edit, branch)
            return
        self.graph.apply(edit, branch)
        self.branches[branch] = model

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        model = self.branches[branch]
        name = self.some_type(data, model)
        if not model[name].rows:
            return
        gone = data.draw(st.sampled_from(sorted(model[name].rows)))
        self.graph.apply({name: {"delete": [gone]}}, branch)
        del model[name].rows[gone]

    # The schema

    def change(
        self,
        data: st.DataObject,
        branch: str,
        new: Model,
        hints: dict[tuple[str, ...], str] | None = None,
        backfill: dict[str, Any] | None = None,
    ) -> None:
        """Apply, sometimes with a crash in the middle; the model follows what was published."""
        text = text_of(new, hints)
        at = self.graph.commits.list(branch)[0].graph_commit_id
        grants: dict[str, Any] = {"allow_data_loss": True, "backfill": backfill or {}}
        plan = self.graph.schema.plan(text, branch=branch, **grants)
        refused = any(breaks(kind) for kind in new.values())
        assert plan.supported is not refused, plan
        if refused:
            with pytest.raises(ValidationFailed):
                self.graph.schema.apply(text, branch=branch, **grants)
            return
        crash = data.draw(st.one_of(st.none(), st.sampled_from(CRASHES)))
        if crash is not None:
            failpoints.arm(crash, "raise")
        try:
            self.graph.schema.apply(text, branch=branch, **grants)
        except failpoints.FailpointRaised:
            failpoints.disarm_all()
            self.graph = open_graph(self.uri, settings=workloads.settings())
            head = self.graph.commits.list(branch)[0]
            if head.graph_commit_id == at or head.operation != "schema_apply":
                assert self.graph.schema.show(branch).source == self.texts[branch]
                return
        failpoints.disarm_all()
        assert self.graph.schema.show(branch).source == text
        self.branches[branch], self.texts[branch] = new, text
        plain = {"allow_data_loss": True}
        assert not self.graph.schema.apply(text, branch=branch, **plain).applied

    @rule(data=st.data(), required=st.booleans())
    def add_property(self, data: st.DataObject, required: bool) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        free = sorted(set(NAMES) - new[owner].columns.keys())
        if not free:
            return
        name = data.draw(st.sampled_from(free))
        new[owner].columns[name] = Column(data.draw(st.sampled_from(list(WIDER))), not required)
        value: Any = None
        if required:
            value = "z" if new[owner].columns[name].kind == "String" else 9
        for row in new[owner].rows.values():
            row[name] = value
        given = '"z"' if value == "z" else value
        self.change(data, branch, new, None, {f"{owner}.{name}": given} if required else None)

    @rule(data=st.data(), shifts=st.booleans())
    def rename_property(self, data: st.DataObject, shifts: bool) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        kind = new[owner]
        free = sorted(set(NAMES) - kind.columns.keys())
        if not free or not kind.columns:
            return
        names = {data.draw(st.sampled_from(sorted(kind.columns))): data.draw(st.sampled_from(free))}
        others = sorted(kind.columns.keys() - names.keys())
        if shifts and others:
            # Another property takes the name that becomes free.
            names[data.draw(st.sampled_from(others))] = next(iter(names))
        kind.columns = {names.get(n, n): c for n, c in kind.columns.items()}
        for i, row in kind.rows.items():
            kind.rows[i] = {names.get(n, n): v for n, v in row.items()}
        hints = {(owner, after): before for before, after in names.items()}
        self.change(data, branch, new, hints)

    @rule(data=st.data())
    def drop_property(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        if not new[owner].columns:
            return
        gone = data.draw(st.sampled_from(sorted(new[owner].columns)))
        del new[owner].columns[gone]
        for row in new[owner].rows.values():
            del row[gone]
        self.change(data, branch, new)

    @rule(data=st.data())
    def replace_property(self, data: st.DataObject) -> None:
        """Drop it in one change and add it again in the next: no value comes back."""
        branch = self.branch(data)
        owner = self.some_type(data, self.branches[branch])
        columns = self.branches[branch][owner].columns
        if not columns:
            return
        name = data.draw(st.sampled_from(sorted(columns)))
        column = Column(columns[name].kind)
        without = copy.deepcopy(self.branches[branch])
        del without[owner].columns[name]
        for row in without[owner].rows.values():
            del row[name]
        self.change(data, branch, without)
        again = copy.deepcopy(self.branches[branch])
        if name in again[owner].columns:
            return  # the drop crashed
        again[owner].columns[name] = column
        for row in again[owner].rows.values():
            row[name] = None
        self.change(data, branch, again)

    @rule(data=st.data())
    def cast(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        narrow = sorted(n for n, c in new[owner].columns.items() if c.kind != "String")
        if not narrow:
            return
        name = data.draw(st.sampled_from(narrow))
        column = new[owner].columns[name]
        column.kind = WIDER[column.kind]
        if column.kind == "String":
            for row in new[owner].rows.values():
                row[name] = None if row[name] is None else str(row[name])
        self.change(data, branch, new)

    @rule(data=st.data())
    def turn_a_rule(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        if not new[owner].columns:
            return
        column = new[owner].columns[data.draw(st.sampled_from(sorted(new[owner].columns)))]
        if data.draw(st.booleans()):
            column.nullable = not column.nullable
        else:
            column.unique = not column.unique
        self.change(data, branch, new)

    @rule(data=st.data())
    def add_type(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        free = sorted(set(TYPE_NAMES) - new.keys())
        if free:
            new[data.draw(st.sampled_from(free))] = Kind({"p": Column("I64")})
            self.change(data, branch, new)

    @rule(data=st.data())
    def drop_type(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        if len(new) > 1:
            del new[self.some_type(data, new)]
            self.change(data, branch, new)

    @rule(data=st.data(), shifts=st.booleans())
    def rename_type(self, data: st.DataObject, shifts: bool) -> None:
        branch = self.branch(data)
        old = self.branches[branch]
        free = sorted(set(TYPE_NAMES) - old.keys())
        if not free:
            return
        names = {self.some_type(data, old): data.draw(st.sampled_from(free))}
        others = sorted(old.keys() - names.keys())
        if shifts and others:
            names[data.draw(st.sampled_from(others))] = next(iter(names))
        new = {names.get(n, n): copy.deepcopy(kind) for n, kind in old.items()}
        self.change(data, branch, new, {(after,): before for before, after in names.items()})

    @rule(data=st.data())
    def swap(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        model = self.branches[branch]
        if len(model) < 2:
            return
        a, b = sorted(model)[:2]
        text = text_of(model, {(a,): b, (b,): a})
        with pytest.raises(SchemaRefused, match="swap"):
            self.graph.schema.apply(text, branch=branch, allow_data_loss=True)

    # Branches, tags, upkeep

    @precondition(lambda self: len(self.branches) < 3)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        source = self.branch(data)
        name = f"b{len(self.branches)}"
        self.graph.branches.create(name, source)
        self.branches[name] = copy.deepcopy(self.branches[source])
        self.texts[name] = self.texts[source]

    @precondition(lambda self: len(self.tags) < 4)
    @rule()
    def tag(self) -> None:
        name = f"t{len(self.tags)}"
        self.graph.tags.create(name)
        self.tags[name] = rows_of(copy.deepcopy(self.branches["main"]))

    @rule()
    def optimize(self) -> None:
        self.graph.optimize()

    @rule()
    def reopen(self) -> None:
        self.graph = open_graph(self.uri, settings=workloads.settings())

    @invariant()
    def every_branch_and_tag_reads_as_the_model(self) -> None:
        if not hasattr(self, "branches"):
            return
        for branch, model in self.branches.items():
            assert content(self.graph, branch) == rows_of(model), branch
            for name, kind in model.items():
                shown = "".join(f", $n.{prop} as {prop}" for prop in kind.columns)
                query = f"query q() {{ match {{ $n: {name} }} return {{ $n.id as id{shown} }} }}"
                found = {
                    row.pop("id"): row for row in self.graph.query(query, branch=branch).to_pylist()
                }
                assert found == kind.rows, (branch, name)
        for tag, rows in self.tags.items():
            assert content(self.graph, at=tag) == rows, tag


def run(examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(SchemaMachine, settings=chosen)


def test_random_schema_changes() -> None:
    run(examples=12, steps=20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_random_schema_changes() -> None:
    run(examples=150, steps=40)
