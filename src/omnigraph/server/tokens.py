"""Bearer tokens: where they come from, and which actor one belongs to.

Only SHA-256 digests are kept. A presented token is compared with every entry in constant time.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import logging
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import InvalidArgument, Unauthenticated
from omnigraph.values.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

ONE = "OMNIGRAPH_SERVER_BEARER_TOKEN"
FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
INLINE = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
COMMAND = "OMNIGRAPH_SERVER_BEARER_TOKENS_COMMAND"
_COMMAND_SECONDS = 30
_DEFAULT_ACTOR = "default"


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """The digest of one token, its actor, and the moment at which it ends."""

    actor: str
    digest: bytes
    expires_at: int | None = None
    """Microseconds since the epoch."""


def parse_tokens(text: str, source: str) -> list[TokenEntry]:
    """The entries of a JSON object by actor; `source` is named in errors."""
    try:
        pairs: Any = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        raise InvalidArgument(f"the tokens of {source} are not JSON: {error}") from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise InvalidArgument(f"the tokens of {source} are not a JSON object of actor and token")
    return [entry for actor, given in pairs for entry in _entries(actor, given, source)]


def _entries(actor: str, given: Any, source: str) -> Iterator[TokenEntry]:
    name = actor.strip()
    if not name:
        raise InvalidArgument(f"{source} has a token without an actor")
    if isinstance(given, str):
        yield TokenEntry(name, _digest_of(given, name, source))
        return
    is_object = isinstance(given, list) and all(isinstance(pair, tuple) for pair in given)
    members = dict(given) if is_object else {}
    unknown = members.keys() - {"sha256", "tokens", "expires_at"}
    if not members or unknown or ("sha256" in members) == ("tokens" in members):
        raise InvalidArgument(
            f"{source}: the tokens of {name!r} are a text, or an object with `sha256` or `tokens` "
            "and, if they end, `expires_at`"
        )
    ends = _moment(members["expires_at"], name, source) if "expires_at" in members else None
    if "sha256" in members:
        yield TokenEntry(name, _hex(members["sha256"], name, source), ends)
        return
    tokens = members["tokens"]
    if not isinstance(tokens, list) or not tokens or not all(isinstance(t, str) for t in tokens):
        raise InvalidArgument(f"{source}: `tokens` of {name!r} is a list of texts")
    for token in tokens:
        yield TokenEntry(name, _digest_of(token, name, source), ends)


def _digest_of(token: str, actor: str, source: str) -> bytes:
    if not token.strip():
        raise InvalidArgument(f"{source}: the token of {actor!r} is blank")
    return hashlib.sha256(token.strip().encode()).digest()


def _hex(text: object, actor: str, source: str) -> bytes:
    try:
        found = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        found = b""
    if len(found) != 32:
        raise InvalidArgument(f"{source}: `sha256` of {actor!r} is not 64 hexadecimal digits")
    return found


def _moment(text: object, actor: str, source: str) -> int:
    try:
        moment = dt.datetime.fromisoformat(str(text))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidArgument(f"{source}: `expires_at` of {actor!r} is no RFC 3339 moment: {text}")
    return int(moment.timestamp() * 1_000_000)


def _checked(entries: list[TokenEntry]) -> tuple[TokenEntry, ...]:
    """Sorted by actor; an actor or a token that occurs twice is refused."""
    seen: dict[bytes, str] = {}
    for entry in entries:
        if entry.digest in seen:
            raise InvalidArgument(f"{seen[entry.digest]!r} and {entry.actor!r} have the same token")
        seen[entry.digest] = entry.actor
    return tuple(sorted(entries, key=lambda entry: entry.actor))


def read_tokens(environment: Mapping[str, str]) -> tuple[TokenEntry, ...]:
    """The tokens of all sources that the environment names."""
    if environment.get(COMMAND):
        return _checked(_unique_actors(parse_tokens(_output(environment[COMMAND]), COMMAND)))
    found: list[TokenEntry] = []
    one = environment.get(ONE)
    if one is not None:
        found.append(TokenEntry(_DEFAULT_ACTOR, _digest_of(one, _DEFAULT_ACTOR, ONE)))
    if environment.get(FILE):
        path = Path(environment[FILE])
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{FILE}: {path} cannot be read: {error}") from None
        found += parse_tokens(text, str(path))
    elif environment.get(INLINE):
        found += parse_tokens(environment[INLINE], INLINE)
    return _checked(_unique_actors(found))


def _unique_actors(entries: list[TokenEntry]) -> list[TokenEntry]:
    """Refuse an actor that is named twice; several tokens of one actor are one name with a list."""
    previous: TokenEntry | None = None
    named: set[str] = set()
    for entry in entries:
        begins = previous is None or previous.actor != entry.actor
        if begins and entry.actor in named:
            raise InvalidArgument(f"the actor {entry.actor!r} is named twice in the tokens")
        named.add(entry.actor)
        previous = entry
    return entries


def _output(command: str) -> str:
    try:
        done = subprocess.run(
            shlex.split(command), capture_output=True, timeout=_COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InvalidArgument(f"{COMMAND} could not be run: {type(error).__name__}") from None
    if done.returncode != 0:
        raise InvalidArgument(f"{COMMAND} ended with exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


class Tokens:
    """The tokens in force. `reload` reads their sources again."""

    def __init__(self, environment: Mapping[str, str], clock: Clock = SYSTEM_CLOCK) -> None:
        self._environment = dict(environment)
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = self._file_stamp()
        self._entries = read_tokens(self._environment)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def sources(self) -> list[str]:
        """The names of the variables that tokens come from."""
        if self._environment.get(COMMAND):
            return [COMMAND]
        return [name for name in (ONE, FILE, INLINE) if self._environment.get(name)]

    def actor_of(self, authorization: str | None) -> str:
        """The actor of an `Authorization` header; every entry is compared, whatever matches."""
        if authorization is None:
            raise Unauthenticated("this server needs `Authorization: Bearer TOKEN`")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("the Authorization header is not `Bearer TOKEN`")
        digest = hashlib.sha256(token.strip().encode("latin-1")).digest()
        found: TokenEntry | None = None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        if found is None:
            raise Unauthenticated("the bearer token is not known here")
        if found.expires_at is not None and found.expires_at <= self._clock.now_micros():
            raise Unauthenticated("the bearer token has expired")
        return found.actor

    def reload(self) -> int:
        """Read the sources again; raises and keeps the old tokens when they cannot be used."""
        with self._lock:
            stamp = self._file_stamp()
            entries = read_tokens(self._environment)
            if not entries and self._entries:
                raise InvalidArgument("the token source has no tokens any more: kept the old ones")
            self._entries, self._stamp = entries, stamp
            return len(entries)

    def reload_if_changed(self) -> bool:
        """Look at the file; True when other tokens are in force now."""
        if self._file_stamp() == self._stamp:
            return False
        try:
            self.reload()
        except InvalidArgument as error:
            self._stamp = self._file_stamp()
            logger.warning("tokens not reloaded, the old ones stay: %s", error.message)
            return False
        logger.info("tokens reloaded: %d", len(self))
        return True

    def _file_stamp(self) -> tuple[int, int, int] | None:
        path = self._environment.get(FILE)
        if not path:
            return None
        try:
            found = os.stat(path)  # noqa: PTH116 - called every 30 s, a plain path is enough
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
