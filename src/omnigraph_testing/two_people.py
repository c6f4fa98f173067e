"""A graph of two people: a schema with most kinds of properties, and lines to load."""

from __future__ import annotations

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  joined: DateTime?
  tags: [String]?
  vec: Vector(2)?
  photo: Blob?
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date? }
edge Wrote: Person -> Note
"""

LINES = """// two people
{"type":"Person","data":{"name":"ada","age":3,"joined":"2024-01-02T03:04:05.5Z","tags":["x"],\
"vec":[1,2.5],"photo":"base64:aGVsbG8="}}
{"type": "Person", "data": {"name": "bob", "age": 4}}

{"edge":"Knows","from":"ada","to":"bob","data":{"since":"2020-01-01"}}
{"type":"Note","data":{"text":"hi","id":"n0"}}
{"type":"Note","data":{"text":"ho","id":"n1"}}
{"edge":"Wrote","from":"ada","to":"n1","data":{"id":"w1"}}
"""
