"""The reference evaluator of read plans: slow, over plain dicts. Executors are compared with it."""
