# Everything runs from a virtual environment of its own; PYTHON picks the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python

.PHONY: help setup demo test lint types unit soak engines docs record train gpu clean

help:
	@echo "make setup   the virtual environment that the others run in"
	@echo "make demo    set up, profile, plan and decode with the embedded pair; figures in demo/"
	@echo "make test    set up, lint, type-check and run every test"
	@echo "make soak    tests with many samples or long texts (minutes)"
	@echo "make engines ask the engines' own parsers to read every export; LLAMA=FOLDER has llama-server"
	@echo "make docs    build the documentation into build/site: notebooks executed, every link checked"
	@echo "make record  make demo, and show its run in the README, the pages and the notebooks"
	@echo "make train   train the embedded pair again (about an hour)"
	@echo "make gpu     kernels and loop on an NVIDIA GPU: right, how fast; PYTHON's own torch and triton;"
	@echo "             OUT=FOLDER takes the results"
	@echo "make clean   remove what these have made"

setup: $(VENV)/.installed

# Python compiles what it imports: compiling all that is installed would only take longer.  Where it
# were not to keep that, every process would compile torch and transformers again.
unexport PYTHONDONTWRITEBYTECODE
$(VENV)/.installed: setup.cfg constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --no-compile --constraint constraints.txt --editable ".[test,docs]"
	touch $@

demo: setup
	$(RUN) -m benchmarks.demo --output demo

# Types are checked beside the tests, since that takes one core alone.
test: lint
	@$(MAKE) --no-print-directory --jobs=2 types unit

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	$(VENV)/bin/mypy

# A file's tests stay in one process, for what they share; torch takes one thread in each.  Files
# come as their names do: by number of tests, the few that take longest would come last, alone.
WORKERS = $(shell $(PYTHON) -c "import os; print(min(8, max(2, os.cpu_count() or 1)))")

unit: setup
	$(RUN) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Tests of more samples, or of longer texts, than anybody waits for while working.
soak: setup
	$(RUN) -m pytest -n $(WORKERS) -m soak

# Parsers are installed into build/engines, each with what it imports and nothing else.
engines: setup
	$(RUN) -m tests.export.parsers

docs: setup
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet --site-dir build/site

# The run that the README shows: its documents, from which the notebooks are, its picture, its outputs.
record: demo
	$(RUN) .ci/readme.py --write demo

train: setup
	$(RUN) -m runtime.embedded.training.train

# Straight from this tree by the Python that has torch and triton; nothing of theirs is installed.
# Wheels of what else is missing there (pydantic for the planner's part) may lie in wheels/.
CARRIED = $(filter-out wheels/torch-% wheels/triton-%,$(wildcard wheels/*.whl))

gpu:
	@$(if $(CARRIED),$(PYTHON) -m pip install --quiet --no-index --no-deps --no-compile --upgrade \
		--target build/wheels $(CARRIED))
	@PYTHONPATH=.:kernels:build/wheels:$$PYTHONPATH $(PYTHON) -m benchmarks.gpu \
		$(if $(OUT),--output $(OUT)/gpu.json)

clean:
	rm -rf $(VENV) demo build *.egg-info
