# A target with ## behind it is listed by `make`.

PYTHON ?= python3
READY := @$(PYTHON) -m tools.bootstrap

# Hashes without addresses: the same lock serves every mirror and every machine.
PIN := .tools/uv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate $(UPGRADE)

# Both workers take whole files, in an order that every run has.
PYTEST := .venv/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder --randomly-seed=1

# What the commands fetch stays in this folder.
export PATH := $(CURDIR)/.tools/bin:$(PATH)
export PYRIGHT_PYTHON_CACHE_DIR := $(CURDIR)/.tools/pyright
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export WAYSTATION_CACHE := $(CURDIR)/.tools/cache

# A run starts hundreds of Pythons; without compiled files each spends half its start on compiling.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test slow long mutants check coverage bench docs lock release clean

help:
	@awk -F ' *## *' '/^[a-z]+:.*## / { sub(/:.*/, "", $$1); printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: ## Watch a small ticket sale, counted to the last ticket; ARGS=--serve keeps it open in the browser
	$(READY) demo
	@.venv/bin/python -m waystation demo $(ARGS)

test: ## Run the tests that take seconds; ARGS="-k lease" picks some
	$(READY) test
	@$(PYTEST) -m "not slow and not long" $(ARGS)

slow: ## Run the tests that take longer: the same behaviour in whole programs; ARGS as for test
	$(READY) test
	@$(PYTEST) -m "slow and not long" $(ARGS)

long: ## Run what costs minutes: full sizes, kills, and property tests that search at random
	$(READY) test
	@WAYSTATION_FULL=1 .venv/bin/pytest -m "long or full or hypothesis" --hypothesis-profile=search $(ARGS)

mutants: ## Plant bugs one by one, and name the test that catches each; ARGS=limiter picks some
	$(READY) test
	@.venv/bin/python -m tools.mutants $(ARGS)

check: ## Read the code without running it: style, types, who imports whom
	$(READY) test
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/pyright
	@.venv/bin/lint-imports

coverage: ## Run both and measure what they reach: a total, and build/coverage/html; ARGS as for test
	$(READY) test
	@mkdir -p build/coverage
	@$(PYTEST) --cov --cov-report=term --cov-report=html $(ARGS)

bench: ## Measure; BENCH=runtime picks one
	$(READY) bench
	@.venv/bin/python -m benchmarks $(BENCH)

docs: ## Write docs/reference and docs/tour from the code, then build the site into build/site
	$(READY) test
	@.venv/bin/python -m tools.pages
	@.venv/bin/python -m tools.site

lock: ## Pin the dependencies anew; UPGRADE=--upgrade takes the newest
	$(READY) test
	@$(PIN) pyproject.toml --all-extras --group dev -o requirements/test.txt
	@$(PIN) pyproject.toml --extra api --extra embedded --extra spark --group demo -c requirements/test.txt -o requirements/demo.txt
	@$(PIN) --group setup -o requirements/uv.txt

release: ## Build what is published, and try it in clean environments; ARGS="spark top" tries some extras
	$(READY) bench
	@.venv/bin/python -m tools.release $(ARGS)

clean: ## Remove everything that the other commands have made
	rm -rf .venv .tools .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
