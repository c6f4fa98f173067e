from __future__ import annotations

from omnigraph.graph.commit_history import DrawnCommit, draw


def lines(*commits: tuple[str, str]) -> list[str]:
    return draw([DrawnCommit(name, tuple(parents), name) for name, parents in commits])


def test_a_line_is_a_line() -> None:
    assert lines(("c", "b"), ("b", "a"), ("a", "")) == ["*  c", "*  b", "*  a"]


def test_a_merge_opens_a_lane_and_the_fork_closes_it() -> None:
    assert lines(("m", "cb"), ("c", "a"), ("b", "a"), ("a", "")) == [
        "*  m",
        "|\\",
        "* |  c",
        "| *  b",
        "|/",
        "*  a",
    ]


def test_criss_cross() -> None:
    drawn = lines(("x", "mr"), ("m", "ab"), ("r", "ba"), ("b", "o"), ("a", "o"), ("o", ""))
    assert next(line for line in drawn if "*" in line) == "*  x"
    assert sum("*" in line for line in drawn) == 6
    assert drawn[-1] == "*  o"


def test_parents_below_the_limit_leave_lanes_open() -> None:
    assert lines(("m", "cb"), ("c", "a")) == ["*  m", "|\\", "* |  c"]
