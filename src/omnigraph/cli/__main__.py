"""`python -m omnigraph.cli`."""

from omnigraph.cli.main import run

run()
