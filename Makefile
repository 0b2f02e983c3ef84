# Needs Python 3.10 to 3.12 and make; everything else is installed into folders beside this file. Each command may be
# repeated: an environment is made once, and again when the requirements change. Lines that begin with three spaces are
# what `make help` prints.
#
#   make demo           train a small network twice, once with a fault, find the fault, and prove it
#   make check          the tests that need no framework
#   make test           what a change needs: also MindSpore, PyTorch, and PyTorch's API on MindSpore
#   make check PYTHON=python3.12  with another Python; so for each target
#
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')

MINDSPORE := 2.10.0
# The oldest version that is supported; for Python 3.12 there is none before 2.8.
OLDEST := $(if $(filter 3.12,$(VERSION)),2.8.0,2.7.0)
MATRIX := $(filter-out $(OLDEST),$(if $(filter 3.12,$(VERSION)),,2.7.1 2.7.2) 2.8.0 2.9.0)

VENV := .venv
BIN = $(VENV)/bin
RUNTIME = $(VENV)/python-$(VERSION)-mindspore-$(MINDSPORE)
TOOLS = $(VENV)/tools
TORCH = $(VENV)/torch
LAYER = $(VENV)/msadapter
PIP = $(BIN)/python -m pip --disable-pip-version-check
# pip's own progress bar goes with its chatter; what is being downloaded is said, and errors are not touched.
TERSE = | { grep -E '^ *Downloading ' || true; }

# Which tests a run has, by the markers of their files; see tests/README.md. The files themselves say what they need.
CHECK_MARKERS := not mindspore and not torch and not browser and not slow
BARE_MARKERS := not mindspore and not torch
FRAMEWORK_MARKERS := (mindspore or torch or everywhere) and not (mindspore and mindtorch) and not smoke and not examples
MINDTORCH_MARKERS := mindtorch
OTHER_MARKERS := smoke or examples
# Several processes, each with whole files of tests, for their fixtures are made once a file; in the order of the folders,
# for the files with the fewest tests, which would come last, take longest. One process more than there are cores: many
# tests wait for processes that they start, or for the disk. Threads that wait sleep: OpenMP's would keep the cores busy,
# which the other processes need.
PROCESSES := $(shell $(PYTHON) -c 'import os; print(min(5, 1 + (os.cpu_count() or 1)))')
PYTEST = OMP_WAIT_POLICY=PASSIVE MSPROBE_WHEEL=$$(echo $(CURDIR)/$(VENV)/wheel/*.whl) $(BIN)/pytest --timeout 900 --durations 25 \
    --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder $(CASES)

# Temporary files lie in memory where there is enough of it.
MEMORY := $(shell $(PYTHON) tests/support/memory_folder.py)
export TMPDIR := $(or $(TMPDIR),$(MEMORY),/tmp)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.PHONY: help demo docs examples check test suite mindtorch smoke bare run-check run-smoke run-bare test-matrix verify mutations tooled lint \
    findings frameworks page options format install clean

help:
	@sed -n 's/^#   //p' Makefile

demo: install
	@$(BIN)/python examples/demo/demo.py --work .demo

test: bare mindtorch suite

suite: $(TOOLS) $(TORCH) install
	@echo "== the suite on MindSpore $(MINDSPORE), Python $(VERSION)"
	@$(PYTEST) -m "$(FRAMEWORK_MARKERS)" tests
	@echo "== tests of the asynchronous pipeline on MindSpore $(MINDSPORE), Python $(VERSION)"
	@$(PYTEST) --asynchronous -m "pipeline" tests

mindtorch: $(TOOLS) $(TORCH) $(LAYER) install
	@echo "== PyTorch's API on MindSpore $(MINDSPORE), Python $(VERSION)"
	@PYTHONPATH=$(CURDIR)/$(LAYER) $(PYTEST) -m "$(MINDTORCH_MARKERS)" tests

#   make examples       run the commands that the READMEs of the examples show
examples: $(TOOLS) $(TORCH) install
	@echo "== the examples on MindSpore $(MINDSPORE), Python $(VERSION)"
	@$(PYTEST) -m examples tests

smoke:
	@$(MAKE) --no-print-directory run-smoke VENV=.venv-$(OLDEST) MINDSPORE=$(OLDEST)

check:
	@$(MAKE) --no-print-directory run-check VENV=.venv-bare MINDSPORE=none

bare:
	@$(MAKE) --no-print-directory run-bare VENV=.venv-bare MINDSPORE=none

run-check: $(TOOLS) install
	@echo "== the quick tests without any framework, Python $(VERSION)"
	@$(PYTEST) -m "$(CHECK_MARKERS)" tests

run-smoke: $(TOOLS) install
	@echo "== smoke on MindSpore $(MINDSPORE), Python $(VERSION)"
	@$(PYTEST) -m smoke tests

run-bare: $(TOOLS) install
	@echo "== without any framework, Python $(VERSION)"
	@$(PYTEST) -m "$(BARE_MARKERS)" tests

#   make test-matrix    the smoke tests on the versions of MindSpore in between (gigabytes of downloads)
test-matrix:
	@for version in $(MATRIX); do \
	    $(MAKE) --no-print-directory run-smoke VENV=.venv-$$version MINDSPORE=$$version; done

#   make verify         everything, in parts: all cases of all tests, the grid of trainings, planted faults (hours; resumes)
#
# A smoke test on the oldest version of MindSpore that is supported comes first.
# It writes docs/en/explanation/bit-identity.md. `make test` has a sample of the cases, and 30 examples of each property where
# this has 300. A part that has passed is not run again until something changes, the one that was run longest ago comes first.
# MSPROBE_VERIFY_MINUTES=25 ends it after that time and says what was not reached.
verify: $(TOOLS) $(TORCH) $(LAYER) smoke install
	@$(MAKE) --no-print-directory tooled VENV=.venv-bare MINDSPORE=none
	@$(BIN)/python tests/support/verify.py --bare "$(BARE_MARKERS)" --frameworks "$(FRAMEWORK_MARKERS)" \
	    --mindtorch "$(MINDTORCH_MARKERS)" --layer $(LAYER)

#   make mutations      plant faults in the product; `make test` must notice each (half an hour; continues if interrupted)
mutations: tooled $(TORCH)
	@$(MAKE) --no-print-directory tooled VENV=.venv-bare MINDSPORE=none
	@$(BIN)/python tests/mutations/run.py --bare-python .venv-bare/bin/python --results $(VENV)/mutations.jsonl

#   make tooled         install the package and the test tools into .venv, with MindSpore (VENV=.venv-bare MINDSPORE=none: without)
tooled: $(TOOLS) install

#   make lint           ruff, format and types; extensions are built with warnings as errors
lint: export MSPROBE_STRICT = 1
lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory types

#   make types          mypy in strict mode; pyproject.toml says what it checks
types: $(TOOLS) $(TORCH) install
	$(BIN)/mypy

#   make options        write the reference page of the command line from the declarations of the options
options: install
	@$(BIN)/python docs/command_line.py

#   make findings       write the reference pages of all kinds of findings, and of all exemptions
findings: install
	@$(BIN)/python docs/findings.py
	@$(BIN)/python docs/exemptions.py

#   make frameworks     write the table of the capabilities of frameworks
frameworks: install
	@$(BIN)/python docs/frameworks.py

#   make page           check, test and build the report page from its sources (needs Node and npm)
page:
	@cd msprobe_ms/report/page && npm ci --silent && npm run --silent check && npm run --silent build

#   make format         format the sources as lint demands
format: $(TOOLS)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

#   make docs           build the documentation as a site in .docs; a dead link is an error
docs: .venv-docs/built
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet

.venv-docs/built: pyproject.toml tests/constraints.txt
	@echo "== creating .venv-docs"
	@$(PYTHON) -m venv --clear .venv-docs
	@rm -rf build
	@.venv-docs/bin/python -m pip --disable-pip-version-check install --constraint tests/constraints.txt ".[docs]" $(TERSE)
	@rm -rf build
	@touch $@

#   make install        build and install the package, as after a change of the sources (VENV and MINDSPORE as above)
#
# The wheel of the tree as it stands. It is the same for all environments of a Python, so it is built once, and again when
# a source changes, also when one goes: a folder is a source too. `build` would hand it files that are gone.
SOURCES := $(shell find msprobe_ms cell_dump compare graph_save mapping setup.py pyproject.toml README.md \
    \( -name node_modules -o -name __pycache__ \) -prune -o -print)
WHEEL = .wheels/$(VERSION)$(if $(MSPROBE_STRICT),-strict)

install: $(VENV)/installed

$(VENV)/installed: $(RUNTIME) $(WHEEL)/built
	@echo "== installing msprobe-ms into $(VENV)"
	@rm -rf $(VENV)/wheel
	@mkdir -p $(VENV)/wheel
	@cp $(WHEEL)/*.whl $(VENV)/wheel
	@$(PIP) install --quiet --no-deps --force-reinstall $(VENV)/wheel/*.whl
	@touch $@

$(WHEEL)/built: $(SOURCES) | $(RUNTIME)
	@echo "== building the wheel of msprobe-ms"
	@rm -rf build $(WHEEL)
	@$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir $(WHEEL) .
	@rm -rf build
	@touch $@

$(RUNTIME): pyproject.toml tests/constraints.txt
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' || \
	    { echo "$(PYTHON) cannot be used: Python 3.10 to 3.12 with venv is needed; try make PYTHON=python3.11"; exit 2; }
	@echo "== creating $(VENV)$(if $(filter none,$(MINDSPORE)),, with MindSpore $(MINDSPORE); the first time takes some minutes)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --constraint tests/constraints.txt pip setuptools wheel $(TERSE)
	@rm -rf build
	@$(PIP) install --constraint tests/constraints.txt --no-build-isolation \
	    $(if $(filter none,$(MINDSPORE)),".","mindspore==$(MINDSPORE)" ".[mindspore]") $(TERSE)
	@touch $@

$(TOOLS): $(RUNTIME) tests/requirements.txt tests/constraints.txt
	@echo "== installing the tools of the tests into $(VENV)"
	@$(PIP) install --constraint tests/constraints.txt --requirement tests/requirements.txt $(TERSE)
	@touch $@

# The golden side of a port, and files of its own kind.
$(TORCH): $(RUNTIME) tests/constraints.txt
	@echo "== installing PyTorch into $(VENV)"
	@$(PIP) install --constraint tests/constraints.txt torch $(TERSE)
	@touch $@

# PyTorch's API on MindSpore, laid over the suite's environment: installed into it, its `torch` would replace PyTorch.
$(LAYER): $(RUNTIME) tests/end_to_end/mindtorch/requirements.txt
	@echo "== installing PyTorch's API on MindSpore into $(LAYER)"
	@rm -rf $@
	@$(PIP) install --no-deps --target $@ --requirement tests/end_to_end/mindtorch/requirements.txt $(TERSE)
	@touch $@

#   make clean          remove all environments and everything that was built
clean:
	rm -rf .venv .venv-* .wheels .demo .docs build msprobe_ms.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- For contributors: coverage, hooks, changelog ---

.PHONY: types coverage coverage-all run-coverage coverage-folder hooks changelog release-notes

COVERAGE = $(CURDIR)/$(VENV)/coverage
COVERAGE_TOOLS = $(VENV)/coverage-tools
COVERED_BARE = -m "$(BARE_MARKERS)" tests
COVERED_ALL = -m "$(FRAMEWORK_MARKERS)" tests

#   make coverage       which lines of Python and C the tests without a framework execute, per package
coverage:
	@$(MAKE) --no-print-directory run-coverage VENV=.venv-coverage WHEEL=.venv-coverage/built MINDSPORE=none COVERED=COVERED_BARE

#   make coverage-all   the same for the tests with MindSpore and PyTorch (more than an hour)
coverage-all:
	@$(MAKE) --no-print-directory run-coverage VENV=.venv-coverage-all WHEEL=.venv-coverage-all/built COVERED=COVERED_ALL

# COVERED names the variable with the tests, WHEEL the folder of a wheel that no other environment has. The extensions are built with counters, and their objects are kept, because
# gcov reads both. Whether tests pass is the question of `make check` and `make test`: measuring slows them down, and some
# observe the interpreter.
run-coverage: export CFLAGS = --coverage -fprofile-update=atomic
run-coverage: export CXXFLAGS = $(CFLAGS)
run-coverage: export LDFLAGS = --coverage
run-coverage: export DIST_EXTRA_CONFIG = $(COVERAGE)/build.cfg
run-coverage: export COVERAGE_FILE = $(COVERAGE)/data
run-coverage: $(TOOLS) $(COVERAGE_TOOLS) $(if $(filter none,$(MINDSPORE)),,$(TORCH)) coverage-folder install
	@echo "== coverage, Python $(VERSION), MindSpore: $(MINDSPORE)"
	@$(subst $(BIN)/pytest,$(BIN)/coverage run -m pytest,$(PYTEST)) $($(COVERED)) || \
	    echo "== tests failed while coverage was measured; see above"
	@$(BIN)/python tests/support/coverage_report.py $(COVERAGE)

coverage-folder:
	@rm -rf $(COVERAGE) $(WHEEL)
	@mkdir -p $(COVERAGE)
	@printf '[build]\nbuild_base = %s\n' $(COVERAGE)/build > $(COVERAGE)/build.cfg

$(COVERAGE_TOOLS): $(RUNTIME) tests/requirements-coverage.txt tests/constraints.txt
	@echo "== installing the tools of coverage into $(VENV)"
	@$(PIP) install --constraint tests/constraints.txt --requirement tests/requirements-coverage.txt $(TERSE)
	@touch $@

#   make hooks          install the git hooks: ruff on the files of each commit, types at each push
hooks: .venv-bare/hooks
	@.venv-bare/bin/pre-commit install

.venv-bare/hooks: tests/constraints.txt
	@$(MAKE) --no-print-directory .venv-bare/tools VENV=.venv-bare MINDSPORE=none
	@.venv-bare/bin/python -m pip --disable-pip-version-check install --constraint tests/constraints.txt pre-commit $(TERSE)
	@touch $@

RELEASE := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

#   make changelog      print the changelog of the next release, made of the fragments in changes/
changelog:
	@$(MAKE) --no-print-directory .venv-bare/tools VENV=.venv-bare MINDSPORE=none >&2
	@.venv-bare/bin/towncrier build --draft --version $(RELEASE)

#   make release-notes  move the fragments into CHANGELOG.md, for the version in pyproject.toml
release-notes:
	@$(MAKE) --no-print-directory .venv-bare/tools VENV=.venv-bare MINDSPORE=none
	@.venv-bare/bin/towncrier build --yes --version $(RELEASE)
