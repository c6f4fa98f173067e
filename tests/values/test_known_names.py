from __future__ import annotations

from omnigraph.values.known_names import did_you_mean


def test_names_close_enough_are_suggested() -> None:
    assert did_you_mean("naem", ["name", "age"]) == "did you mean 'name'?"
    assert did_you_mean("KNOWS", ["knows"]) == "did you mean 'knows'?"
    assert did_you_mean("zzz", ["name", "age"]) == "known here: age, name"
    assert did_you_mean("zzz", []) is None
