"""Loads, exports and embeddings of graphs that deserve Spark."""
