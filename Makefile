# One command for each thing, the same here and in CI. Each makes its own .venv when there is none;
# PYTHON=python3.13 make … chooses the interpreter it is made with.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.DEFAULT_GOAL := help
.PHONY: help demo lab test check format pictures bench clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: .venv/.installed  ## a guided look at the workbench, on a database of its own
	@$(BIN)/python -m workbench demo

lab: .venv/.installed-dev  ## JupyterLab on the example notebooks
	@$(BIN)/python -m jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

test: .venv/.installed-dev  ## the tests, in two processes (ARGS="-k name" passes options to pytest)
	@$(BIN)/python -m pytest -n 2 $(ARGS)

check: .venv/.installed-dev  ## format, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports

format: .venv/.installed-dev  ## rewrite the files as `check` wants them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

pictures: .venv/.installed-dev  ## the documentation's pictures, docs/images, made anew in a browser
	@PICTURES=1 $(BIN)/python -m pytest tests/browser/test_pictures.py

bench: .venv/.installed-dev  ## the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

clean:  ## remove .venv and the tools' caches
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'workbench needs Python 3.11 or newer, and "$(PYTHON)" is not: make PYTHON=/path/to/python3.11 …' >&2; exit 1; }
	@echo 'creating .venv with $(PYTHON)'
	@$(PYTHON) -m venv .venv || { \
	  echo 'no venv module: install it (on Debian: apt install python3-venv), remove .venv, try again' >&2; exit 1; }

# The stamps say what .venv holds. The development install holds the plain one.
.venv/.installed: pyproject.toml | $(BIN)/python
	@echo 'installing the package into .venv'
	@$(PIP) -e .
	@touch $@

.venv/.installed-dev: pyproject.toml | $(BIN)/python
	@echo 'installing the package and its development tools into .venv'
	@$(PIP) -e '.[dev]'
	@touch .venv/.installed $@
