"""The library of the demo: schema, queries, and invented data that is always the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

QUERIES = """
query recent($topic: String, $since: I32) {
  match { $p: Paper  $p.year >= $since  match_text($p.title, $topic) }
  return { count($p) as papers, min($p.year) as first, max($p.year) as last }
}
query influence($code: String) {
  match { $p: Paper { code: $code }  $later cites{1,3} $p }
  return { count($later) as papers_within_three_citations }
}
query most_cited() {
  match { $a: Author  $a wrote $p  $other cites $p }
  return { $a.name as author, count($other) as citations }
  order { citations desc }  limit 3
}
query hybrid($q: String) {
  match { $p: Paper }
  return { $p.code as code, $p.title as title, $p.year as year }
  order { rrf(nearest($p.vec, $q), bm25($p.summary, $q)) }  limit 3
}
query paper($code: String) {
  match { $p: Paper { code: $code } }
  return { $p.title as title, $p.year as year, $p.summary as summary }
}
query resummarize($code: String) {
  update Paper set { summary: "Rewritten on main." } where code = $code
}
query retitle($code: String, $title: String, $year: I32) {
  update Paper set { title: $title, year: $year } where code = $code
}
query retract($code: String) { delete Paper where code = $code }
query add($code: String, $author: String) {
  insert Paper { code: $code, title: "A late answer", summary: "A reply to everybody.", year: 2026 }
  insert Wrote { from: $author, to: $code }
}
"""
SCHEMA = """// A library of papers that cite each other.
node Author {
  name: String @key
  field: String @index
}
node Paper {
  code: String @key
  title: String @index
  summary: String @index
  year: I32 @index
  vec: Vector(256)? @embed("summary", model="wordllama-l2-supercat-256")
}
edge Wrote: Author -> Paper
edge Cites: Paper -> Paper { weight: F32? }
"""

_FIELDS = {
    "oceans": ["coral reefs", "deep sea vents", "whale migration", "tides and currents"],
    "space": ["gravitational waves", "black holes", "exoplanets", "solar wind"],
    "medicine": ["vaccines", "heart disease", "sleep", "antibiotic resistance"],
    "computing": ["graph databases", "compilers", "distributed consensus", "vector search"],
    "history": ["medieval trade", "ancient maps", "the printing press", "steam engines"],
    "food": ["bread fermentation", "coffee roasting", "olive oil", "cheese making"],
    "climate": ["melting glaciers", "forest fires", "carbon capture", "monsoon rain"],
    "music": ["violin acoustics", "jazz harmony", "folk songs", "rhythm and memory"],
}
_METHODS = [
    "a field study",
    "a simulation",
    "a survey",
    "an experiment",
    "a long record",
    "a model",
]
_AIMS = ["explains", "measures", "predicts", "questions", "compares", "maps"]
_RESULTS = ["growth", "decline", "cost", "origin", "stability", "spread", "timing", "quality"]
_FIRST = ["Ada", "Bo", "Cleo", "Dara", "Emil", "Finn", "Gita", "Hugo", "Ines", "Jun", "Kaya", "Leo"]
_LAST = ["Abel", "Berg", "Costa", "Dahl", "Endo", "Fischer", "Gupta", "Haas", "Ito", "Jansen"]


@dataclass(frozen=True, slots=True)
class LibrarySize:
    """How many entities the library has."""

    papers: int
    authors: int
    citations: int

    @property
    def entities(self) -> int:
        return self.papers * 2 + self.authors + self.citations


def library_size(entities: int) -> LibrarySize:
    """About `entities` entities, two thirds of them edges, as in most graphs."""
    papers = max(entities // 6, 50)
    return LibrarySize(papers, max(papers // 2, 10), papers * 3)


def data_lines(size: LibrarySize) -> Iterator[str]:
    """The whole library as lines of NDJSON, generated from a fixed seed."""
    chance = random.Random(20)
    fields = list(_FIELDS)
    for n in range(size.authors):
        data = {"name": author_name(n), "field": fields[n % len(fields)]}
        yield _line({"type": "Author", "data": data})
    for n in range(size.papers):
        yield _line({"type": "Paper", "data": _paper(n, fields[n % len(fields)], chance)})
    for n in range(size.papers):
        author = chance.randrange(size.authors)
        yield _line({"edge": "Wrote", "from": author_name(author), "to": paper_code(n)})
    for _ in range(size.citations):
        # Early papers are cited most.
        target = int(size.papers * chance.random() ** 2)
        source = min(target + 1 + int((size.papers - target) * chance.random()), size.papers - 1)
        edge = {"edge": "Cites", "from": paper_code(source), "to": paper_code(target)}
        yield _line({**edge, "data": {"weight": round(chance.random(), 3)}})


def paper_code(number: int) -> str:
    return f"P{number:06}"


def author_name(number: int) -> str:
    first = _FIRST[number % len(_FIRST)]
    last = _LAST[number // len(_FIRST) % len(_LAST)]
    return f"{first} {last} {number // (len(_FIRST) * len(_LAST))}"


def _paper(number: int, field: str, chance: random.Random) -> dict[str, object]:
    topic = chance.choice(_FIELDS[field])
    method, aim, result = chance.choice(_METHODS), chance.choice(_AIMS), chance.choice(_RESULTS)
    return {
        "code": paper_code(number),
        "title": f"The {result} of {topic}",
        "summary": f"{method.capitalize()} of {topic} that {aim} their {result}.",
        "year": 1990 + chance.randrange(36),
    }


def _line(entity: dict[str, object]) -> str:
    return json.dumps(entity) + "\n"
