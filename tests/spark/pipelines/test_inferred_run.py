"""What `infer` writes is valid and runs on the files that it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from messy_files import write_differing_files, write_messy_files

import omnigraph
from omnigraph.errors import PipelineFailed
from omnigraph.spark import pipelines

pytestmark = pytest.mark.xdist_group("spark")


def test_an_inferred_pipeline_runs_on_its_files(spark: Any, tmp_path: Path) -> None:
    write_messy_files(tmp_path / "in")
    found = pipelines.infer([tmp_path / "in"], tmp_path / "shop")
    loaded = pipelines.load(found.pipeline)
    assert loaded.validate() == ()
    run = loaded.run(spark).raise_if_failed()
    inserted = {each.type: each.inserted for each in run.targets}
    pairs = next(t["rows"] for t in found.tables if t["name"] == "order_items")
    assert inserted == {
        "Kunden": 60,
        "Order": 80,
        "Product": 20,
        "Region": 2,
        "Store": 2,
        "OrderItem": pairs,
        "OrderCustomer": 79,
        "ProductRelated": 10,
    }
    # One order has an unknown customer. It is named, and the order itself is kept.
    (dangling,) = loaded.quarantine()
    assert dangling.row == {"from_key": 50, "value": "K9999", "to_key": None}
    graph = omnigraph.open(tmp_path / "shop" / "shop.omni")
    orders = {row["order_id"]: row for row in graph.read("Order").to_pylist()}
    assert orders[7]["note"] == 'two\nlines, "quoted"'
    assert orders[1]["zip"] == "01234"
    customers = graph.read("Kunden").to_pylist()
    assert {row["status"] for row in customers} == {"aktiv", "gesperrt"}
    assert {row["umsatz"] for row in customers} == {1234.5, 12.5, 0.99}
    assert {str(row["geburtstag"]) for row in customers} == {"1990-02-03", "1985-12-24", "None"}
    assert {row["full_name"] for row in customers} == {
        "Ada Lovelace",
        'Zoë "Z" Müller',
        "O'Neil; Sons",
    }
    # The header has a byte-order mark and a space.
    assert {row["city"] for row in graph.read("Store").to_pylist()} == {"Oslo", "Rome"}
    assert loaded.run(spark).status.value == "empty"


def test_files_that_differ_are_read_each_in_its_way(spark: Any, tmp_path: Path) -> None:
    write_differing_files(tmp_path / "in")
    found = pipelines.infer([tmp_path / "in"], tmp_path / "shop")
    loaded = pipelines.load(found.pipeline)
    loaded.run(spark).raise_if_failed()
    with omnigraph.open(tmp_path / "shop" / "shop.omni") as graph:
        customers = graph.read("Customer").sort_by("customer_id").to_pylist()
        orders = graph.read("Order").to_pylist()
        edges = graph.read("OrderCustomer").to_pylist()
    assert [(c["customer_id"], c["full_name"], c["city"], c["country"]) for c in customers] == [
        ("C1", "Lovelace, Ada", "London", None),
        ("C2", "Two\nLines", "Paris", None),
        ("C4", "Bob", None, None),
        ("C5", "Eve", "Oslo", None),
        ("C6", "Jürgen", "Köln", None),
        ("C7", "Zoe", "Bonn", "DE"),
    ]
    assert {row["order"]: row["total"] for row in orders} == {1: 9.5, 2: 7.0, 3: 1.0, 4: 3.0}
    assert sorted((row["src"], row["dst"]) for row in edges) == [
        ("1", "C1"),
        ("2", "C2"),
        ("4", "C7"),
    ]
    kept = {(each.step, each.rule.split(" ")[0]): each.row for each in loaded.quarantine()}
    assert kept["customers", "bad_record"]["bad_record"].strip() == "C3,only two"
    assert kept["customers", "bad_record"]["source_file"].endswith("in/customers-1.csv")
    assert kept["customers", "copy"]["city"] == "Rome"
    assert kept["orders", "bad_record"]["bad_record"] == "not JSON"
    assert kept["orders", "copy"]["total"] == 8.0
    assert kept["order_customer", "to_key"]["value"] == "C404"
    assert len(kept) == 5


def test_a_quarantine_that_cannot_be_written_fails_the_run(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("name\na\n-\n")
    (tmp_path / "taken").write_text("a file, no folder")
    (tmp_path / "p.pg").write_text("node P { name: String @key }\n")
    (tmp_path / "p.yaml").write_text(
        "version: 1\nname: p\ngraph: p.omni\nschema: p.pg\nquarantine: taken\n"
        'sources:\n  raw: {files: in.csv, format: csv, options: {header: "true"}}\n'
        "steps:\n  rows:\n    sql: SELECT name FROM raw\n"
        "    expect: [{check: \"name != '-'\", on_fail: quarantine}]\n"
        "targets:\n  - {type: P, from: rows}\n"
    )
    run = pipelines.load(tmp_path / "p.yaml").run(spark)
    assert run.status.value == "failed"
    assert isinstance(run.failure, PipelineFailed)
    assert run.failure.step == "rows"
    assert "the quarantine" in run.failure.message
    assert "cannot be written" in run.failure.message
    assert omnigraph.open(tmp_path / "p.omni").read("P").num_rows == 0
