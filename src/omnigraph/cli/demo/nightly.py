"""The pipeline of the demo: messy files become a graph, on a branch that is reviewed and merged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import omnigraph
from omnigraph.cli.demo.telling import INDENT, Story
from omnigraph.spark import pipelines

SCHEMA = """node Reader {
  email: String @key
  name: String?
  joined: Date?
}
node Book {
  isbn: String @key
  title: String
}
edge Borrowed: Reader -> Book {
  day: Date
  @key(src, dst, day)
}
"""
PIPELINE = """version: 1
name: loans
graph: loans.omni
schema: loans.pg
sources:
  raw_readers:
    files: "in/readers*.csv"
    format: csv
    options: {header: "true", sep: ";"}
    incremental: files
  raw_loans: {files: "in/loans*.ndjson", format: json, incremental: files}
steps:
  readers:
    sql: |-
      SELECT lower(trim(`E-Mail`)) AS email, nullif(trim(`Full name`), '') AS name,
             try_cast(joined AS DATE) AS joined
      FROM raw_readers
    expect:
      - {check: "email LIKE '%@%'", on_fail: quarantine}
  loans:
    sql: |-
      SELECT lower(trim(reader)) AS email, book.isbn AS isbn, book.title AS title,
             CAST(day AS DATE) AS day
      FROM raw_loans
  borrowers:
    sql: SELECT email, max(name) AS name, max(joined) AS joined FROM
      (SELECT * FROM readers UNION ALL SELECT email, NULL, NULL FROM loans) GROUP BY email
  books:
    sql: SELECT isbn, min(title) AS title FROM loans GROUP BY isbn
targets:
  - {type: Reader, from: borrowers, mode: merge}
  - {type: Book, from: books, mode: merge}
  - {type: Borrowed, from: loans, mode: merge, ends: {from: email, to: isbn}}
publish: {branch: main, via: merge, review: true, message: "the loans of the day", actor: demo}
"""
READERS = """E-Mail;Full name;joined
 Ada@Library.org ;Ada Lovelace;1833-06-05
bob@library.org;;unknown
no address;Nemo;2020-01-01
ZOE@library.org; Zoë Müller ;2024-02-29
"""
LOANS = """
{"reader": "ada@library.org", "book": {"isbn": "978-1", "title": "Tides"}, "day": "2026-11-16"}
{"reader": "ZOE@library.org", "book": {"isbn": "978-1", "title": "Tides"}, "day": "2026-11-17"}
{"reader": "bob@library.org ", "book": {"isbn": "978-2", "title": "Bread"}, "day": "2026-11-17"}
"""


def run_nightly(story: Story, folder: Path) -> None:
    """Run the pipeline twice: once with files, and once without anything new."""
    story.chapter("A pipeline on Spark: messy CSV and NDJSON, checked, on a branch for review")
    place = folder / "loans"
    (place / "in").mkdir(parents=True)
    for name, text in {
        "loans.pg": SCHEMA,
        "loans.yaml": PIPELINE,
        "in/readers.csv": READERS,
        "in/loans.ndjson": LOANS.lstrip(),
    }.items():
        (place / name).write_text(text, encoding="utf-8")
    loaded = pipelines.load(place / "loans.yaml")
    with story.step("run it: one commit over nodes and edges"):
        run = loaded.run().raise_if_failed()
    for each in run.expectations:
        if each.failed:
            story.say(f"{INDENT}{each.failed} row in quarantine: {each.check} is not met")
    branch = run.review_branch or run.branch
    graph = omnigraph.open(loaded.pipeline.graph, actor="demo")
    with story.step(f"review {branch}: what would change on main"):
        changes = Counter(change.type.name for change in graph.diff("main", branch))
    story.say(f"{INDENT}{', '.join(f'{n} {name}' for name, n in sorted(changes.items()))}")
    with story.step("merge it"):
        graph.merge(branch, message="reviewed")
    with story.step("run it again: nothing is new, so nothing is written"):
        again = loaded.run().raise_if_failed()
    story.say(f"{INDENT}{again.status}; the report of the first run is {run.report}")
