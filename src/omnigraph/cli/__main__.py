"""`python -m omnigraph.cli`."""

from omnigraph.cli.entry import run

run()
