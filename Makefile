# Two commands for a newcomer: `make demo` and `make test`. Either may be typed first, or twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint unit docs release bench benchmarks mutants clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Install everything into .venv, at the tested versions

# The stamp is written last: an interrupted set-up starts again.
$(READY): pyproject.toml bench/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]' -e './bench[speed]'
	@touch $(READY)

demo: $(READY) ## Train a GNN on a built-in graph, calibrate it, draw a picture and a report
	$(BIN)/simi-mailbox demo

test: lint unit ## Lint, type-check and test, as continuous integration does

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check src tests bench docs/*.py docs/gallery
	$(BIN)/mypy

unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --doctest-modules src tests bench/src bench/tests

docs: $(READY) ## Build the documentation into docs/_build/html; a warning is an error
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

release: ## Build wheel and sdist, and try each in an empty environment
	scripts/check-release $(PYTHON)

bench: $(READY) ## Measure the paper's main table (hours; continues where it stopped)
	$(BIN)/simi-mailbox bench table1

benchmarks: $(READY) ## Measure speed, memory and intervals, as ratios in one run (wants an idle machine)
	for file in bench/speed/bench_*.py; do echo "== $$file" && $(BIN)/python $$file || exit 1; done

mutants: $(READY) ## Change the core at random 200 times: how often do tests see it? (half an hour)
	OMP_NUM_THREADS=1 $(BIN)/python bench/speed/mutants.py --count 200

clean: ## Remove the environment and what tools left behind
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis demo dist build bench/dist docs/_build docs/api docs/gallery/made
