"""Runs the examples of a Markdown page, one after the other, as a reader would.

| fence | what happens |
|---|---|
| any with `title="name"` | is written to the file of that name |
| `console` | every `$ omnigraph …` line runs; what follows it must be what it prints |
| `pycon` | runs as a doctest; the names of a page live on to its end |
| `gq`, then directly `text` | runs on the graph that the page made last; the second is the answer |

Identifiers of commits, their times and durations are not compared, nor where the page runs.
"""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from omnigraph.cli.main import app

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)```(?P<between>\s*)",
    re.DOTALL | re.MULTILINE,
)
VOLATILE = (
    (re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "TIME"),
    (re.compile(r"\d+ min \d+ s\b"), "1 s"),
    (re.compile(r" *\d+(\.\d+)? (ms|s|kB|MB|bytes)\b"), " N"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)
RUNNABLE = ("console", "pycon")


@dataclass(frozen=True)
class Fence:
    """One fenced block and where it stands."""

    language: str
    title: str | None
    text: str
    line: int
    adjacent: bool  # nothing but white space before the next fence


def fences(page: str) -> list[Fence]:
    return list(_fences(page))


def _fences(page: str) -> Iterator[Fence]:
    for found in FENCE.finditer(page):
        indent = found["indent"]
        text = "".join(line.removeprefix(indent) for line in found["text"].splitlines(True))
        line = page.count("\n", 0, found.start()) + 1
        adjacent = page.startswith(f"{indent}```", found.end() - len(indent))
        yield Fence(found["language"], found["title"], text, line, adjacent)


def answered_queries(blocks: list[Fence]) -> list[tuple[Fence, Fence]]:
    return [
        (asked, shown)
        for asked, shown in pairwise(blocks)
        if asked.language == "gq" and asked.adjacent and shown.language == "text"
    ]


def has_examples(page: str) -> bool:
    blocks = fences(page)
    return any(b.language in RUNNABLE for b in blocks) or bool(answered_queries(blocks))


def in_this_process(words: list[str]) -> str:
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout + result.stderr


@dataclass
class PageRun:
    """One page being followed, in the current directory."""

    name: str
    home: Path
    names: dict[str, Any] = field(default_factory=dict)
    store: str | None = None
    run_command: Callable[[list[str]], str] = in_this_process
    """The words after `omnigraph` -> what it prints."""
    commands: int = 0
    """How many commands ran so far."""

    def follow(self, page: str) -> int:
        """Run every example; how many there were."""
        blocks = fences(page)
        answers = {id(asked): shown for asked, shown in answered_queries(blocks)}
        done = 0
        for block in blocks:
            if block.title:
                Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                Path(block.title).write_text(block.text, encoding="utf-8")
            step: Callable[[Fence], None] | None = {
                "console": self._console,
                "pycon": self._python,
            }.get(block.language)
            if step is not None:
                step(block)
                done += 1
            elif id(block) in answers:
                self._query(block, answers[id(block)])
                done += 1
        return done

    def _console(self, block: Fence) -> None:
        for command, shown in _commands(block.text):
            words = shlex.split(command)
            if words[0] != "omnigraph":
                continue
            if words[1] == "init":
                self.store = words[-1]
            self._same(self._run(words[1:]), shown, f"{self.name}:{block.line}: {command}")

    def _query(self, asked: Fence, shown: Fence) -> None:
        assert self.store is not None, "the page makes no graph before its first query"
        words = ["query", "-e", asked.text, "--store", self.store]
        self._same(self._run(words), shown.text, f"{self.name}:{asked.line}")

    def _run(self, words: list[str]) -> str:
        self.commands += 1
        return self.run_command([*words, "--quiet"])

    def _python(self, block: Fence) -> None:
        example = doctest.DocTestParser().get_doctest(
            block.text, self.names, self.name, self.name, block.line
        )
        said: list[str] = []
        runner = doctest.DocTestRunner(
            _Checker(self.home), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        )
        runner.run(example, out=said.append, clear_globs=False)
        self.names = example.globs
        assert not runner.failures, "".join(said)

    def _same(self, seen: str, shown: str, where: str) -> None:
        assert stable(seen, self.home).strip() == stable(shown, self.home).strip(), (
            f"{where}\n{seen}"
        )


class _Checker(doctest.OutputChecker):
    def __init__(self, home: Path) -> None:
        self._home = home

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(stable(want, self._home), stable(got, self._home), optionflags)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = step.splitlines(True)
        for count in range(1, len(lines) + 1):
            command = "".join(lines[:count])
            if _complete(command):
                yield command.replace("\\\n", " ").strip(), "".join(lines[count:])
                break


def _complete(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.rstrip("\n").endswith("\\")


def stable(text: str, home: Path) -> str:
    text = text.replace(f"{home}/", "")
    for pattern, instead in VOLATILE:
        text = pattern.sub(instead, text)
    return text
