"""Write one row and read it back, again and again, in handles that stay open.

A server, a notebook and a pipeline all do this. What a read costs must not depend on the number of
commits that its process has seen.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import Settings

SCHEMA = """
node Thing { slug: String @key  n: I64 }
edge Next: Thing -> Thing
"""
PUT = "query put($k: String, $n: I64) { insert Thing { slug: $k, n: $n } }"
GET = """
query get($k: String) {
  match { $t: Thing { slug: $k } $t next $o }
  return { $t.n as n, $o.slug as after }
}
"""


class ReadBack:
    """Things in a circle, each connected to the next one."""

    def __init__(
        self, place: Path, things: int, handles: int = 1, settings: Settings | None = None
    ) -> None:
        first = init(str(place), SCHEMA, settings=settings)
        names = [_name(number) for number in range(things)]
        edges = [
            {"from": name, "to": after}
            for name, after in zip(names, names[1:] + names[:1], strict=True)
        ]
        first.apply(
            {
                "Thing": {"insert": [{"slug": name, "n": 0} for name in names]},
                "Next": {"insert": edges},
            }
        )
        self.handles: Sequence[Graph] = [
            first,
            *(open_graph(str(place), settings=settings) for _ in range(1, handles)),
        ]
        self._things = things
        self.commits = 0
        self.reads: list[float] = []
        """CPU milliseconds of each read."""

    def cycle(self, branch: str = "main") -> None:
        """One handle writes, the next one reads: the same, if there is only one."""
        self.commits += 1
        number = self.commits % self._things
        writer, reader = (
            self.handles[(self.commits + turn) % len(self.handles)] for turn in range(2)
        )
        writer.mutate(PUT, params={"k": _name(number), "n": self.commits}, branch=branch)
        began = time.process_time()
        rows = reader.query(GET, params={"k": _name(number)}, branch=branch).to_pylist()
        self.reads.append((time.process_time() - began) * 1000)
        assert rows == [{"n": self.commits, "after": _name((number + 1) % self._things)}], rows

    def run(self, until: int) -> None:
        while self.commits < until:
            self.cycle()

    def p50(self, last: int) -> float:
        return statistics.median(self.reads[-last:])


def _name(number: int) -> str:
    return f"k{number}"
