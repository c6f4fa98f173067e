"""Entity resolution against a model in plain Python, and what its answers may not depend on."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidArgument
from omnigraph.spark import components
from omnigraph.spark.components import smallest_keys
from omnigraph.spark.pipelines.model import (
    CompareBy,
    ComparedColumn,
    ResolveOptions,
    ResolveOutput,
)
from omnigraph.spark.pipelines.resolve import resolve_frame

SCHEMA = "rid string, name string, email string, age int, vec array<float>"
OPTIONS = ResolveOptions(
    input="people",
    block=("lower(email)", "substring(name, 1, 1)"),
    compare=(
        ComparedColumn(column="name", by=CompareBy.JARO_WINKLER, weight=0.5),
        ComparedColumn(column="lower(email)", by=CompareBy.EXACT, weight=0.3),
        ComparedColumn(column="age", by=CompareBy.NUMBER, weight=0.2),
    ),
    threshold=0.7,
    id="entity",
    key="rid",
)


# --- the model --------------------------------------------------------------------------------


def jaro_winkler(a: str, b: str) -> float:
    if not a or not b:
        return 1.0 if a == b else 0.0
    window = max(max(len(a), len(b)) // 2 - 1, 0)
    taken = [False] * len(b)
    first = []
    for i, letter in enumerate(a):
        for j in range(max(0, i - window), min(len(b), i + window + 1)):
            if not taken[j] and b[j] == letter:
                taken[j] = True
                first.append(letter)
                break
    second = [letter for j, letter in enumerate(b) if taken[j]]
    same = len(first)
    if not same:
        return 0.0
    moved = sum(x != y for x, y in zip(first, second, strict=True)) // 2
    jaro = (same / len(a) + same / len(b) + (same - moved) / same) / 3
    prefix = 0
    for x, y in zip(a[:4], b[:4], strict=False):
        if x != y:
            break
        prefix += 1
    return jaro + prefix * 0.1 * (1 - jaro)


def edit(a: str, b: str) -> float:
    if not a and not b:
        return 1.0
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return 1 - row[-1] / max(len(a), len(b))


def words(a: str, b: str) -> float:
    left, right = ({w for w in re.split(r"[\W_]+", t.lower()) if w} for t in (a, b))
    return len(left & right) / len(left | right) if left | right else 0.0


def number(a: float, b: float) -> float:
    return max(0.0, 1 - abs(a - b) / max(abs(a), abs(b))) if a or b else 1.0


def cosine(a: list[float], b: list[float]) -> float:
    if len(a) != len(b):
        return 0.0
    lengths = math.hypot(*a) * math.hypot(*b)
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return min(1.0, max(0.0, dot / lengths)) if lengths else 0.0


ALIKE = {
    "exact": lambda a, b: float(a == b),
    "edit": edit,
    "jaro_winkler": jaro_winkler,
    "tokens": words,
    "number": number,
    "vectors": cosine,
}
BLOCKS = {
    "lower(email)": lambda row: (row["email"] or "").lower() or None,
    "substring(name, 1, 1)": lambda row: (row["name"] or "")[:1] or None,
}


def value_of(row: dict[str, Any], column: str) -> Any:
    if column == "lower(email)":
        return None if row["email"] is None else row["email"].lower()
    return row[column]


def modelled_pairs(
    rows: list[dict[str, Any]], options: ResolveOptions
) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    total = sum(each.weight for each in options.compare)
    for a, b in combinations(sorted(rows, key=lambda row: row["rid"]), 2):
        blocks = [(BLOCKS[text](a), BLOCKS[text](b)) for text in options.block]
        if a["rid"] == b["rid"] or not any(x == y and x is not None for x, y in blocks):
            continue
        score = 0.0
        for each in options.compare:
            x, y = value_of(a, each.column), value_of(b, each.column)
            score += each.weight * (0.0 if x is None or y is None else ALIKE[each.by](x, y))
        if score / total >= options.threshold - 1e-9:
            pair = (a["rid"], b["rid"])
            found[pair] = max(found.get(pair, 0.0), score / total)
    return found


def modelled_ids(keys: set[str], pairs: Any) -> dict[str, str]:
    ids = {key: key for key in keys}
    changed = True
    while changed:
        changed = False
        for a, b in pairs:
            low = min(ids[a], ids[b])
            changed |= ids[a] != low or ids[b] != low
            ids[a] = ids[b] = low
    return ids


def modelled_entities(
    rows: list[dict[str, Any]], options: ResolveOptions
) -> dict[str, dict[str, Any]]:
    ids = modelled_ids({row["rid"] for row in rows}, modelled_pairs(rows, options))
    entities = {}
    for entity in set(ids.values()):
        own = [row for row in rows if ids[row["rid"]] == entity]
        columns = {}
        for name in ("rid", "name", "email", "age"):
            counts = Counter(row[name] for row in own if row[name] is not None)
            most = max(counts.values(), default=0)
            columns[name] = min((v for v, n in counts.items() if n == most), default=None)
        origins = sorted({row["rid"] for row in own})
        entities[entity] = {**columns, "origins": origins}
    return entities


def made(spark: Any, rows: list[dict[str, Any]], options: ResolveOptions) -> Any:
    return resolve_frame(spark, spark.createDataFrame(rows, SCHEMA), options)


# --- against the model ------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(["Ada", "ada", "Adda", "Bob", "Bobby", "Robert B", "B Robert", "Zoë", ""]),
    st.text("abAB é", max_size=6),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "rid": st.integers(0, 40).map(lambda n: f"r{n:02}"),
            "name": st.none() | NAMES,
            "email": st.sampled_from([None, "", "a@x", "A@x", "b@x", "c@x"]),
            "age": st.none() | st.integers(-2, 60),
            "vec": st.none() | st.lists(st.sampled_from([0.0, 0.5, -1.0, 2.0]), max_size=3),
        }
    ),
    max_size=14,
)
WAYS = st.sampled_from(
    [
        ("name", "jaro_winkler"),
        ("name", "edit"),
        ("name", "tokens"),
        ("lower(email)", "exact"),
        ("age", "number"),
        ("age", "exact"),
        ("vec", "vectors"),
    ]
)
OPTION_SETS = st.builds(
    lambda ways, weights, blocks, threshold: replace(
        OPTIONS,
        block=blocks,
        threshold=threshold,
        compare=tuple(
            ComparedColumn(column=column, by=CompareBy(by), weight=weight)
            for (column, by), weight in zip(ways, weights, strict=False)
        ),
    ),
    st.lists(WAYS, min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from([0.25, 1.0, 2.0]), min_size=3, max_size=3),
    st.sampled_from([("lower(email)",), ("substring(name, 1, 1)", "lower(email)")]),
    st.sampled_from([0.35, 0.6, 0.85]),
)


def compare_with_model(spark: Any, rows: list[dict[str, Any]], options: ResolveOptions) -> None:
    answer = made(spark, rows, replace(options, output=ResolveOutput.PAIRS)).collect()
    pairs = {(row["from"], row["to"]): row["score"] for row in answer}
    assert len(pairs) == len(answer)
    expected = modelled_pairs(rows, options)
    assert pairs.keys() == expected.keys()
    assert all(abs(pairs[pair] - score) < 1e-6 for pair, score in expected.items())
    entities = {
        row["entity"]: {name: row[name] for name in ("rid", "name", "email", "age", "origins")}
        for row in made(spark, rows, options).collect()
    }
    assert entities == modelled_entities(rows, options)


def test_many_rows_equal_the_model(spark: Any) -> None:
    chance = random.Random(19)
    names = ["Ada", "ada", "Adda", "Bob", "Bobby", "Robert B", "B Robert", "Zoë", "Zoe", "", None]
    rows = [
        {
            "rid": f"r{chance.randrange(70):02}",
            "name": chance.choice(names),
            "email": chance.choice([None, "", *(f"{c}@x" for c in "aAbBcdefgh")]),
            "age": chance.choice([None, 0, chance.randrange(-2, 60)]),
            "vec": chance.choice([None, [], [1.0], [chance.random(), -0.5], [0.0, 0.0]]),
        }
        for _ in range(80)
    ]
    ways = [("name", "edit"), ("name", "tokens"), ("vec", "vectors")]
    compare = tuple(ComparedColumn(column=c, by=CompareBy(by), weight=0.3) for c, by in ways)
    one_block = replace(OPTIONS, block=OPTIONS.block[:1], compare=compare, threshold=0.55)
    compare_with_model(spark, rows, OPTIONS)
    compare_with_model(spark, rows, one_block)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, options=OPTION_SETS)
def test_many_random_rows_equal_the_model(spark: Any, rows: Any, options: ResolveOptions) -> None:
    compare_with_model(spark, rows, options)


PEOPLE = [
    {"rid": "r3", "name": "Ada Lovelace", "email": "ada@x.org", "age": 36, "vec": [1.0, 0.0]},
    {"rid": "r1", "name": "Ada Lovelase", "email": "ADA@x.org", "age": 36, "vec": [1.0, 0.1]},
    {"rid": "r2", "name": "Ada Lovelace", "email": None, "age": 36, "vec": None},
    {"rid": "r4", "name": "Alan Turing", "email": "alan@x.org", "age": 41, "vec": [0.0, 1.0]},
    {"rid": "r5", "name": None, "email": "", "age": None, "vec": None},
    {"rid": "r6", "name": None, "email": "", "age": None, "vec": None},
]


def told(frame: Any) -> list[str]:
    return sorted(json.dumps(row.asDict(), sort_keys=True) for row in frame.collect())


def test_the_answer_does_not_depend_on_order_or_partitions(spark: Any) -> None:
    frame = spark.createDataFrame(PEOPLE, SCHEMA)
    expected = told(resolve_frame(spark, frame, OPTIONS))
    turned = spark.createDataFrame(PEOPLE[::-1], SCHEMA).repartition(7, "name")
    assert told(resolve_frame(spark, turned, OPTIONS)) == expected
    entities = {row["entity"]: row for row in resolve_frame(spark, frame, OPTIONS).collect()}
    assert sorted(entities) == ["r1", "r4", "r5", "r6"]
    assert entities["r1"]["name"] == "Ada Lovelace"
    # "r2" has no email: it belongs to the entity because of its name and age alone.
    assert entities["r1"]["origins"] == ["r1", "r2", "r3"]


def test_rows_without_a_key_have_one_from_their_values(spark: Any) -> None:
    options = replace(OPTIONS, key=None, output=ResolveOutput.ROWS)
    twice = [*PEOPLE, PEOPLE[3]]
    first = told(resolve_frame(spark, spark.createDataFrame(twice, SCHEMA), options))
    turned = spark.createDataFrame(twice[::-1], SCHEMA).repartition(3)
    assert told(resolve_frame(spark, turned, options)) == first
    entities = replace(options, output=ResolveOutput.ENTITIES)
    rows = resolve_frame(spark, spark.createDataFrame(twice, SCHEMA), entities).collect()
    assert sum(row["name"] == "Alan Turing" for row in rows) == 1


def test_large_blocks_are_skipped_and_named(spark: Any) -> None:
    rows = [
        {"rid": f"r{n:03}", "name": "Same", "email": f"{n // 2}@x", "age": 1, "vec": None}
        for n in range(30)
    ]
    warnings: list[str] = []
    options = replace(OPTIONS, max_block=10, output=ResolveOutput.PAIRS)
    frame = spark.createDataFrame(rows, SCHEMA)
    pairs = resolve_frame(spark, frame, options, warnings.append).collect()
    # The block "S" of all names is too large, so only the rows with equal email are compared.
    assert sorted((p["from"], p["to"]) for p in pairs) == [
        (f"r{n:03}", f"r{n + 1:03}") for n in range(0, 30, 2)
    ]
    assert len(warnings) == 1
    assert "substring(name, 1, 1) = 'S' (30 rows)" in warnings[0]


def test_wrong_input_is_refused(spark: Any) -> None:
    frame = spark.createDataFrame(PEOPLE, SCHEMA)
    with pytest.raises(InvalidArgument, match="a column 'name' already"):
        resolve_frame(spark, frame, replace(OPTIONS, id="name"))
    with pytest.raises(InvalidArgument, match="is NULL in a row"):
        resolve_frame(spark, frame, replace(OPTIONS, key="vec[0]"))


# --- components -------------------------------------------------------------------------------

EDGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=40)


def joined(spark: Any, edges: list[tuple[str, str]], one_task_pairs: int) -> dict[str, str]:
    pairs = spark.createDataFrame(edges, "a string, b string")
    answer = smallest_keys(pairs, "a", "b", one_task_pairs).collect()
    found = {row["key"]: row["smallest"] for row in answer}
    assert len(found) == len(answer)
    return found


def test_both_ways_to_join_equal_the_model(spark: Any) -> None:
    chain = [(f"{n:03}", f"{n + 1:03}") for n in range(40)]
    star = [("x00", f"x{n:02}") for n in range(1, 9)]
    edges = [*chain[::2], *chain[1::2][::-1], *star, ("y", "z"), ("z", "y")]
    expected = modelled_ids({key for edge in edges for key in edge}, edges)
    assert joined(spark, edges, components.ONE_TASK_PAIRS) == expected
    assert joined(spark, edges, 0) == expected


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EDGES)
def test_random_components(spark: Any, edges: list[tuple[int, int]]) -> None:
    named = [(f"{a:02}", f"{b:02}") for a, b in edges if a != b]
    expected = modelled_ids({key for edge in named for key in edge}, named)
    if named:
        assert joined(spark, named, components.ONE_TASK_PAIRS) == expected
        assert joined(spark, named, 0) == expected
