"""The operation `Graph.embed`: fill missing and stale vectors of a branch in one commit.

It is called `vectors` because it works on stored vectors: `missing_vectors` finds the entities,
`vector_requests` asks a provider of `omnigraph.embed` for their vectors, and `embedder` writes and
commits them. It needs no Spark. `omnigraph.spark.embed` sends the same requests from Spark workers.
"""
