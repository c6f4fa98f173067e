"""Random histories of one cluster against a model: however it goes, it ends converged.

Steps edit the config, apply, die in the middle of an apply, change schemas directly, write rows,
lose a root, and refresh. Then approvals are given and applies repeated until nothing is left.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import omnigraph
from omnigraph import failpoints
from omnigraph.cluster import commands
from omnigraph.cluster.config_reader import read_config_directory
from omnigraph.cluster.declarations import GraphDeclaration
from omnigraph.cluster.graph_work import change_schema
from omnigraph.cluster.serving import applied_graph
from omnigraph.settings.models import Settings
from omnigraph.syntax.source_text import SourceText
from omnigraph_testing.cluster_kit import BY_NAME, POLICY, apply, call, codes, declare, plan, write

PROPERTIES = ("age: I64?", "email: String?", "nick: String?")
GRAPHS = ("a", "b", "c")


@dataclass
class Model:
    folder: Path
    chance: random.Random
    declared: dict[str, frozenset[str]] = field(default_factory=dict)
    """By graph: the properties of its declared schema."""
    comments: int = 0
    rows: dict[str, set[str]] = field(default_factory=dict)
    queries: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    kept: dict[str, int] = field(default_factory=dict)
    """By graph: how many commits its retention keeps."""

    def schema(self, graph: str) -> str:
        body = "".join(f"  {each}\n" for each in sorted(self.declared[graph]))
        return f"// {self.comments}\nnode Person {{\n  name: String @key\n{body}}}\n"

    def write(self) -> None:
        lines = ["graphs:" if self.declared else "graphs: {}"]
        for graph in sorted(self.declared):
            (self.folder / f"{graph}.pg").write_text(self.schema(graph))
            queries = ", queries: people.gq" if graph in self.queries else ""
            kept = f", retention: {{keep: {self.kept[graph]}}}" if graph in self.kept else ""
            lines.append(f"  {graph}: {{schema: {graph}.pg{queries}{kept}}}")
        bound = sorted(self.bound & self.declared.keys())
        if bound:
            lines += ["policies:", f"  devs: {{file: devs.yaml, applies_to: [{', '.join(bound)}]}}"]
        declare(self.folder, *lines)

    def uri(self, graph: str) -> Path:
        return self.folder / "graphs" / f"{graph}.omni"

    def exists(self, graph: str) -> bool:
        return (self.uri(graph) / "__manifest").is_dir()

    # Steps.

    def declare_graph(self) -> None:
        graph = self.chance.choice(GRAPHS)
        self.declared[graph] = frozenset(self.chance.sample(PROPERTIES, self.chance.randint(0, 3)))

    def drop_graph(self) -> None:
        self.declared.pop(self.chance.choice(GRAPHS), None)

    def comment(self) -> None:
        self.comments += 1

    def toggle_query(self) -> None:
        self.queries ^= {self.chance.choice(GRAPHS)}

    def toggle_policy(self) -> None:
        self.bound ^= {self.chance.choice(GRAPHS)}

    def change_retention(self) -> None:
        graph, keep = self.chance.choice(GRAPHS), self.chance.randint(0, 3)
        self.kept[graph] = keep
        if keep == 0:
            del self.kept[graph]

    def run_apply(self) -> None:
        report = apply(self.folder)
        assert not {"state_cas_mismatch", "graph_create_failed"} & set(codes(report))

    def die(self) -> None:
        """An exception that no code handles; the lock is let go, everything else stays."""
        failpoints.arm(self.chance.choice(failpoints.CLUSTER_POINTS), "raise")
        try:
            apply(self.folder)
        except failpoints.FailpointRaised:
            pass
        finally:
            failpoints.disarm_all()

    def change_directly(self) -> None:
        graph = self.chance.choice(GRAPHS)
        if not self.exists(graph):
            return
        body = "".join(f"  {each}\n" for each in self.chance.sample(PROPERTIES, 2))
        source = SourceText(f"node Person {{\n  name: String @key\n{body}}}\n", "direct.pg")
        some = GraphDeclaration(graph, "direct.pg")
        change_schema(str(self.uri(graph)), source, some, Settings(), actor=None, lossy=True)

    def insert(self) -> None:
        graph = self.chance.choice(GRAPHS)
        if self.exists(graph):
            name = f"n{self.chance.randint(0, 10**9)}"
            with omnigraph.open(self.uri(graph)) as live:
                live.mutate(f'insert Person {{ name: "{name}" }}')

    def lose_root(self) -> None:
        graph = self.chance.choice(GRAPHS)
        if self.exists(graph) and self.chance.random() < 0.3:
            shutil.rmtree(self.uri(graph))

    def refresh(self) -> None:
        commands.refresh(call(self.folder))

    def approve_all(self) -> None:
        for gate in plan(self.folder).gates:
            commands.approve(call(self.folder, "bob"), gate.resource)

    # Checks.

    def names(self, graph: str) -> set[str]:
        with omnigraph.open(self.uri(graph), read_only=True) as live:
            found = live.query("match { $p: Person } return { $p.name as name }")
            return {row["name"] for row in found}

    def step(self) -> None:
        before = {graph: self.names(graph) for graph in GRAPHS if self.exists(graph)}
        steps = (
            self.declare_graph,
            self.declare_graph,
            self.drop_graph,
            self.comment,
            self.toggle_query,
            self.toggle_policy,
            self.change_retention,
            self.run_apply,
            self.run_apply,
            self.die,
            self.die,
            self.change_directly,
            self.insert,
            self.insert,
            self.refresh,
            self.approve_all,
            self.lose_root,
        )
        chosen = self.chance.choice(steps)
        chosen()
        self.write()
        if chosen not in (self.run_apply, self.die, self.lose_root):
            return
        for graph, rows in before.items():
            gone = not self.exists(graph) or not rows <= self.names(graph)
            if gone and chosen != self.lose_root:
                assert graph not in self.declared or self.approved(graph), f"{graph} lost rows"

    def approved(self, graph: str) -> bool:
        """Whether a person had agreed to delete the graph or to create it again."""
        return any(
            f"graph.{graph}" in file.read_text()
            for file in (self.folder / "__cluster" / "approvals").glob("*.json")
        )

    def converge(self) -> None:
        for _ in range(4):
            self.approve_all()
            report = apply(self.folder)
            if report.body.get("converged"):
                break
        assert report.body["converged"], [str(each) for each in report.diagnostics]
        assert plan(self.folder).changes == []
        assert not apply(self.folder).body["state_written"]
        live = {each.name.removesuffix(".omni") for each in (self.folder / "graphs").glob("*.omni")}
        assert live == set(self.declared)
        for graph in self.declared:
            rule = applied_graph(str(self.folder), graph, {}).retention
            assert rule == ({"keep": self.kept[graph]} if graph in self.kept else None)
            with omnigraph.open(self.uri(graph), read_only=True) as found:
                assert found.schema.show().source == self.schema(graph)
        assert commands.refresh(call(self.folder)).ok
        assert not list((self.folder / "__cluster" / "recoveries").glob("*"))
        config = read_config_directory(self.folder, {}).config
        assert config is not None


def run(folder: Path, seed: int, steps: int) -> None:
    write(folder, people_gq=BY_NAME, devs_yaml=POLICY)
    model = Model(folder, random.Random(seed))
    model.declare_graph()
    model.write()
    model.run_apply()
    for _ in range(steps):
        model.step()
    if not model.declared:
        model.declare_graph()
        model.write()
    model.converge()


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_end_converged(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, 25)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(30))
def test_many_random_histories_end_converged(tmp_path: Path, number: int) -> None:
    """Fresh seeds with `CLUSTER_SEED=N`; a failure shows the seed in the name of its folder."""
    seed = int(os.environ.get("CLUSTER_SEED", "100")) + number
    run(tmp_path / f"seed-{seed}", seed, 60)
