"""The credentials file, and which token goes to which address."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.settings.credentials import Credentials, TokenFinder, server_of

SECRET = "sk-1234567890"


@pytest.fixture
def file(tmp_path: Path) -> Credentials:
    return Credentials(tmp_path / "home" / "credentials")


def write(file: Credentials, text: str, mode: int = 0o600) -> None:
    file.path.parent.mkdir(exist_ok=True)
    file.path.write_text(text, encoding="utf-8")
    file.path.chmod(mode)


def test_a_missing_file_is_empty(file: Credentials) -> None:
    assert file.tokens() == {}
    assert file.remove("prod") is False
    assert not file.path.exists()


def test_tokens_are_stored_replaced_and_removed(file: Credentials) -> None:
    file.store("prod", "one")
    file.store("test-2", "two")
    file.store("prod", "three")
    assert file.tokens() == {"prod": "three", "test-2": "two"}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert file.remove("prod") is True
    assert file.remove("prod") is False
    assert file.tokens() == {"test-2": "two"}
    assert [entry.name for entry in file.path.parent.iterdir()] == ["credentials"]


def test_what_an_operator_wrote_stays(file: Credentials) -> None:
    write(file, "# mine\n[ a ]\ntoken=x=y\nnote = keep\n\n; about b\n[b]\n# old\ntoken = z\n")
    assert file.tokens() == {"a": "x=y", "b": "z"}
    file.store("b", "new")
    file.store("c", "more")
    text = file.path.read_text()
    kept = "# mine\n[ a ]\ntoken=x=y\nnote = keep\n\n; about b\n[b]\ntoken = new\n# old\n"
    assert text == f"{kept}\n[c]\ntoken = more\n"
    file.store("a", "x")
    assert "note = keep" in file.path.read_text()
    file.store("a", "x=y")
    assert file.tokens() == {"a": "x=y", "b": "new", "c": "more"}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_file_of_others_is_refused_and_not_rewritten(file: Credentials, mode: int) -> None:
    write(file, f"[prod]\ntoken = {SECRET}\n", mode)
    for act in (file.tokens, lambda: file.store("prod", "x"), lambda: file.remove("prod")):
        with pytest.raises(InvalidArgument, match=r"run chmod 600") as caught:
            act()
        assert SECRET not in str(caught.value)
    assert SECRET in file.path.read_text()
    assert stat.S_IMODE(file.path.stat().st_mode) == mode


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"token = {SECRET}\n", 1),
        (f"[prod]\n{SECRET}\n", 2),
        (f"[prod]\ntoken = {SECRET} {SECRET}\n", 2),
        ("[prod]\ntoken =\n", 2),
        (f"[prod]\ntoken = a\n[x]\n[prod]\ntoken = {SECRET}\n", 5),
    ],
)
def test_a_wrong_line_is_named_and_not_repeated(file: Credentials, text: str, line: int) -> None:
    write(file, text)
    with pytest.raises(InvalidArgument) as caught:
        file.tokens()
    assert caught.value.line == line
    assert SECRET not in str(caught.value)
    with pytest.raises(InvalidArgument):
        file.store("other", "x")
    assert file.path.read_text() == text


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "naïve", "\x00"])
def test_a_token_is_one_word(file: Credentials, token: str) -> None:
    with pytest.raises(InvalidArgument):
        file.store("prod", token)
    assert not file.path.exists()


@pytest.mark.parametrize("name", ["", "a b", "a]b", "1a", "a\n[b", "../x"])
def test_a_name_cannot_write_another_section(file: Credentials, name: str) -> None:
    with pytest.raises(InvalidArgument):
        file.store(name, "x")
    assert not file.path.exists()


def test_logins_at_once_lose_nothing(file: Credentials) -> None:
    names = [f"s{number}" for number in range(12)]
    threads = [threading.Thread(target=file.store, args=(name, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.tokens() == {name: name for name in names}


def test_a_write_that_fails_leaves_the_old_file(
    file: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.store("prod", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidArgument, match="No space left"):
        file.store("prod", "new")
    assert file.tokens() == {"prod": "old"}
    assert [entry.name for entry in file.path.parent.iterdir()] == ["credentials"]


SERVERS = {
    "plain": "http://h:80",
    "secure": "https://h",
    "team": "https://h/team-a",
    "deep": "https://h/team-a/x/",
    "port": "http://h:8080",
    "six": "http://[::1]:8080",
}


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://h", "plain"),
        ("HTTP://H/graphs/g", "plain"),
        ("http://h:80/graphs/g", "plain"),
        ("https://h:443/graphs/g", "secure"),
        ("https://h/team-a", "team"),
        ("https://h/team-a/graphs/g", "team"),
        ("https://h/team-a/x/graphs/g", "deep"),
        ("https://h/team-ab/graphs/g", "secure"),
        ("https://h//team-a//graphs/g", "team"),
        ("http://h:8080/x", "port"),
        ("http://[::1]:8080/graphs/g", "six"),
        ("http://h:80-evil/graphs/g", None),
        ("http://h:80.evil.example/graphs/g", None),
        ("http://h.evil.example/graphs/g", None),
        ("http://h@evil.example/graphs/g", None),
        ("http://h:80@evil.example/graphs/g", None),
        ("http://evil.example/http://h:80", None),
        ("http://evil.example#@h:80", None),
        ("http://evil.example?http://h:80", None),
        ("http://evil.example\\@h:80/graphs/g", None),
        ("http://h:0/graphs/g", None),
        ("http://h:81/graphs/g", None),
        ("ftp://h:80/graphs/g", None),
        ("https://h/team-a/../team-b/graphs/g", None),
        ("https://h/team-a/%2E%2e/team-b/graphs/g", None),
        ("http://[::1/graphs/g", None),
        ("", None),
    ],
)
def test_a_server_is_found_by_its_parts(url: str, server: str | None) -> None:
    assert server_of(url, SERVERS) == server


def test_a_wrong_entry_matches_nothing() -> None:
    for base in ("", "h", "http://", "http://h:80-evil", "http://a@h"):
        assert server_of("http://h:80/graphs/g", {"wrong": base}) is None


def test_the_order_of_tokens(file: Credentials) -> None:
    environment: dict[str, str] = {}
    finder = TokenFinder({"prod-1": "http://h", "other": "http://o"}, environment, file)
    here = "http://h/graphs/g"
    assert finder.token(here) is None
    environment["OMNIGRAPH_TOKEN"] = "any-2"
    assert finder.token(here) == "any-2"
    environment["OMNIGRAPH_BEARER_TOKEN"] = "any"
    assert finder.token(here) == finder.token("http://unknown") == "any"
    file.store("prod-1", "kept")
    assert (finder.token(here), finder.token("http://unknown")) == ("kept", "any")
    environment["OMNIGRAPH_TOKEN_PROD_1"] = "named"
    assert (finder.token(here), finder.token("http://o")) == ("named", "any")
    environment["OMNIGRAPH_TOKEN_PROD_1"] = ""
    assert finder.token(here) == "kept"
    environment["OMNIGRAPH_TOKEN_PROD_1"] = "with space"
    with pytest.raises(InvalidArgument, match="OMNIGRAPH_TOKEN_PROD_1") as caught:
        finder.token(here)
    assert "with space" not in str(caught.value)


def test_two_names_of_one_server_have_their_own_tokens(file: Credentials) -> None:
    file.store("reader", "r")
    file.store("admin", "a")
    finder = TokenFinder({"reader": "http://h", "admin": "http://h"}, {}, file)
    assert (finder.token("http://h", "admin"), finder.token("http://h")) == ("a", "r")
