"""`recovery list` and `recovery failpoints`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from omnigraph import failpoints
from omnigraph.cli.main import app
from omnigraph.failpoints import FailpointRaised
from omnigraph.graph.handle import Graph

runner = CliRunner()


def test_failpoints_are_listed() -> None:
    result = runner.invoke(app, ["recovery", "failpoints", "--json"])
    assert json.loads(result.stdout) == {"failpoints": list(failpoints.ALL_POINTS)}
    assert runner.invoke(app, ["recovery", "failpoints"]).stdout.split() == list(
        failpoints.ALL_POINTS
    )


def test_recoveries_are_listed(graph: Graph, uri: str) -> None:
    assert json.loads(runner.invoke(app, ["recovery", "list", uri, "--json"]).stdout) == {
        "recoveries": []
    }
    failpoints.arm("commit.after_advance_first", "raise")
    with pytest.raises(FailpointRaised):
        graph.apply({"Note": {"insert": [{"text": "x"}]}, "Knows": {"delete": ["k0"]}})
    failpoints.disarm_all()
    assert graph.refresh() == 1
    listed = json.loads(runner.invoke(app, ["recovery", "list", "--store", uri, "--json"]).stdout)
    assert [r["recovery_kind"] for r in listed["recoveries"]] == ["rolled_back"]
    (audit,) = graph.recoveries()
    assert listed == {"recoveries": [audit.to_dict()]}
    assert all(getattr(audit, name) == value for name, value in audit.to_dict().items())
    assert "rolled_back" in runner.invoke(app, ["recovery", "list", uri]).stdout


def test_a_missing_graph_is_an_error(tmp_path) -> None:
    result = runner.invoke(app, ["recovery", "list", str(tmp_path / "no"), "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["code"] == "not_found"
    assert runner.invoke(app, ["recovery", "list"]).exit_code == 2
