"""`g.cleanup` and its kin: arguments checked, work handed to `maintain`."""

from __future__ import annotations

from omnigraph.errors import InvalidArgument
from omnigraph.maintain.needed import Retention
from omnigraph.values.durations import duration_micros


def retention(keep: object, older_than: object) -> Retention:
    if keep is not None and (type(keep) is not int or keep < 1):
        raise InvalidArgument(f"keep is a number of commits from 1 on, got {keep!r}")
    return Retention(keep, None if older_than is None else duration_micros(older_than))
