from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import InvalidArgument
from omnigraph.values.json_values import parse_blob, write_blob


@given(st.binary(max_size=100))
def test_bytes_survive_their_text(content: bytes) -> None:
    assert parse_blob(write_blob(content)) == content


@pytest.mark.parametrize(
    "text", ["base64:a", "base64:****", "base64:YQ= =", "base64:YQ", "base64:é"]
)
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not base64"):
        parse_blob(text)


@pytest.mark.parametrize("text", ["", "s3://bucket/x", "/etc/passwd", "BASE64:YQ=="])
def test_external_uris_are_denied(text: str) -> None:
    with pytest.raises(InvalidArgument, match="does not allow"):
        parse_blob(text)
