# The task runner. Every target does whatever set-up is missing by itself, once: see .ci/set-up.
PYTHON ?= python3
BENCH  ?= wordcount

BIN   := .venv/bin
STAMP := .venv/.tailrace-set-up
# What an installation is made from: a change of any of these repeats it.
MADE_FROM := pyproject.toml bench/pyproject.toml setup.py native/compiled.txt $(wildcard native/*.c native/*.h) $(shell grep -v '^\#' native/compiled.txt)

# A stamp written for another folder belongs to a copied tree, whose environment still points at the original.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): moved
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup plain demo test lint bench bench-check stress clean java moved

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## virtual environment in .venv, dependencies, native build
	@.ci/machine ring $(BIN)/python
	@.ci/machine java

plain: ## take the compiled modules away: changes of their sources count at once, and everything is slower
	find src -name '*.so' ! -name '_*' -delete

demo: java $(STAMP) ## word count on an embedded Spark with a slow worker, baselines and auto, about 40 s
	$(BIN)/tailrace demo

test: java lint ## lint, then every test but the soak tests
	@.ci/machine ring $(BIN)/python
	$(BIN)/python -m pytest tests -m "not soak" --durations=10

lint: $(STAMP) ## ruff, mypy --strict and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

bench: java $(STAMP) ## one benchmark against its baselines: make bench BENCH=wordcount
	$(BIN)/tailrace bench $(BENCH) --quick

bench-check: java $(STAMP) ## a few quick benches: has a ratio fallen by over 20 % against bench/baseline?
	$(BIN)/tailrace bench-check

stress: $(STAMP) ## the ring under full load, sanitizers, 1,000 kills and an exhaustive search; about 10 minutes
	$(BIN)/python -m tests.stress.ring_stress

clean: ## remove all that make built, .venv included
	rm -rf .venv build dist src/*.egg-info bench/build bench/src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src bench tests -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete

$(STAMP): $(MADE_FROM)
	@.ci/set-up "$(PYTHON)" $(STAMP)

java:
	@.ci/machine java

moved:
