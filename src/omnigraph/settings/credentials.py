"""Tokens for servers: the file that `login` writes, and which token goes to which address.

The file has one section for each server, named as in the config file:

[prod]
token = …

Only its owner may read it. A token of a named server is sent to that server and to no other
address, so an address is compared by scheme, host, port and whole path segments, never as a text.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from omnigraph.errors import InvalidArgument
from omnigraph.settings.config_file import token_variable

TOKEN_VARIABLES = ("OMNIGRAPH_BEARER_TOKEN", "OMNIGRAPH_TOKEN")
"""A token for every server that has none of its own; the first one that is set."""
_SECTION = re.compile(r"\[([^\[\]]+)\]")
_SERVER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TOKEN = re.compile(r"[!-~]+")
_PORTS = {"http": 80, "https": 443}
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials file; a missing file is empty."""

    path: Path

    def tokens(self) -> dict[str, str]:
        """The tokens by server. A file that other users can read is refused."""
        return dict(_tokens(self._lines(), self.path))

    def store(self, server: str, token: str) -> None:
        """Add or replace the token of a server; everything else in the file stays."""
        if not _SERVER.fullmatch(server):
            raise InvalidArgument(
                f"{server!r} is no name of a server: letters, digits, `_` and `-`, no digit first"
            )
        checked(token, "the token")
        self._replace(server, f"token = {token}")

    def remove(self, server: str) -> bool:
        """Remove the section of a server; False if there is none."""
        if server not in self.tokens():
            return False
        self._replace(server, None)
        return True

    def _replace(self, server: str, line: str | None) -> None:
        """Set the line with the token of a server, or remove its section without a line."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self.path.parent):
                lines = self._lines()
                dict(_tokens(lines, self.path))  # a file that cannot be read is not rewritten
                self._write(_replaced(lines, server, line))
        except OSError as error:
            raise InvalidArgument(
                f"cannot write {self.path}: {error.strerror}", file=str(self.path)
            ) from None

    def _lines(self) -> list[str]:
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidArgument(
                f"cannot read {self.path}: {error.strerror}", file=str(self.path)
            ) from None
        if mode & _OTHERS:
            raise InvalidArgument(
                f"other users may read {self.path} (mode {stat.S_IMODE(mode):04o}), so its tokens "
                f"are not used: run chmod 600 {self.path}, and replace tokens that were seen",
                file=str(self.path),
            )
        try:
            return data.decode("utf-8").splitlines()
        except UnicodeDecodeError:
            raise InvalidArgument(
                f"{self.path}: the text is not UTF-8", file=str(self.path)
            ) from None

    def _write(self, lines: list[str]) -> None:
        """Replace the file as a whole; a reader sees the old or the new one, with mode 0600."""
        descriptor, name = tempfile.mkstemp(prefix=".credentials-", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Only one process at a time changes the file, so no change is lost."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _tokens(lines: list[str], path: Path) -> Iterator[tuple[str, str]]:
    """Errors name the line and do not repeat it, because it may hold a token."""
    server: str | None = None
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        heading = _SECTION.fullmatch(text)
        if heading is not None:
            server = heading[1].strip()
            continue
        key, equals, value = text.partition("=")
        if not equals or server is None:
            problem = "is no `[server]` and no `token = …`" if server else "is in no `[server]`"
            raise _wrong_line(path, number, problem)
        if key.strip() != "token":
            continue
        if server in seen:
            raise _wrong_line(path, number, f"is a second token of [{server}]")
        if not _TOKEN.fullmatch(value.strip()):
            raise _wrong_line(path, number, "has a token with spaces or other characters")
        seen.add(server)
        yield server, value.strip()


def _wrong_line(path: Path, line: int, problem: str) -> InvalidArgument:
    return InvalidArgument(f"{path}:{line}: this line {problem}", file=str(path), line=line)


def _replaced(lines: list[str], server: str, token_line: str | None) -> list[str]:
    """The lines with another token of a server; without one its section goes, except comments."""
    start, end = _section(lines, server)
    before, section, after = lines[:start], lines[start:end], lines[end:]
    others = [line for line in section[1:] if line.partition("=")[0].strip() != "token"]
    if token_line is None:
        return [*before, *(line for line in others if line.strip()[:1] in ("#", ";")), *after]
    if section:
        return [*before, section[0], token_line, *others, *after]
    gap = [""] if before else []
    return [*before, *gap, f"[{server}]", token_line]


def _section(lines: list[str], server: str) -> tuple[int, int]:
    """Where a section begins and ends; both are the end of the file if there is none."""
    start = None
    for at, line in enumerate(lines):
        heading = _SECTION.fullmatch(line.strip())
        if heading is not None and start is not None:
            return start, at
        if heading is not None and heading[1].strip() == server:
            start = at
    return (len(lines), len(lines)) if start is None else (start, len(lines))


def checked(token: str, what: str) -> str:
    """The token; one that a header cannot hold is refused and not repeated."""
    if not _TOKEN.fullmatch(token):
        raise InvalidArgument(
            f"{what} is empty, or has spaces or characters that no token has: a token is one word"
        )
    return token


@dataclass(frozen=True, slots=True)
class TokenFinder:
    """Finds the token for an address."""

    servers: Mapping[str, str]
    """The URLs of servers, by name."""
    environment: Mapping[str, str]
    credentials: Credentials

    def token(self, url: str, server: str | None = None) -> str | None:
        """The token of the named server, or of the server that has this address."""
        name = server if server is not None else server_of(url, self.servers)
        if name is not None:
            variable = token_variable(name)
            if self.environment.get(variable):
                return checked(self.environment[variable], variable)
            found = self.credentials.tokens().get(name)
            if found is not None:
                return found
        for variable in TOKEN_VARIABLES:
            if self.environment.get(variable):
                return checked(self.environment[variable], variable)
        return None


def server_of(url: str, servers: Mapping[str, str]) -> str | None:
    """The server whose URL is the longest beginning of this address, on a path boundary."""
    wanted = _parts(url)
    if wanted is None:
        return None
    best: tuple[int, str] | None = None
    for name, base in servers.items():
        known = _parts(base)
        if known is None or known[0] != wanted[0] or known[1] != wanted[1][: len(known[1])]:
            continue
        if best is None or len(known[1]) > best[0]:
            best = len(known[1]), name
    return None if best is None else best[1]


Origin = tuple[str, str, int]


def _parts(url: str) -> tuple[Origin, tuple[str, ...]] | None:
    """Scheme, host and port, and the segments of the path; None if the address is a trick."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        return None
    segments = tuple(segment for segment in parts.path.split("/") if segment)
    if any(unquote(segment) in (".", "..") for segment in segments):
        return None
    return (scheme, parts.hostname, _PORTS[scheme] if port is None else port), segments
