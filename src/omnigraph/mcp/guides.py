"""Texts for models: how to work with a graph, and the best practices that resources show."""

from __future__ import annotations

INSTRUCTIONS = """\
This server gives you a typed property graph with branches and history, as tools.
- Read the schema first (schema_get), then look at examples (type_sample) or search (graph_find).
- Prefer stored queries, which are tools of their own or behind stored_query_list.
- Pass values as `params`. Never write them into the text of a query.
- To change something, call begin_task, work on its branch, and call finish_task at the end. \
Whether you may merge depends on your rights; otherwise a reviewer does it.
- Give every change a new idempotency_key. If an answer is lost, the outcome is unknown: call again \
with the same key, and the change is made once.
- An answer says when there is more, and how to ask for it. Ids of an answer can be used as they are.
- `snapshot` reads the past: a commit id, a tag, a time, or HEAD~2.
"""

_QUERIES = """\
# Queries

```
query friends_of($name: String) {
  match { $p: Person { name: $name }  $p knows{1,2} $f }
  return { $f.name as friend, $f.age as age }
  order { friend }
  limit 20
}
```

- A query has parameters, a pattern, columns, an order and a limit. A text may also be only the body, without `query name() { … }`.
- `$p: Person` binds a node. `$p knows $f` follows an edge; the type `Knows` is written `knows`. `$k:knows` binds the edge. `{1,2}` is a distance.
- Conditions stand in the pattern: `$p.age > 30 and $p.name starts_with "A"`. `$p.id` is the id. `is null`, `in`, `contains` exist.
- `not { … }` and `optional { … }` take a pattern. Aggregates: `count($f)`, `sum`, `min`, `max`, `avg`, `collect`.
- `return { $p }` gives a whole entity without vectors and blobs. Name columns with `as`.
- Always give a `limit` when you explore. For the next rows use `offset` with an `order`.
"""

_DATA = """\
# Changing data

```
query birthday($name: String) { update Person set { age: age + 1 } where name = $name }
query meet($a: String, $b: String) {
  insert Person { name: $b } on match skip
  insert Knows { from: $a, to: $b }
}
```

- One text is one commit: all of its statements, or nothing.
- A keyed `insert` replaces the whole entity. `on match skip` leaves an existing one as it is. `update` changes single properties. `delete Person where …` also deletes its edges.
- Edges name their ends by id: `from` and `to`. The id of a node with a key is the key.
- For many entities use graph_load with lines of JSON, mode `merge` or `patch`.
- Work on the branch of a task (begin_task). Look at it with graph_diff. merge_preview shows conflicts before a merge.
- A condition `if_graph_commit` makes a change only if nothing moved since you read.
"""

_SCHEMA = """\
# The schema

- Node types have properties and often a key. Edge types go from one node type to another and can have properties.
- `String? I32 I64 F64 Bool Date DateTime [String] enum(a, b) Vector(256) Blob`; `?` means that a value may be missing.
- Rules such as `@key`, `@unique`, `@range`, `@check` and `@card` hold after every commit. A change that breaks one is refused, and the message names the entity.
- No tool changes the schema. Ask the people who own the graph.
"""

_SEARCH = """\
# Search

- graph_find needs no query: it compares an id, words and meaning.
- In a query: `search($n.text, $q)` (any word), `match_text` (every word), `fuzzy` (misspelt words), ranked with `order { bm25($n.text, $q) desc }`.
- By meaning: `order { nearest($n.about, $q) } limit 5`, if the schema has a vector made by `@embed`; `$q` is a text parameter.
- Both: `order { rrf(nearest($n.about, $q), bm25($n.text, $q)) } limit 5`.
- A pattern beside the search filters first: combine both in one query.
"""

_INDEX = """\
# Best practices

- omnigraph://best-practices/queries: the query language in one page
- omnigraph://best-practices/data: changes, branches, tasks and merges
- omnigraph://best-practices/schema: types and rules
- omnigraph://best-practices/search: words and meaning
"""

BEST_PRACTICES = {
    "index": _INDEX,
    "queries": _QUERIES,
    "data": _DATA,
    "schema": _SCHEMA,
    "search": _SEARCH,
}
