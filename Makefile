# Every target sets up what it needs: a fresh machine has Python 3.11 and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
k ?=
sets ?= 3
draws ?= 4

# Tests start hundreds of processes: with this set, each would compile all of dpquery again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# Which folders of tests/ an area has: tests/README.md says when to run which.
sql_tests := sql corpus core
mechanisms_tests := mechanisms
functions_tests := functions rowfunctions lab
plan_tests := plan
engine_tests := engine publicdata
ledger_tests := ledger
cache_tests := cache
policy_tests := policy
shell_tests := shell display
interface_tests := interface
docs_tests := docs errors
property_tests := property
server_tests := server

.PHONY: help setup check test slow corpus corpus-update fix docs data demo bench study clean

help:  ## this list
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## /  \1\t/' | expand -t 18

setup: $(STAMP)  ## make .venv and install dpquery with the extras shell and dev

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dpquery needs Python 3.11 or later: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[shell,dev]'
	@touch $(STAMP)

check: $(STAMP)  ## format, lint, types, import contracts
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-cache >/tmp/dpquery-imports.$$$$ 2>&1 || { cat /tmp/dpquery-imports.$$$$; rm -f /tmp/dpquery-imports.$$$$; exit 1; }; rm -f /tmp/dpquery-imports.$$$$

test: check  ## check, then every test that is not marked slow (k=NAME picks some)
	$(BIN)/python -m pytest -q -n $(WORKERS) -m 'not slow' $(if $(k),-k '$(k)')

test-%: $(STAMP)  ## one area: sql, mechanisms, functions, plan, engine, ledger, cache, policy, shell, interface, server, docs, property
	$(if $($*_tests),,$(error there is no area $*; tests/README.md lists them))
	$(BIN)/python -m pytest -q -n $(WORKERS) -m 'not slow' $(addprefix tests/,$($*_tests)) $(if $(k),-k '$(k)')

slow: $(STAMP)  ## statistical, crash and large tests
	$(BIN)/python -m pytest -q -n $(WORKERS) -m slow $(if $(k),-k '$(k)')

corpus: $(STAMP)  ## run the queries of grammar/
	$(BIN)/python -m pytest -q tests/corpus

corpus-update: $(STAMP)  ## rewrite the expectations in grammar/ (then read the diff)
	$(BIN)/python -m pytest -q tests/corpus --update

fix: $(STAMP)  ## format, and the lint fixes that cannot change meaning
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .

docs: $(STAMP)  ## regenerate functions.md, policy.md, benchmarks.md, noise.svg, and changed transcripts
	$(BIN)/python -m tests.tasks docs

data: $(STAMP)  ## regenerate the sample data and compare checksums
	$(BIN)/python datasets/make.py

demo: $(STAMP)  ## set up, then groups, a quantile and a refusal on the sample data
	@$(BIN)/dpquery demo

bench: $(STAMP)  ## ratios to DuckDB's own answer, side by side in one run
	$(BIN)/python -m benchmarks.bench

study: $(STAMP)  ## accuracy of released values (draws=12 for more of quantiles; sets=9)
	$(BIN)/python -m benchmarks.study $(sets) $(draws)

clean:  ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
