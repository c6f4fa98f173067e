"""Golden cases in text files: a title, an input, the expected output.

    # title
    input …
    ---
    expected output …
    ===

Run the tests with `OMNIGRAPH_UPDATE_GOLDEN=1` to write the current output; then read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_BETWEEN = "\n---\n"
_END = "\n===\n"
UPDATE = os.environ.get("OMNIGRAPH_UPDATE_GOLDEN") == "1"


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case and the file it came from."""

    file: Path
    title: str
    source: str
    expected: str

    def __str__(self) -> str:
        return f"{self.file.stem}: {self.title}"


def read_cases(path: Path) -> list[GoldenCase]:
    """The cases of a file, or of every `.case` file of a folder."""
    if path.is_dir():
        return [case for file in sorted(path.glob("*.case")) for case in read_cases(file)]
    return [
        _read_case(path, block.strip("\n"))
        for block in f"{path.read_text(encoding='utf-8')}\n".split(_END)
        if block.strip()
    ]


def _read_case(path: Path, block: str) -> GoldenCase:
    first, _, rest = block.partition("\n")
    source, _, expected = f"{rest}\n".partition(_BETWEEN)
    return GoldenCase(
        path, first.removeprefix("#").strip(), source.strip("\n"), expected.strip("\n")
    )


def write_case(case: GoldenCase, actual: str) -> None:
    """Write `actual` into the file as the expected output."""
    blocks = [
        f"# {c.title}\n{c.source}{_BETWEEN}{actual if c.title == case.title else c.expected}"
        for c in read_cases(case.file)
    ]
    case.file.write_text("".join(f"{block}{_END}" for block in blocks), encoding="utf-8")


def check_case(case: GoldenCase, produce: Callable[[str], str]) -> None:
    """Compare the output with the file, or write it when updating."""
    actual = produce(case.source).strip("\n")
    if UPDATE and actual != case.expected:
        write_case(case, actual)
        return
    assert actual == case.expected, f"{case}\n--- expected\n{case.expected}\n--- actual\n{actual}"
