# Two commands do everything: `make demo` and `make test`. Only Python 3.11+ and PyPI are needed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# The tests start many processes. Without byte code each of them would compile the tree again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check bench docs lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing into .venv, a minute or two ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --use-pep517 --disable-pip-version-check -c requirements.lock -e '.[spark,dev]'
	@touch $@

setup: $(INSTALLED) ## make .venv and install

demo: $(INSTALLED) ## a graph made, loaded, searched, branched and recovered, with timings
	$(BIN)/omnigraph demo

test: $(INSTALLED) ## static checks and the whole default suite
	$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-all: $(INSTALLED) ## the default suite and everything marked slow
	$(MAKE) --no-print-directory check
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 --dist loadgroup -m "slow or not slow"

check: $(INSTALLED) ## format, lint, import layers, types
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }
	$(BIN)/mypy

bench: $(INSTALLED) ## measure against floors and peers (FAMILIES="query search" SCALE=full); results go to bench/results
	$(BIN)/python -m bench $(FAMILIES) --scale $(or $(SCALE),small)

docs: $(INSTALLED) ## make the reference pages anew and build the site into build/site
	$(BIN)/python -m omnigraph.cli.reference docs/cli.md
	$(BIN)/python -m omnigraph.server.openapi_copy docs/openapi.json
	$(BIN)/python -m bench --tables docs/performance.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

lock: $(INSTALLED) ## pin every dependency anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-header \
	  --no-emit-index-url --no-emit-find-links --no-annotate pyproject.toml -o requirements.lock

clean: ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
