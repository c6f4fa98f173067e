"""Which addresses are allowed: one spelling for each object, and no way out of a base."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ExternalBlobDenied, InvalidArgument
from omnigraph.values.external_blobs import ExternalBases, base_problem, shown_uri

WEB = "https://cdn.example.com/pictures"
S3 = "s3://bucket/pictures"
ALLOWED = ExternalBases.of([WEB, S3, "http://127.0.0.1:8000", "file:///data/pictures/"])


@pytest.mark.parametrize(
    "uri",
    [
        f"{WEB}/ada.jpg",
        f"{WEB}/2024/a%20b.jpg",
        f"{WEB}/a@b:c,d;e=f!$&'()*+.jpg",
        f"{WEB}/100%25.jpg",
        f"{WEB}/%C3%A9.jpg",
        f"{WEB}/..a/.b/c..",
        f"{S3}/x",
        "http://127.0.0.1:8000/x",
        "file:///data/pictures/x",
    ],
)
def test_objects_below_a_base_are_allowed(uri: str) -> None:
    assert ALLOWED.judge(uri) == uri


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("https://cdn.example.com/pictures-evil/a", "no allowed base"),
        ("https://cdn.example.com/picture", "no allowed base"),
        ("https://cdn.example.com.evil.org/pictures/a", "no allowed base"),
        ("https://cdn.example.com:443/pictures/a", "no allowed base"),
        ("http://cdn.example.com/pictures/a", "no allowed base"),
        ("s3://bucket-evil/pictures/a", "no allowed base"),
        ("s3://bucket/pictures.old/a", "no allowed base"),
        ("file:///etc/passwd", "no allowed base"),
        (WEB, "no allowed base"),
        (f"{WEB}/", "canonical"),
        (f"{WEB}/../secret", "canonical"),
        (f"{WEB}/a/../../secret", "canonical"),
        (f"{WEB}/./a", "canonical"),
        (f"{WEB}//a", "canonical"),
        (f"{WEB}/%2e%2e/secret", "upper case"),
        (f"{WEB}/%2E%2E/secret", "must not percent-encode"),
        (f"{WEB}/.%2E/secret", "must not percent-encode"),
        (f"{WEB}/%252E%252E/secret", "twice"),
        (f"{WEB}/..%2Fsecret", "encoded slash"),
        (f"{WEB}/..%5Csecret", "encoded slash"),
        (f"{WEB}/a%00.jpg", "control"),
        (f"{WEB}/a%0D%0ASet-Cookie:x", "control"),
        (f"{WEB}/%41", "must not percent-encode"),
        (f"{WEB}/%", "percent-encoded"),
        (f"{WEB}/..\\secret", "percent-encoded"),
        (f"{WEB}/a b", "percent-encoded"),
        (f"{WEB}/a\r\nLocation: x", "percent-encoded"),
        (f"{WEB}/é", "percent-encoded"),
        (f"{WEB}/a\u2215b", "percent-encoded"),
        ("https://cdn.example.com\u2215pictures/a", "plain host"),
        ("https://cdn。example.com/pictures/a", "plain host"),
        ("https://user:pw@cdn.example.com/pictures/a", "credentials"),
        ("https://cdn.example.com@evil.org/pictures/a", "credentials"),
        ("https://evil.org\\@cdn.example.com/pictures/a", "credentials"),
        (f"{WEB}/a?X-Amz-Signature=1", "query"),
        (f"{WEB}/a?", "query"),
        (f"{WEB}/a#b", "fragment"),
        (f"{WEB}#/../a", "fragment"),
        ("https://CDN.example.com/pictures/a", "lower case"),
        ("HTTPS://cdn.example.com/pictures/a", "lower case"),
        ("S3://bucket/pictures/a", "lower case"),
        ("https://cdn.example.com./pictures/a", "plain host"),
        ("https://[::1]/pictures/a", "plain host"),
        ("https:///pictures/a", "plain host"),
        ("file://localhost/data/pictures/a", "without a host"),
        ("javascript:alert(1)", "absolute"),
        ("javascript://cdn.example.com/pictures/%0aalert(1)", "scheme"),
        ("data:text/html,x", "absolute"),
        ("gs://bucket/a", "scheme"),
        ("/data/pictures/a", "absolute"),
        ("//cdn.example.com/pictures/a", "absolute"),
        (f" {WEB}/a", "absolute"),
        (f"{WEB}/{'a' * 2100}", "absolute"),
        ("", "absolute"),
    ],
)
def test_everything_else_is_denied(uri: str, why: str) -> None:
    with pytest.raises(ExternalBlobDenied, match=why) as caught:
        ALLOWED.judge(uri)
    assert "pw@" not in str(caught.value)
    assert "Signature=1" not in str(caught.value)


@given(st.text(alphabet="./%2eEfF5c\\a:@?#", max_size=12))
def test_no_spelling_below_a_base_leaves_it(rest: str) -> None:
    """Decoded as often as a careless server may do it, an accepted path has no way up."""
    from urllib.parse import unquote, urlsplit

    uri = f"{WEB}/{rest}"
    try:
        ALLOWED.judge(uri)
    except ExternalBlobDenied:
        return
    path = urlsplit(uri).path
    for _ in range(3):
        path = unquote(path)
        parts = path.replace("\\", "/").split("/")
        assert parts[:2] == ["", "pictures"]
        assert not {".", ".."} & set(parts)
    assert urlsplit(uri).netloc == "cdn.example.com"


def test_nothing_is_allowed_without_bases() -> None:
    for uri in (f"{WEB}/a", f"{S3}/a", "file:///data/pictures/a"):
        with pytest.raises(ExternalBlobDenied, match="does not allow"):
            ExternalBases().judge(uri)


def test_links_do_not_lead_out_of_a_folder(tmp_path: Path) -> None:
    base, outside = tmp_path / "base", tmp_path / "outside"
    base.mkdir()
    outside.mkdir()
    (outside / "secret").write_bytes(b"x")
    (base / "inside").write_bytes(b"x")
    (base / "link").symlink_to(outside / "secret")
    (base / "folder").symlink_to(outside)
    (base / "own").symlink_to(base / "inside")
    allowed = ExternalBases.of([f"file://{base}"])
    for name in ("inside", "own", "not-there", "not/there"):
        allowed.judge(f"file://{base}/{name}")
    for name in ("link", "folder/secret"):
        with pytest.raises(ExternalBlobDenied, match="symbolic link"):
            allowed.judge(f"file://{base}/{name}")


def test_a_base_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "base").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "x").write_bytes(b"x")
    allowed = ExternalBases.of([f"file://{tmp_path}/base"])
    allowed.judge(f"file://{tmp_path}/base/x")
    with pytest.raises(ExternalBlobDenied, match="no allowed base"):
        allowed.judge(f"file://{tmp_path}/real/x")


@pytest.mark.parametrize(
    "base",
    [
        "file:///",
        "file:relative",
        "/data",
        "s3://",
        "https://user@host/a",
        "https://HOST/a",
        "https://host/a/../b",
        "https://host/a?x",
        "https://host//a",
        "ftp://host/a",
        "https://host/%2e%2e",
        "",
    ],
)
def test_wrong_bases(base: str) -> None:
    assert base_problem(base) is not None
    with pytest.raises(InvalidArgument, match="the base") as caught:
        ExternalBases.of([base])
    assert caught.value.setting == "external_blobs"


def test_bases_do_not_overlap() -> None:
    with pytest.raises(InvalidArgument, match="overlaps"):
        ExternalBases.of(["s3://bucket/a", "s3://bucket/a/b"])
    ExternalBases.of(["s3://bucket/a", "s3://bucket/ab"])


def test_secrets_are_not_shown() -> None:
    assert shown_uri("https://user:pw@host/a") == "https://…"
    assert shown_uri("https://host/a?token=1") == "https://host/a…"
    assert shown_uri(f"https://host/{'a' * 100}").endswith("a…")
