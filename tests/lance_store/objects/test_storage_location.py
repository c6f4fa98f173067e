from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.objects.storage_location import parse_location, s3_options


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, {}),
        ({"AWS_ENDPOINT_URL": "http://a"}, {"aws_endpoint": "http://a"}),
        ({"AWS_ENDPOINT_URL_S3": "http://b"}, {"aws_endpoint": "http://b"}),
        (
            {"AWS_ENDPOINT_URL_S3": "http://b", "AWS_ENDPOINT_URL": "http://a"},
            {"aws_endpoint": "http://b"},
        ),
        ({"AWS_ENDPOINT_URL_S3": "", "AWS_ENDPOINT_URL": "http://a"}, {"aws_endpoint": "http://a"}),
        ({"AWS_ACCESS_KEY_ID": "k"}, {"aws_access_key_id": "k"}),
        ({"AWS_SECRET_ACCESS_KEY": "s"}, {"aws_secret_access_key": "s"}),
        ({"AWS_SESSION_TOKEN": "t"}, {"aws_session_token": "t"}),
        ({"AWS_REGION": "eu-1"}, {"aws_region": "eu-1"}),
        ({"AWS_DEFAULT_REGION": "eu-2"}, {"aws_region": "eu-2"}),
        ({"AWS_REGION": "eu-1", "AWS_DEFAULT_REGION": "eu-2"}, {"aws_region": "eu-1"}),
        ({"AWS_ALLOW_HTTP": "true"}, {"allow_http": "true"}),
        ({"AWS_ALLOW_HTTP": "1"}, {"allow_http": "true"}),
        ({"AWS_ALLOW_HTTP": "false"}, {}),
        ({"AWS_S3_FORCE_PATH_STYLE": "true"}, {"aws_virtual_hosted_style_request": "false"}),
        ({"AWS_S3_FORCE_PATH_STYLE": "False"}, {"aws_virtual_hosted_style_request": "true"}),
        ({"HOME": "/root", "AWS_PROFILE": "x"}, {}),
    ],
)
def test_environment_variables_become_options(environment: dict, options: dict) -> None:
    assert s3_options(environment) == options


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix"),
    [
        ("s3://b/p/q", "b", "p/q"),
        ("s3://b/p/", "b", "p"),
        ("s3://b//p//q", "b", "p/q"),
        ("s3://b", "b", ""),
        ("s3://b/", "b", ""),
        ("S3://b/p", "b", "p"),
    ],
)
def test_s3_addresses(uri: str, bucket: str, prefix: str) -> None:
    location = parse_location(uri, {"AWS_REGION": "r"})
    assert (location.bucket, location.prefix, location.path) == (bucket, prefix, None)
    assert not location.is_local
    assert location.options == {"aws_region": "r"}
    expected = "/".join(part for part in (f"s3://{bucket}", prefix, "__manifest") if part)
    assert location.child("__manifest") == expected


@pytest.mark.parametrize("uri", ["/tmp/g", "/tmp/g/", "file:///tmp/g", Path("/tmp/g")])
def test_local_addresses(uri: str | Path) -> None:
    location = parse_location(uri, {"AWS_REGION": "r"})
    assert (location.path, location.uri, location.is_local) == (Path("/tmp/g"), "/tmp/g", True)
    assert location.options == {}


def test_a_relative_path_is_fixed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_location("g.omni", {}).path == tmp_path / "g.omni"
    assert parse_location("file:///with%20space", {}).path == Path("/with space")
    assert parse_location("100%20.omni", {}).path == tmp_path / "100%20.omni"


@pytest.mark.parametrize(
    "uri",
    [
        "s3://b/a%20b",
        "s3://b/a?x",
        "s3://b/a#x",
        "s3://",
        "s3:///p",
        "gs://b/p",
        "http://h/graphs/g",
        "file://relative/path",
    ],
)
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_location(uri, {})
    assert caught.value.uri == uri
