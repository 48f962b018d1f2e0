# Everything runs in .venv/, which these targets make; PYTHON chooses its interpreter (3.10 or later).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -q
CPP := $(wildcard csrc/*.h csrc/*.cc csrc/cpu/*.h csrc/fake_cann/*.h csrc/fake_cann/*.cc generated/*/*.cc docs/*/*/csrc/cpu/*.h docs/*/*/generated/*/*.cc tests/cpp/*/*.h tests/cpp/*/*/*.h tests/cpp/*/*.cc tests/sanitizers/*/*.h)

# In front of a command that needs MindSpore, which has no wheels for Python 3.13 and later.
WITH_MINDSPORE = $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))' \
	|| { echo "left out: there is no MindSpore for this Python"; exit 0; };

# In front of a test run on compiled kernels.
NATIVE := HYPER_PARALLEL_KERNELS=native

# In front of a test run on MindSpore's Ascend backend, without an NPU.
ON_FAKE_ASCEND = $(NATIVE) HYPER_PARALLEL_PLATFORM=mindspore $(BIN)/python -m tests.ascend.toolkit

# How the output of two test runs at once is kept apart: --output-sync=line shows each when it has ended.
SYNC ?=

.PHONY: help ops check diff verify kernels test test-numpy test-frameworks test-slow test-slow-numpy test-slow-frameworks test-native test-sanitizers test-ascend test-all exhaust lint format benchmark benchmark-cp clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "hpgen needs Python 3.10 or later: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/base.done: pyproject.toml setup.py constraints.txt | $(BIN)/python
	@echo "installing hpgen into $(VENV)/"
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/test.done: $(VENV)/base.done
	@echo "installing torch, MindSpore and the test tools into $(VENV)/ (a few minutes the first time)"
	$(PIP) install --quiet --constraint constraints.txt --editable '.[torch,mindspore,test,dev]'
	@touch $@

ops: $(VENV)/base.done ## set up and regenerate the operators: hpgen ops specs/
	$(BIN)/hpgen ops specs/

check: $(VENV)/base.done ## fail if generated/ is not what specs/ give
	$(BIN)/hpgen ops specs/ --check

diff: $(VENV)/base.done ## what regenerating would change
	$(BIN)/hpgen ops specs/ --diff

verify: $(VENV)/base.done ## run the layout rules on virtual ranks against the references: hpgen verify specs/
	$(BIN)/hpgen verify specs/

kernels: $(VENV)/test.done ## compile the kernels for torch, NumPy and MindSpore: hpgen build
	$(BIN)/hpgen build

test: $(VENV)/test.done ## set up and run the quick tests, on NumPy and beside it on torch and MindSpore
	$(MAKE) --no-print-directory --jobs=2 $(SYNC) test-numpy test-frameworks

test-numpy: $(VENV)/test.done
	HYPER_PARALLEL_PLATFORM=numpy $(PYTEST) -m 'not slow' tests

test-frameworks: $(VENV)/test.done
	HYPER_PARALLEL_PLATFORM=torch $(PYTEST) -m 'not slow' tests/torch
	$(WITH_MINDSPORE) HYPER_PARALLEL_PLATFORM=mindspore $(PYTEST) -m 'not slow' tests/mindspore

test-slow: test-slow-numpy test-slow-frameworks ## the slow tests alone

test-slow-numpy: $(VENV)/test.done
	HYPER_PARALLEL_PLATFORM=numpy $(PYTEST) -m slow tests

test-slow-frameworks: $(VENV)/test.done
	HYPER_PARALLEL_PLATFORM=torch $(PYTEST) -m slow tests/torch
	$(WITH_MINDSPORE) HYPER_PARALLEL_PLATFORM=mindspore $(PYTEST) -m slow tests/mindspore
	$(WITH_MINDSPORE) $(ON_FAKE_ASCEND) $(PYTEST) -m slow tests/ascend

test-native: kernels ## the operators on compiled kernels, on NumPy, torch and MindSpore
	$(NATIVE) HYPER_PARALLEL_PLATFORM=numpy $(PYTEST) tests/native_kernels
	$(NATIVE) HYPER_PARALLEL_PLATFORM=torch $(PYTEST) tests/torch/native_kernels
	$(WITH_MINDSPORE) $(NATIVE) HYPER_PARALLEL_PLATFORM=mindspore $(PYTEST) tests/mindspore/native_kernels tests/mindspore/st

test-sanitizers: $(VENV)/test.done ## the kernels for the CPU under AddressSanitizer and UndefinedBehaviorSanitizer
	$(NATIVE) HYPER_PARALLEL_PLATFORM=numpy $(PYTEST) tests/sanitizers

exhaust: $(VENV)/test.done ## operators on all small sequences that ranks can share: half an hour
	HYPER_PARALLEL_PLATFORM=numpy $(BIN)/python -m tests.operators.exhaust

test-ascend: $(VENV)/test.done ## the operators on MindSpore's own Ascend backend, over a fake CANN toolkit
	$(WITH_MINDSPORE) $(ON_FAKE_ASCEND) $(PYTEST) -m 'not slow' tests/ascend

test-all: test test-slow test-native test-sanitizers test-ascend ## quick and slow tests, and those on compiled kernels

lint: $(VENV)/test.done ## formatters, linters and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy codegen hyper_parallel generated specs/reference
	$(BIN)/clang-format --dry-run -Werror $(CPP)

format: $(VENV)/test.done ## let the formatters rewrite hand-written files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

benchmark: $(VENV)/test.done ## time the generator, and torchgen beside it
	$(BIN)/python benchmarks/codegen.py --profile --torchgen

benchmark-cp: $(VENV)/test.done ## balance and cost of context parallelism: half a minute
	$(BIN)/python benchmarks/context_parallel.py

clean: ## remove the environment and caches
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
