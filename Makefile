# Two commands set everything up: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS ?= 2
# Tests start Python hundreds of times: it may keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal  # neighbours share fixtures; idle workers take the rest

.PHONY: demo test fix heavy quick another-cpu kernels wheel bare frameworks lint bench audit reproduce docs notebooks pictures clean

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
	$(PYTEST) -m "not heavy"

# Lint, types and quick tests of one package, in about a minute: make fix PKG=core
PKG ?= core
CODE = src/truecal/$(PKG) $(wildcard tests/$(PKG))
fix: $(VENV)/.dev
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)
	$(BIN)/mypy src/truecal/$(PKG)
	$(PYTEST) -m "not slow" tests/test_project.py $(wildcard tests/$(PKG))

# The tests that make test leaves out. CI runs them.
heavy: $(VENV)/.dev
	$(PYTEST) -m heavy

quick: $(VENV)/.dev
	$(PYTEST) -m "not slow"

# The quick tests as on another CPU: plain instructions, one thread, shuffled order. No result may depend on the last bit.
another-cpu: $(VENV)/.dev
	$(BIN)/python tests/another_cpu.py -n $(JOBS) --dist worksteal -m "not slow"

# The core with numpy and scipy alone, in a separate environment; tests of missing packages are skipped.
bare:
	$(PYTHON) -m venv $(VENV)-bare
	$(VENV)-bare/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest hypothesis
	$(VENV)-bare/bin/python -m pytest -m "not slow" --ignore=tests/cli --ignore=tests/test_docs.py

# The GPU kernels, run by Triton's interpreter on the CPU. Triton 3.6 needs numpy < 2.4 for it, hence a separate environment.
$(VENV)-kernels/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-kernels
	$(VENV)-kernels/bin/python -m pip install --quiet --disable-pip-version-check -e ".[kernels]"
	touch $@

kernels: $(VENV)-kernels/.ready
	$(VENV)-kernels/bin/python -m pytest -n $(JOBS) tests/sums/test_fused.py tests/sums/test_fused_batches.py

# The release: sdist and wheel are checked, the wheel is installed and tested outside the repository.
wheel:
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(VENV)-wheel/bin/python -m build --outdir dist .
	$(VENV)-wheel/bin/python -m twine check --strict dist/*
	JOBS=$(JOBS) $(VENV)-wheel/bin/python tests/wheel.py dist

# The adapters against the real frameworks, the newest of each, in a separate environment.
frameworks:
	$(PYTHON) -m venv $(VENV)-frameworks
	$(VENV)-frameworks/bin/python -m pip install --quiet --disable-pip-version-check -e ".[frameworks]"
	$(VENV)-frameworks/bin/python -m pytest -m frameworks tests/adapters

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# make bench SIZE=--small: few rows, to check that everything runs.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(SIZE)

# Metrics of other libraries, in separate environments: results/audit/RESULTS.md and the results behind it.
audit: $(VENV)/.dev
	$(BIN)/python -m benchmarks.audit

# The paper's experiments, on bundled data: minutes on two cores. Other runs: docs/reproduce.md.
reproduce: $(VENV)/.dev
	$(BIN)/python -m reproduction letter --out build/letter

# The site, build/docs/index.html, in a separate environment: warnings are errors, and its pages are checked.
$(VENV)-docs/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

notebooks: $(VENV)-docs/.ready
	$(VENV)-docs/bin/jupyter execute --inplace docs/notebooks/*.ipynb

docs: $(VENV)-docs/.ready
	rm -rf build/docs
	$(VENV)-docs/bin/sphinx-build -n -W --keep-going -q -c docs/site . build/docs
	$(VENV)-docs/bin/python -m truecal demo --out build/demo
	cp build/demo/report.html build/docs/docs/demo.html
	SITE=build/docs $(VENV)-docs/bin/python -m pytest tests/test_site.py

# The pictures of README and docs; needs Chromium.
pictures: $(VENV)/.dev
	$(BIN)/python docs/site/pictures.py

clean:
	rm -rf $(VENV) $(VENV)-bare $(VENV)-audit* $(VENV)-docs $(VENV)-frameworks $(VENV)-kernels $(VENV)-wheel build dist docs/api demo bench-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
