"""Regular expressions of queries: the dialect is RE2, which Arrow evaluates in linear time."""

from __future__ import annotations

_PREFIX = "Invalid regular expression: "


def pattern_problem(pattern: str) -> str | None:
    """Why RE2 does not accept this pattern, or None."""
    # Imported here, because few queries have a pattern and Arrow takes long to import.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        pc.match_substring_regex(pa.scalar(""), pattern=pattern)
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair"
    except pa.ArrowInvalid as error:
        return str(error).removeprefix(_PREFIX)
    return None
