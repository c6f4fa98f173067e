"""The same order as Arrow, for every kind of text."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.values.text_order import text_order

COUNT = 5000
CHANCE = random.Random(4)


def some(letters: str, shortest: int, longest: int) -> list[str]:
    return [
        "".join(CHANCE.choices(letters, k=CHANCE.randint(shortest, longest))) for _ in range(COUNT)
    ]


TEXTS = {
    "one length": [f"person-{i:09}" for i in CHANCE.sample(range(10**6), COUNT)],
    "one length, several words": some("ABCDEFGH", 26, 26),
    "several lengths": [f"r{i}" for i in CHANCE.sample(range(10**6), COUNT)],
    "equal ones": some("ab", 1, 4),
    "all equal": ["same"] * COUNT,
    "empty ones": some("a", 0, 3),
    "only empty ones": [""] * COUNT,
    "prefixes of each other": ["shared" * 3 + text for text in some("x", 0, 30)],
    "zero bytes": some("\0a", 0, 12),
    "any letters": some("aé\u0301京\U0001f642\uffffZ~", 0, 20),
    "long ones": some("ab", 60, 200),
    "few": ["b", "a", "", "a"],
}


@pytest.mark.parametrize("kind", TEXTS)
def test_the_order_is_that_of_code_points(kind: str) -> None:
    for texts in (pa.array(TEXTS[kind]), pa.array(["~first", *TEXTS[kind], ""]).slice(1)):
        found = texts.take(pa.array(text_order(texts)))
        assert found.to_pylist() == sorted(texts.to_pylist())
        assert found.equals(texts.take(pc.sort_indices(texts)))


def test_no_texts_have_an_order() -> None:
    assert text_order(pa.array([], pa.string())).tolist() == []
