"""What `verify` found, as plain records."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

_KEPT = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be."""

    check: str
    branch: str | None
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """`findings` are the first ones, `counts` all of them by check; `checked` is what was done."""

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    checked: dict[str, int]
    pending_intents: int
    orphan_files: int
    orphan_bytes: int

    @property
    def ok(self) -> bool:
        return not self.counts

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


@dataclass(slots=True)
class Findings:
    """Collects; the first hundred are kept, every one is counted."""

    first: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, check: str, branch: str | None, place: object, message: str) -> None:
        self.counts[check] += 1
        if len(self.first) < _KEPT:
            self.first.append(Finding(check, branch, str(place), message))
