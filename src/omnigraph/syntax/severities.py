"""How much a code weighs: the levels that a caller can choose for findings and schema steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import StrEnum

from omnigraph.errors import InvalidArgument
from omnigraph.syntax.diagnostics import Diagnostic, Severity
from omnigraph.values.known_names import did_you_mean


class SeverityLevel(StrEnum):
    """An error refuses or fails, a warning is listed, `off` says nothing."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


def read_severities(
    given: Mapping[str, str], known: Collection[str], never_off: Collection[str] = ()
) -> dict[str, SeverityLevel]:
    """The chosen levels by code; raises `InvalidArgument` for a code or level that is unknown."""
    return {code: _level(code, level, known, never_off) for code, level in given.items()}


def _level(
    code: str, level: str, known: Collection[str], never_off: Collection[str]
) -> SeverityLevel:
    if code not in known:
        raise InvalidArgument(
            f"there is no code {code!r} with a severity; {did_you_mean(code, known)}", value=code
        )
    try:
        found = SeverityLevel(level)
    except ValueError:
        levels = ", ".join(SeverityLevel)
        raise InvalidArgument(
            f"{level!r} is no severity of {code}; it is one of {levels}", value=code
        ) from None
    if found is SeverityLevel.OFF and code in never_off:
        raise InvalidArgument(f"{code} cannot be off: use warn or error", value=code)
    return found


def weighed(finding: Diagnostic, levels: Mapping[str, SeverityLevel]) -> Diagnostic | None:
    """The warning at the level of its code; None if that is off."""
    match levels.get(finding.code):
        case SeverityLevel.OFF:
            return None
        case SeverityLevel.ERROR:
            return replace(finding, severity=Severity.ERROR)
        case _:
            return finding
