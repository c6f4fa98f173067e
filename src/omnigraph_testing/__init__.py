"""The test kit of OmniGraph: suites, models, random inputs, fault injection, servers.

It is not part of the wheel. Tests and benchmarks import it from the checkout (`src` is on the path
of the editable install, or in PYTHONPATH), and so do the child processes and Spark executors that
tests start. It needs the packages of the `dev` extra.
"""
