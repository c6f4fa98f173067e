"""docs/cli.md says what the commands say."""

from __future__ import annotations

from pathlib import Path

from omnigraph.cli.reference import with_reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_reference_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_reference(text) == text, "run `make docs`"
