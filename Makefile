# `make demo` and `make test` are all that a fresh machine with Python 3.11 or newer needs.
PYTHON ?= python3
VENV := .venv
CORE := .venv-core
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt
MAKEFLAGS += --jobs=2

.PHONY: help demo system test core quick check soak kills fuzz matrix documents openapi cluster format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       train and compare on the built-in corpus, in minutes (makes $(VENV) the first time)"
	@echo "make test       every test, slow ones too; what CI runs"
	@echo "make quick      the fast tests, for the minutes between"
	@echo "make check      make test, and ruff (format, lint) and mypy strict"
	@echo "make soak       1,000 random kills, and 30 minutes of damaged files; more than an hour"
	@echo "make documents  every command of README and docs, in small; about ten minutes"
	@echo "make openapi    requests that schemathesis makes from the OpenAPI document of cclm serve; a minute"
	@echo "make cluster    a training on a real SLURM, disturbed 20 times in each way; about an hour"
	@echo "make format     let ruff format and mend the code"
	@echo "make clean      remove the virtual environments and caches"

# The stamps: each is newer than the files that decide what is installed.
$(VENV)/base.stamp: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cclm needs Python 3.11 or newer; this is " + sys.version)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -e .
	touch $@

$(VENV)/train.stamp: $(VENV)/base.stamp
	@echo "installing what training needs (torch among it: a few minutes the first time)"
	$(BIN)/python $(INSTALL) -e '.[train]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	@echo "installing the tests' dependencies (torch among them: a few minutes the first time)"
	$(BIN)/python $(INSTALL) -e '.[train,board,tensorboard,trackio,slurm,langid,zstd,hf,dev]'
	touch $@

# An environment with NumPy alone (and pytest to run the tests): what a user of the bare curriculum has.
$(CORE)/core.stamp: pyproject.toml constraints.txt
	test -x $(CORE)/bin/python || $(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python $(INSTALL) numpy pytest pytest-cov hypothesis
	$(CORE)/bin/python $(INSTALL) --no-deps -e .
	touch $@

demo: $(VENV)/train.stamp
	$(BIN)/cclm demo

# What the tests need and no Python package brings: SentencePiece's own command line, a browser for the report, network
# namespaces for two machines, npm for axe-core, which looks for accessibility problems, SLURM, and a compiler for the
# pretended GPU.
system:
	@for need in g++:g++ spm_encode:sentencepiece chromium:chromium ip:iproute2 npm:npm slurmctld:slurm-wlm munged:munge; do \
	  command -v $${need%%:*} > /dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && \
	    apt-get install -y -qq $${need##*:} > /dev/null; } || \
	  echo "$${need%%:*} is not here and could not be installed: tests that need it will be skipped"; \
	done

# While the other environment is being made.
core: $(CORE)/core.stamp
	$(CORE)/bin/python -m pytest -q tests/curriculum --cov --cov-report=
	$(CORE)/bin/python -m coverage report --include='*/cclm/curriculum/*,*/cclm/rng.py' --fail-under=100

# Twice as many workers as cores: many tests wait, for SLURM, a browser or a killed process.
test: $(VENV)/dev.stamp core system
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=20

quick: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m 'not slow'

check: test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Both at once, as they are independent; `make soak SOAK_SEED=7` repeats a soak.
soak: kills fuzz matrix

kills: $(VENV)/dev.stamp
	$(BIN)/python tests/soak/kills.py --kills 1000 $(if $(SOAK_SEED),--seed $(SOAK_SEED))

fuzz: $(VENV)/dev.stamp
	$(BIN)/python tests/soak/fuzz.py --minutes 30 $(if $(SOAK_SEED),--seed $(SOAK_SEED))

matrix: $(VENV)/dev.stamp
	$(BIN)/python tests/soak/matrix.py

documents: $(VENV)/dev.stamp
	$(BIN)/python tests/soak/documents.py

# schemathesis has an environment of its own: its pytest plugin would take part in every test.
openapi: $(VENV)/dev.stamp
	test -x .venv-schemathesis/bin/schemathesis || { $(PYTHON) -m venv .venv-schemathesis && \
	  .venv-schemathesis/bin/python -m pip install --quiet --disable-pip-version-check schemathesis==4.32.5; }
	$(BIN)/python tests/soak/openapi.py --schemathesis .venv-schemathesis/bin/schemathesis $(if $(SOAK_SEED),--seed $(SOAK_SEED))

cluster: $(VENV)/dev.stamp system
	$(BIN)/python tests/soak/cluster.py $(if $(SOAK_SEED),--seed $(SOAK_SEED))

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(CORE) .venv-schemathesis .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
