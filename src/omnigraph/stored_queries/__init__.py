"""Stored queries: named queries that are kept beside a graph, and checked against its schema."""
