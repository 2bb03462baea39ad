# Every target does its own set-up in .venv; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

# A shell may ask for no compiled modules; tests start hundreds of interpreters that would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest
# To rewrite the assertions of all files takes each process 15 s, so only what fails is run again with its values shown.
# Each process works from its own end, so that what the tests of a file share is made once.
TESTS := $(PYTEST) -n $(WORKERS) --dist worksteal --assert=plain
AGAIN := { $(PYTEST) --last-failed --last-failed-no-failures none; false; }

CASES ?= 50000
OLDEST := .venv/oldest

.PHONY: demo test test-all test-browser rest lint types unit slow docs bench dist edges-oldest clean

.stamp-core: setup.cfg pyproject.toml dpstats/_version.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# By itself: pip would resolve and build twice.
.stamp-test: setup.cfg pyproject.toml dpstats/_version.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,docs]'
	touch .stamp-core $@

.stamp-bench: .stamp-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

demo: .stamp-core
	$(BIN)/python -m dpstats demo

# What answers within minutes, and the rest of what a change must pass.
test: lint types unit

test-all: test rest

rest: docs slow test-browser

lint: .stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .stamp-test
	$(BIN)/mypy

unit: .stamp-test
	$(TESTS) -m "not slow" || $(AGAIN)

slow: .stamp-test
	$(TESTS) -m slow --ignore tests/browser || $(AGAIN)

# The pages of an office in Chromium (Debian's package chromium); what failed of other tests is for their own run.
test-browser: .stamp-test
	DPSTATS_BROWSER=needed $(PYTEST) -p no:cacheprovider tests/browser

docs: .stamp-test
	$(BIN)/python -m sphinx -W --keep-going -q -j $(WORKERS) -b html docs docs/_build/html

bench: .stamp-bench
	$(BIN)/python -m benchmarks

# What would be published; both must satisfy the package index's checks.
dist: .stamp-core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dist]'
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

# The least versions in setup.cfg; polars, which is optional, is today's.
.stamp-oldest: .stamp-core
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	    'numpy==1.26.*' 'scipy==1.11.*' 'pandas==2.1.*' 'patsy==1.0.*' 'statsmodels==0.14.4' 'opendp>=0.14' \
	    'pyarrow==15.*' polars pytest hypothesis
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

edges-oldest: .stamp-oldest
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m benchmarks.audits.edges $(CASES)
	$(OLDEST)/bin/python -m pytest tests/edges

clean:
	rm -rf .venv .stamp-* docs/_build dist
