"""First pipelines from sample data: what is guessed, and from which evidence."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from messy_files import write_differing_files, write_messy_files

import omnigraph
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.spark.pipelines.infer_names import names_table, property_name, singular
from omnigraph.spark.pipelines.inferred_files import infer
from omnigraph.spark.pipelines.samples import SampleColumn, guess_type


@pytest.fixture(scope="module")
def inferred(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("infer")
    write_messy_files(folder / "in")
    return infer([folder / "in"], folder / "shop")


def table(inferred: Any, name: str) -> dict[str, Any]:
    return next(each for each in inferred.tables if each["name"] == name)


def types(inferred: Any, name: str) -> dict[str, str]:
    return {each["property"]: each["type"] for each in table(inferred, name)["columns"]}


def test_types(inferred: Any) -> None:
    assert types(inferred, "kunden") == {
        "kunden_nr": "String",
        "full_name": "String",
        "e_mail": "String",
        "status": "enum(aktiv, gesperrt)",
        "geburtstag": "Date",
        "umsatz": "F64",
        "column_7": "String",
    }
    assert types(inferred, "orders") == {
        "order_id": "I64",
        "customer": "String",
        "placed_at": "DateTime",
        "total": "F64",
        "note": "String",
        "zip": "String",
    }
    assert types(inferred, "products")["tags"] == "[String]"
    assert types(inferred, "products")["dims_h"] == "F64"
    assert types(inferred, "regions") == {"region_code": "String", "since": "Date"}


def test_keys_and_references(inferred: Any) -> None:
    kinds = {each["name"]: (each["kind"], each["key"]) for each in inferred.tables}
    assert kinds == {
        "kunden": ("node", "kunden_nr"),
        "orders": ("node", "order_id"),
        "products": ("node", "sku"),
        "order_items": ("edge", None),
        "regions": ("node", "region_code"),
        "stores": ("node", "code"),
    }
    (customer,) = table(inferred, "orders")["references"]
    assert customer["to"] == "Kunden"
    assert customer["matched"] == customer["values"] - 1
    assert [each["edge"] for each in table(inferred, "products")["references"]] == [
        "ProductRelated"
    ]
    assert len(table(inferred, "orders")["files"]) == 2


def test_the_files_are_ready_to_edit(inferred: Any, tmp_path: Path) -> None:
    schema = Path(inferred.schema).read_text()
    graph = omnigraph.init(tmp_path / "g.omni", schema)
    assert graph.read("Kunden").num_rows == 0
    assert graph.read("OrderItem").column_names[:1] == ["id"]
    pipeline = Path(inferred.pipeline).read_text()
    assert 'files: "../in/orders-*.csv"' in pipeline
    assert "different values (100%) are in 'sku' of products" in pipeline
    assert "// 60 rows, none missing, all different" in schema


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", "30"], "I64"),
        (["1", "2.5"], "F64"),
        (["1,234.5", "12"], "F64"),
        (["00123", "12345"], "String"),
        (["yes", "No"], "Bool"),
        (["0", "1"], "I64"),
        (["2024-02-30", "2024-01-01"], "String"),
        (["2024-02-28", "2024-01-01"], "Date"),
        (["31/12/2024", "01/02/2024"], "Date"),
        (["01/02/2024", "03/04/2024"], "String"),
        (["2024-01-01T10:00:00Z", "2024-01-01 10:00"], "DateTime"),
        (["9" * 19], "String"),
        (["low", "high"] * 12, "enum(high, low)"),
        (["low", "high"] * 3, "String"),
        (["very low", "high"] * 12, "String"),
        ([], "String"),
    ],
)
def test_guesses(texts: list[str], expected: str) -> None:
    assert guess_type(SampleColumn("x", "`x`", list(texts))).name == expected


def test_names() -> None:
    assert [
        singular(each) for each in ("companies", "People", "status", "boxes", "order_items")
    ] == [
        "company",
        "person",
        "status",
        "box",
        "order_item",
    ]
    assert property_name("Größe (cm)", "things") == "groe_cm"
    assert property_name("ID", "customers") == "customer_id"
    assert property_name("2nd", "things") == "c_2nd"
    assert names_table("billing_customer_id", "customers", "id")
    assert not names_table("quantity", "customers", "id")


def test_numbers_that_happen_to_be_ids_are_no_references(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "id,size\n" + "".join(f"{n},{n % 3 + 1}\n" for n in range(1, 9))
    )
    (tmp_path / "b.csv").write_text("id,a_id,qty\n" + "".join(f"{n},{n},2\n" for n in range(1, 9)))
    found = infer([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "out")
    references = {each["name"]: each["references"] for each in found.tables}
    assert references["a"] == []
    assert [each["column"] for each in references["b"]] == ["a_id"]


def test_tables_without_a_unique_column(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("day,place,x\n1,a,1\n1,b,1\n2,a,1\n")
    (tmp_path / "same.csv").write_text("x,y\n1,1\n1,1\n")
    infer([tmp_path], tmp_path / "out")
    schema = (tmp_path / "out" / "out.pg").read_text()
    assert "no column is unique, but 'day' and 'place' are together" in schema
    assert "so a hash of all values" in schema


def test_files_of_a_series_that_differ(tmp_path: Path) -> None:
    write_differing_files(tmp_path / "in")
    found = infer([tmp_path / "in"], tmp_path / "shop")
    customers, orders = table(found, "customers"), table(found, "orders")
    assert (customers["type"], customers["key"]) == ("Customer", "customer_id")
    assert customers["notes"] == [
        "customers-3.csv is empty",
        "the encodings differ (UTF-8 in customers-1.csv, customers-4.csv; windows-1252 in "
        "customers-2.csv), so there is a source for each",
        "customers-4.csv also has 'Country'",
        "1 of 8 rows have more or fewer cells than the header",
    ]
    # A column that is named like the key is the key, though a value is repeated.
    assert (orders["type"], orders["key"], orders["rows"]) == ("Order", "order", 5)
    file = tmp_path / "in/orders-2026-11-16.ndjson"
    assert orders["notes"] == [f"{file}, line 3: 'not JSON' is not a JSON object"]
    assert found.left_out == [str(tmp_path / "in/nothing.csv")]
    pipeline = Path(found.pipeline).read_text()
    assert 'files: ["../in/customers-1.csv", "../in/customers-3.csv"]' in pipeline
    assert 'files: "../in/orders-*.ndjson"' in pipeline, "the first file of a series"
    assert pipeline.count("on_fail: quarantine") == pipeline.count("check:")
    assert "4 different values in 5 rows" in Path(found.schema).read_text()


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file"):
        infer([tmp_path / "none.csv"], tmp_path / "out")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InvalidArgument, match="the formats are"):
        infer([tmp_path / "a.txt"], tmp_path / "out")
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(InvalidArgument, match="no rows"):
        infer([tmp_path / "empty.csv"], tmp_path / "out")
    (tmp_path / "bad.ndjson").write_text('\n{"a":\n7\n')
    with pytest.raises(InvalidArgument, match=r"line 2: .* is not a JSON object, and no other"):
        infer([tmp_path / "bad.ndjson"], tmp_path / "out")
    graph = Path(__file__).parents[3] / "examples" / "packages" / "packages.jsonl"
    with pytest.raises(InvalidArgument, match="omnigraph load"):
        infer([graph], tmp_path / "out")
    with gzip.open(tmp_path / "rows.csv.gz", "wt", encoding="cp1252") as file:
        file.write("id;name\n1;Zoë\n2;Bob\n")
    first = infer([tmp_path / "rows.csv.gz"], tmp_path / "out")
    assert 'encoding: "windows-1252"' in Path(first.pipeline).read_text()
    with pytest.raises(InvalidArgument, match="exists already: remove it, or give --replace"):
        infer([tmp_path / "rows.csv.gz"], tmp_path / "out")
    assert infer([tmp_path / "rows.csv.gz"], tmp_path / "out", replace=True) == first
