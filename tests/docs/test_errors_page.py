"""docs/errors.md has every error, with the class it has and whether to repeat."""

from __future__ import annotations

import re
from pathlib import Path

from omnigraph import errors

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z_]+)` \| `(\w+)`( ↻)? \| (\S[^|]*\S) \| (\S[^|]*\S) \|$", re.MULTILINE)


def test_every_error_has_cause_and_way_out() -> None:
    promised = {
        (cls.code, cls.__name__, cls.retryable)
        for cls in vars(errors).values()
        if isinstance(cls, type)
        and issubclass(cls, errors.OmnigraphError)
        and cls is not errors.OmnigraphError
    }
    written = [(code, name, bool(again)) for code, name, again, _, _ in ROW.findall(PAGE)]
    assert sorted(written) == sorted(promised)
