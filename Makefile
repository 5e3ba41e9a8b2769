# The two commands a newcomer needs are `make demo` and `make test`. Both set up .venv first, at first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/bench/.ready

.PHONY: demo test check bench soak clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,check]"
	touch $(READY)

demo: $(READY)  ## the main job on a real conversation
	$(BIN)/python docs/demo.py

test: $(READY)  ## all tests
	$(BIN)/python -m pytest -n 2

check: $(READY)  ## linters and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf $(VENV)/typed  # types are checked as installed: only so is `strategies` found as chronicle_py.strategies
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)/typed .
	MYPYPATH=$(VENV)/typed $(BIN)/mypy -p chronicle_py
	MYPYPATH=$(VENV)/typed:tests $(BIN)/mypy tests bench docs

$(PEERS): pyproject.toml  # other libraries, which the tests must not meet
	$(PYTHON) -m venv $(VENV)/bench
	$(VENV)/bench/bin/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $(PEERS)

bench: $(PEERS)  ## the figures of docs/benchmarks.md, other libraries beside ours
	$(VENV)/bench/bin/python -m bench --docs docs

soak: $(READY)  ## the long tests, about half an hour, and a table of what they found: docs/reliability.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[soak]"
	cd tests && ../$(BIN)/python -m soak

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
