# Two commands set everything up by themselves: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint bench clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[cli,report,plots,recalibration]"
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[dev]"
	touch $@

demo: $(VENV)/.demo
	$(BIN)/truecal demo --out demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo bench-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
