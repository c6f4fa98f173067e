from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ExternalBlobDenied, InvalidArgument
from omnigraph.values.blob_columns import has_external, judged_column
from omnigraph.values.blob_values import blob_value, judged_blob, parse_blob, write_blob
from omnigraph.values.external_blobs import ExternalBases, external_cell

HERE = ExternalBases.of(["s3://bucket/pictures"])
URI = "s3://bucket/pictures/ada.jpg"


@given(st.binary(max_size=100))
def test_bytes_survive_their_text(content: bytes) -> None:
    assert parse_blob(write_blob(content)) == content
    assert blob_value(content) == content


@pytest.mark.parametrize(
    "text", ["base64:a", "base64:****", "base64:YQ= =", "base64:YQ", "base64:é"]
)
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not base64"):
        parse_blob(text, HERE)


@pytest.mark.parametrize("text", ["", URI, "/etc/passwd", "BASE64:YQ=="])
def test_external_uris_are_denied_by_default(text: str) -> None:
    with pytest.raises(ExternalBlobDenied, match="does not allow"):
        parse_blob(text)


def test_an_allowed_uri_survives_as_a_cell() -> None:
    cell = parse_blob(URI, HERE)
    assert cell == external_cell(URI) != URI.encode()
    assert write_blob(cell) == URI
    assert blob_value(cell) == URI


def test_bytes_that_look_like_an_external_blob_are_judged_as_one() -> None:
    """Files of Parquet and Arrow carry external blobs so. A forged cell must not pass as bytes."""
    forged = external_cell("file:///etc/passwd")
    for given_value in (forged, bytearray(forged), write_base64(forged)):
        with pytest.raises(ExternalBlobDenied, match="no allowed base"):
            judged_blob(given_value, HERE)
    assert judged_blob(external_cell(URI), HERE) == external_cell(URI)
    assert judged_blob(write_base64(external_cell(URI)), HERE) == external_cell(URI)
    with pytest.raises(ExternalBlobDenied):
        judged_blob(external_cell("") + b"\xff\xfe", HERE)


def write_base64(content: bytes) -> str:
    import base64

    return "base64:" + base64.b64encode(content).decode()


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string()])
def test_columns_are_judged_cell_by_cell(kind: pa.DataType) -> None:
    values: list[str | bytes | None]
    if pa.types.is_string(kind):
        values = ["base64:YQ==", None, URI]
    else:
        values = [b"a", None, external_cell(URI)]
    column = pa.array(values, kind)
    assert judged_column(column, HERE).to_pylist() == [b"a", None, external_cell(URI)]
    with pytest.raises(ExternalBlobDenied):
        judged_column(column, ExternalBases())


def test_columns_without_external_blobs_are_only_cast() -> None:
    column = pa.array([b"a", None, b"\x00omnigraph", b""], pa.large_binary())
    assert not has_external(column)
    assert judged_column(column, ExternalBases()).equals(column)


@pytest.mark.parametrize("value", [3, 2.5, ["a"], {"uri": URI}])
def test_other_values_are_no_blobs(value: object) -> None:
    with pytest.raises(InvalidArgument, match="bytes or a text"):
        judged_blob(value, HERE)
