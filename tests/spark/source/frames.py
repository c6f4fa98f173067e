"""Helpers that the tests of the format share."""

from __future__ import annotations

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  born: Date?  seen: DateTime?  n: U64?
              score: F64?  ok: Bool? }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
"""
