"""Bearer tokens: sources, forms, expiry and reload."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument, Unauthenticated
from omnigraph.server.tokens import COMMAND, FILE, INLINE, ONE, Tokens
from omnigraph.values.clock import SYSTEM_CLOCK


def of(**given: Any) -> Tokens:
    return Tokens({INLINE: json.dumps(given)})


def test_forms_of_tokens() -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    tokens = of(ada=" plain ", bob={"sha256": digest}, cy={"tokens": ["c1", "c2"]})
    assert tokens.actor_of("Bearer plain") == "ada"
    assert tokens.actor_of("bEaReR secret") == "bob"
    assert tokens.actor_of("Bearer c1") == tokens.actor_of("Bearer c2") == "cy"
    for wrong in (None, "plain", "Basic plain", "Bearer ", "Bearer plainx", "Bearer é"):
        with pytest.raises(Unauthenticated):
            tokens.actor_of(wrong)


def test_every_token_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time of an answer does not tell which token was nearly right."""
    compared: list[bool] = []
    compare = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append(compare(one, other))
        return compared[-1]

    monkeypatch.setattr("omnigraph.server.tokens.hmac.compare_digest", counted)
    tokens = of(ada="a", bob="b", cy="c")
    for given, found in (("a", 1), ("c", 1), ("x", 0)):
        compared.clear()
        with suppress(Unauthenticated):
            tokens.actor_of(f"Bearer {given}")
        assert (len(compared), sum(compared)) == (3, found)


def test_tokens_end() -> None:
    past, future = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00+00:00"
    tokens = of(
        old={"tokens": ["o"], "expires_at": past}, new={"tokens": ["n"], "expires_at": future}
    )
    assert tokens.actor_of("Bearer n") == "new"
    with pytest.raises(Unauthenticated, match="expired"):
        tokens.actor_of("Bearer o")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no json", "not JSON"),
        ("[1]", "object"),
        ('{" ": "x"}', "without an actor"),
        ('{"ada": " "}', "blank"),
        ('{"ada": "x", "bob": "x"}', "same token"),
        ('{"ada": "x", "bob": "y", "ada": "z"}', "named twice"),
        ('{"ada": {"sha256": "12"}}', "hexadecimal"),
        ('{"ada": {"tokens": []}}', "list of texts"),
        ('{"ada": {"tokens": ["x"], "expires_at": "soon"}}', "RFC 3339"),
        ('{"ada": {"token": "x"}}', "sha256"),
        ('{"ada": ["x"]}', "sha256"),
    ],
)
def test_wrong_tokens_are_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        Tokens({INLINE: text})


def test_sources(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"ada": "of the file"}')
    both = Tokens({ONE: "one", FILE: str(file), INLINE: '{"bob": "not read"}'})
    assert both.sources == [ONE, FILE, INLINE]
    assert both.actor_of("Bearer one") == "default"
    assert both.actor_of("Bearer of the file") == "ada"
    assert len(both) == 2
    printed = f"{sys.executable} -c 'print({json.dumps(json.dumps({'cy': 'c'}))})'"
    command = Tokens({COMMAND: printed, ONE: "not read"})
    assert (len(command), command.actor_of("Bearer c")) == (1, "cy")
    with pytest.raises(InvalidArgument, match="exit code 3"):
        Tokens({COMMAND: f"{sys.executable} -c 'raise SystemExit(3)'"})


def test_a_changed_file_is_read_again_and_a_bad_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"ada": "first"}')
    tokens = Tokens({FILE: str(file)}, SYSTEM_CLOCK)
    assert not tokens.reload_if_changed()
    file.write_text('{"ada": "another one"}')
    assert tokens.reload_if_changed()
    assert tokens.actor_of("Bearer another one") == "ada"
    for bad in ("{", "{}"):
        file.write_text(bad)
        assert not tokens.reload_if_changed()
        assert tokens.actor_of("Bearer another one") == "ada"
    file.unlink()
    assert not tokens.reload_if_changed()
    assert len(tokens) == 1
