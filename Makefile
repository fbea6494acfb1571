# The verbs of this repository. Each one makes the virtual environment it needs.

PYTHON ?= python3
# `newest` takes the upper end of every dependency's range, `lowest` the lower end.
DEPS ?= newest
VENV ?= .venv$(if $(filter lowest,$(DEPS)),-lowest)
WORKERS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=

RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-sqlite check bench docs clean

help:  ## Show these verbs
	@sed -n 's/^\([a-z-]*\):.*##/make \1\t/p' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## Kill an agent in the middle of a conversation and go on (DEMO_URL=… for a server)
	$(RUN) -m examples.demo

# Far from UTC, as the servers are: what reads the process's own zone shows itself.
test: export TZ := Asia/Shanghai
test: $(INSTALLED)  ## Run every test on SQLite, PostgreSQL and MariaDB, on private servers
	$(RUN) -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-sqlite: $(INSTALLED)  ## Run the tests that need no server
	$(RUN) -m pytest --engines sqlite -m "not slow" $(PYTEST_ARGS)

check: $(INSTALLED)  ## Lint, format, types, floors between the rooms, SQL
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports
	$(RUN) -m sqlfluff lint --disable-progress-bar --dialect sqlite deerstore/sql/sqlite deerstore/sql/*/sqlite migrations/sqlite
	$(RUN) -m sqlfluff lint --disable-progress-bar --dialect postgres deerstore/sql/postgres deerstore/sql/*/postgres migrations/postgres
	$(RUN) -m sqlfluff lint --disable-progress-bar --dialect mysql deerstore/sql/mysql deerstore/sql/*/mysql migrations/mysql
	$(RUN) -m deerstore.workbench.lint
	$(RUN) -m deerstore.workbench.mysql_check

bench: $(INSTALLED)  ## Measure every query against the bare driver (BENCH_ARGS=--full for all of it)
	$(RUN) -m benchmarks $(BENCH_ARGS)

docs: $(INSTALLED)  ## Check the links and the code of the documentation
	$(RUN) -m pytest tests/docs -p no:randomly $(PYTEST_ARGS)

clean:  ## Remove what the other verbs made
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(INSTALLED): pyproject.toml tests/packaging/lowest.py
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade "pip>=25.1"
ifeq ($(DEPS),lowest)
	$(RUN) tests/packaging/lowest.py > $(VENV)/constraints.txt
	$(RUN) -m pip install --quiet --constraint $(VENV)/constraints.txt --editable ".[all]" --group dev
else
	$(RUN) -m pip install --quiet --editable ".[all]" --group dev
endif
	touch $@
