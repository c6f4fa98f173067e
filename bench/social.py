"""The social graph of the query bench: power-law friendships, made once per size and kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person { pid: I64 @key  name: String  age: I32  city: String }
node Company { cid: I64 @key  name: String }
edge Knows: Person -> Person { since: I32 }
edge WorksAt: Person -> Company
"""


@dataclass(frozen=True)
class SocialGraph:
    """Arrow tables with integer keys; ids are their decimal texts."""

    person: pa.Table
    company: pa.Table
    knows: pa.Table
    works_at: pa.Table

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("person", "company", "knows", "works_at"):
            pq.write_table(getattr(self, name), folder / f"{name}.parquet")


def make(persons: int, degree: int = 10, seed: int = 7) -> SocialGraph:
    chance = np.random.default_rng(seed)
    weights = (np.arange(persons) + 10.0) ** -0.6
    chance.shuffle(weights)
    sources = chance.choice(persons, persons * degree, p=weights / weights.sum())
    targets = chance.integers(0, persons, persons * degree)
    # No parallel edges: a plain hop gives each pair of ends once, Cypher's each edge.
    pairs = np.unique(sources.astype(np.int64) * persons + targets)
    chance.shuffle(pairs)
    sources, targets = pairs // persons, pairs % persons
    companies = max(persons // 10, 1)
    pid = np.arange(persons)
    return SocialGraph(
        person=pa.table(
            {
                "pid": pid,
                "name": [f"person {n}" for n in pid],
                "age": chance.integers(18, 90, persons).astype(np.int32),
                "city": pa.array([f"city {n}" for n in chance.integers(0, 1000, persons)]),
            }
        ),
        company=pa.table(
            {
                "cid": np.arange(companies),
                "name": [f"company {n}" for n in range(companies)],
            }
        ),
        knows=pa.table(
            {
                "from": sources,
                "to": targets,
                "since": chance.integers(0, 1_000_000, len(sources)).astype(np.int32),
            }
        ),
        works_at=pa.table(
            {
                "from": np.sort(chance.choice(persons, int(persons * 0.95), replace=False)),
                "to": chance.integers(0, companies, int(persons * 0.95)),
            }
        ),
    )
