# Everything runs from a virtual environment of its own; PYTHON picks the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python

.PHONY: help setup demo test lint types unit schemas notebooks train clean

help:
	@echo "make demo    set up, profile, plan and decode with the embedded pair; figures in demo/"
	@echo "make test    set up, lint, type-check and run every test"
	@echo "make train   train the embedded pair again (about an hour)"

setup: $(VENV)/.installed

$(VENV)/.installed: setup.cfg constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

demo: setup
	$(RUN) -m benchmarks.demo --output demo

test: lint types unit

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	$(VENV)/bin/mypy

unit: setup
	$(RUN) -m pytest

schemas: setup
	$(RUN) -m planner.schemas

notebooks: setup
	$(VENV)/bin/jupyter-execute --inplace notebooks/*.ipynb

train: setup
	$(RUN) -m runtime.embedded.train

clean:
	rm -rf $(VENV) demo build *.egg-info
