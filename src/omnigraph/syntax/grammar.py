"""A parser from a `.lark` grammar. Its syntax errors are diagnostics that say what was expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from omnigraph.syntax.diagnostics import Diagnostic
from omnigraph.syntax.grammar_tables import START, load_or_build
from omnigraph.syntax.source_text import STRINGS_AND_COMMENTS, SourceText, Span

SyntaxTree = Tree[Token]
# Called with the text before the error, the text from the error on, and the expected terminals.
HelpFinder = Callable[[str, str, frozenset[str]], str | None]

MAX_CHARACTERS = 1_048_576
MAX_NESTING = 64

_BRACKETS = re.compile(rf"{STRINGS_AND_COMMENTS}|[(){{}}\[\]]", re.DOTALL)
_MAX_SYNTAX_ERRORS = 10
_MAX_EXPECTED = 6


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """The grammar file of a language, and how its syntax errors are described."""

    path: Path
    parse_code: str
    # Terminal -> its name in messages.
    terminal_names: Mapping[str, str]
    # Sets of terminals that have one name ("an expression"), largest first.
    groups: tuple[tuple[frozenset[str], str], ...]
    # The places where parsing can start again after an error.
    restart: re.Pattern[str]
    find_help: HelpFinder


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A syntax tree, or the diagnostics that explain why there is none."""

    tree: SyntaxTree | None
    diagnostics: tuple[Diagnostic, ...]


class Grammar:
    """A loaded grammar; threads can share it."""

    def __init__(self, spec: GrammarSpec) -> None:
        self._spec = spec
        self._lark = load_or_build(spec.path)

    def parse(self, source: SourceText, start: str = START) -> ParseResult:
        """Parse the whole text; after an error, continue at the next declaration to find more."""
        too_much = check_limits(source.text, self._spec.parse_code)
        if too_much:
            return ParseResult(None, (too_much,))
        try:
            return ParseResult(self._lark.parse(source.text, start=start), ())
        except UnexpectedInput as error:
            first = error
        return ParseResult(None, tuple(self._all_errors(source, start, first)))

    def _all_errors(
        self, source: SourceText, start: str, first: UnexpectedInput
    ) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        error: UnexpectedInput | None = first
        text = source.text
        while error is not None and len(found) < _MAX_SYNTAX_ERRORS:
            found.append(self._diagnose(text, start, error))
            offset = max(found[-1].span.start, 1)
            restart = self._spec.restart.search(source.text, offset)
            if restart is None:
                break
            # Blanks replace the text before, so that offsets stay the same.
            text = " " * restart.start() + source.text[restart.start() :]
            start = START
            error = self._next_error(text)
        return found

    def _next_error(self, text: str) -> UnexpectedInput | None:
        try:
            self._lark.parse(text, start=START)
        except UnexpectedInput as error:
            return error
        return None

    def _diagnose(self, text: str, start: str, error: UnexpectedInput) -> Diagnostic:
        span, found = _where(text, error)
        expected = self._accepted_before(text, start)
        message = f"unexpected {found}"
        readable = self._readable(expected)
        if readable:
            message += f", expected {readable}"
        if isinstance(error, UnexpectedCharacters):
            message = _unclosed(text, span.start) or message
        before, rest = (
            text[max(0, span.start - 80) : span.start],
            text[span.start : span.start + 80],
        )
        return Diagnostic(
            self._spec.parse_code, message, span, self._spec.find_help(before, rest, expected)
        )

    def _accepted_before(self, text: str, start: str) -> frozenset[str]:
        """The terminals that can follow here; the set in lark's error contains too many."""
        session = self._lark.parse_interactive(text, start=start)
        try:
            for _ in session.iter_parse():
                pass
        except UnexpectedInput:
            pass
        return frozenset(session.accepts())  # type: ignore[no-untyped-call]

    def _readable(self, expected: frozenset[str]) -> str:
        left = set(expected)
        words: list[str] = []
        for terminals, word in self._spec.groups:
            if terminals <= left:
                words.append(word)
                left -= terminals
        words += sorted({self._spec.terminal_names.get(t, t) for t in left})
        if len(words) > _MAX_EXPECTED:
            words = [*words[: _MAX_EXPECTED - 1], "…"]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def check_limits(text: str, code: str) -> Diagnostic | None:
    """The reason why this text is not parsed at all, or None.

    Without these limits, a hostile text could exhaust the stack or take minutes to parse.
    """
    if len(text) > MAX_CHARACTERS:
        return Diagnostic(
            code,
            f"the text has {len(text):,} characters, the limit is {MAX_CHARACTERS:,}",
            Span(0, 0),
            "split it into several files",
        )
    depth = 0
    for found in _BRACKETS.finditer(text):
        bracket = found.group()
        if bracket in "([{":
            depth += 1
            if depth > MAX_NESTING:
                return Diagnostic(
                    code,
                    f"brackets are nested deeper than {MAX_NESTING} levels",
                    Span(found.start(), found.end()),
                    "split the expression or the block",
                )
        elif bracket in ")]}":
            depth -= 1
    return None


def misspelt_keyword(rest: str, expected: frozenset[str]) -> str | None:
    """`did you mean 'return'?` when a word is close to a keyword that is expected there."""
    word = re.match(r"[A-Za-z_]+", rest)
    keywords = [terminal.lower() for terminal in expected if terminal.isalpha()]
    close = difflib.get_close_matches(word.group().lower(), keywords, n=1) if word else []
    return f"did you mean '{close[0]}'?" if close else None


def _where(text: str, error: UnexpectedInput) -> tuple[Span, str]:
    match error:
        case UnexpectedToken(token=token) if token.type != "$END":
            start = _offset(token)
            return Span(start, start + len(token)), f"'{_short(str(token))}'"
        case UnexpectedCharacters(pos_in_stream=offset):
            at = int(str(offset))
            return Span(at, at + 1), f"'{_short(text[at : at + 1])}'"
        case UnexpectedToken() | UnexpectedEOF() | _:
            end = len(text.rstrip())
            return Span(end, end), "end of the text"


def _offset(token: Token) -> int:
    return token.start_pos or 0


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _unclosed(text: str, offset: int) -> str | None:
    if text.startswith('"', offset):
        return "this string is never closed"
    if text.startswith("/*", offset):
        return "this comment is never closed"
    return None
