# The task runner. Every target does whatever set-up is missing by itself, once: see .ci/set-up.
PYTHON ?= python3
BENCH  ?= wordcount
# How many processes share the tests: most of them wait for others most of the time.
TEST_PROCESSES ?= 2

BIN := .venv/bin
# What `make demo` needs, and with it what developers need.
RUN := .venv/.tailrace-run
DEV := .venv/.tailrace-dev
# What an installation is made from: a change of any of these repeats it.
MADE_FROM := pyproject.toml bench/pyproject.toml setup.py native/compiled.txt $(wildcard native/*.c native/*.h) $(shell grep -v '^\#' native/compiled.txt)
PYTEST := $(BIN)/python -m pytest tests --numprocesses $(TEST_PROCESSES) --dist loadscope --no-loadscope-reorder --durations=10

# A stamp written for another folder belongs to a copied tree, whose environment still points at the original.
ifneq ($(shell cat $(RUN) 2>/dev/null),$(CURDIR))
$(RUN) $(DEV): moved
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup plain demo test test-long lint bench bench-check stress clean java moved

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## virtual environment in .venv, dependencies, native build
	@.ci/machine ring $(BIN)/python
	@.ci/machine java

plain: ## take the compiled modules away: changes of their sources count at once, and everything is slower
	find src -name '*.so' ! -name '_*' -delete

demo: java $(RUN) ## word count on an embedded Spark with a slow worker, baselines and auto, about 40 s
	@.ci/timed "the demo" $(BIN)/tailrace demo

test: java $(DEV) ## lint, then every test but the soak tests, with few examples of each property
	@.ci/timed "lint" $(MAKE) --no-print-directory lint
	@.ci/machine ring $(BIN)/python
	@.ci/timed "tests" $(PYTEST) -m "not soak"

test-long: java $(DEV) ## the soak tests too, and many examples of each property; an hour or so
	TAILRACE_EXAMPLES=many .ci/timed "long tests" $(PYTEST)

lint: $(DEV) ## ruff, mypy --strict and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

bench: java $(DEV) ## one benchmark against its baselines: make bench BENCH=wordcount
	$(BIN)/tailrace bench $(BENCH) --quick

bench-check: java $(DEV) ## a few quick benches: has a ratio fallen by over 20 % against bench/baseline?
	$(BIN)/tailrace bench-check

stress: $(DEV) ## the ring under full load, sanitizers, 1,000 kills and an exhaustive search; about 10 minutes
	$(BIN)/python -m tests.stress.ring_stress

clean: ## remove all that make built, .venv included
	rm -rf .venv build dist src/*.egg-info bench/build bench/src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src bench tests -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete

$(RUN): $(MADE_FROM)
	@.ci/set-up "$(PYTHON)" run $(MADE_FROM)

$(DEV): $(MADE_FROM)
	@.ci/set-up "$(PYTHON)" dev $(MADE_FROM)

java:
	@.ci/machine java

moved:
