"""Embedding providers: text in, vector out.

`choose` picks the configured provider: `local` (a model in this process), `mock` (for tests), or
one of `remote_providers`. Nothing here knows the graph or its storage. The operation `Graph.embed`,
which finds entities without a vector and commits new ones, is in `omnigraph.vectors`.
"""
