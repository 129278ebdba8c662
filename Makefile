# `make` alone lists the targets. Each sets up what it needs in .venv and is quick the second time.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# A company's proxy has its certificate in the system's store, not in uv's own.
export UV_SYSTEM_CERTS ?= 1

# The first Python that starts and is of a version Tracehold runs on.
FITS   := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(FITS)' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python
DEMO   ?=
BENCH  ?=
TESTS  ?= tests

.PHONY: help demo up test soak lint types format bench docs clean

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

$(BIN)/uv:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 to 3.13 found; name one: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@echo "making a private environment in $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/uv
	@echo "installing Tracehold with collector and dashboard"
	@$(UV) --constraint constraints.txt -e '.[all]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/uv
	@echo "installing Tracehold and what its tests need"
	@$(UV) --constraint constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run ## Load recorded runs of real agents, make two live, and serve them: dashboard and collector
	@$(BIN)/tracehold demo $(DEMO)

up: $(VENV)/.run ## Collector and dashboard with your own store
	@$(BIN)/tracehold up

test: $(VENV)/.dev ## The fast profile of the tests
	@$(BIN)/python -m pytest -m 'not slow and not external' $(TESTS)

soak: $(VENV)/.dev ## The long profile: full counts of the randomised and the killing tests
	@TRACEHOLD_PROFILE=soak $(BIN)/python -m pytest -m 'not external' --timeout 1800 $(TESTS)

lint: $(VENV)/.dev ## Format check, linter, import layers, docstrings of the public API
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/interrogate --quiet runtime collector queries dashboard

types: $(VENV)/.dev ## The type checker, strict
	@$(BIN)/mypy

format: $(VENV)/.dev ## Format the code and apply the linter's safe fixes
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: $(VENV)/.dev ## Emit, gates, locks, the engine, queries and ingest, each beside a floor (BENCH="--only gates" picks, BENCH=--help tells)
	@$(BIN)/python benchmarks/run.py $(BENCH)

docs: $(VENV)/.dev ## Write the generated pages of the documentation anew
	@$(BIN)/python tests/generate_docs.py

clean: ## Remove the private environment, the demo's store and caches
	rm -rf $(VENV) .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
