# Two commands set everything up by themselves: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal  # neighbours share fixtures; idle workers take the rest

.PHONY: demo test quick bare frameworks lint bench audit-table clean

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
	$(PYTEST)

quick: $(VENV)/.dev
	$(PYTEST) -m "not slow"

# The core with numpy and scipy alone, in an environment of its own: tests of what is not installed are skipped.
bare:
	$(PYTHON) -m venv $(VENV)-bare
	$(VENV)-bare/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest hypothesis
	$(VENV)-bare/bin/python -m pytest -m "not slow" --ignore=tests/cli --ignore=tests/test_docs.py

# The adapters against the real frameworks, the newest of each, in an environment of their own.
frameworks:
	$(PYTHON) -m venv $(VENV)-frameworks
	$(VENV)-frameworks/bin/python -m pip install --quiet --disable-pip-version-check -e ".[frameworks]"
	$(VENV)-frameworks/bin/python -m pytest -m frameworks tests/adapters

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# Metrics of other libraries, in an environment of their own: the table of docs/audit.md.
audit-table:
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check -e ".[torch,recalibration]" \
		torchmetrics netcal relplot uncertainty-calibration mapie calibre probcal torch-uncertainty
	$(VENV)-audit/bin/python -m benchmarks.audit_peers --out docs/audit.md

clean:
	rm -rf $(VENV) $(VENV)-bare $(VENV)-audit $(VENV)-frameworks demo bench-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
