"""The control plane: graphs, schemas, queries, policies and providers declared in one directory.

`cluster.yaml` declares them. `plan` compares the declarations with the ledger and the live graphs,
`apply` makes them true, and the server serves what was applied.
"""
