"""What the demo asks and changes."""

from __future__ import annotations

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
