# Every target works alone and first: what it needs, it installs into .venv.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo demo-generate test test-not-slow test-all test-again test-fast test-quick test-omni lint style types vllm chromium console pictures synth bench docs locks constraints clean

BIN := .venv/bin
INSTALLED := .venv/installed
VLLM := .venv/vllm
OMNI := .venv/omni/installed

# A failure is shown when it happens. `.ci/run` sets TIME_LIMIT to the command that interrupts the tests.
PYTEST := $(TIME_LIMIT) $(BIN)/pytest --instafail --quiet --durations 40
# Processes of tests; `test-all` has fewer, because the slow tests start more programs at once
PROCESSES := 4
SIDE_BY_SIDE = -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

# Tests that start a local cloud or browser (tests/test_ci.py keeps these complete), run engines or workers, train a model,
# or synthesize apps: together they take most of the time of `make test`. After them, those that start many other programs,
# draw pictures, or wait for clocks.
NOT_FAST := tests/demo tests/e2e tests/engines tests/infra tests/local tests/training tests/worker
NOT_FAST += $(patsubst %,tests/benchmarks/%,console reasoner test_runs.py)
NOT_FAST += $(patsubst %,tests/console/test_%.py,browser generator_runs local_cloud pictures reasoner_runs)
NOT_FAST += $(patsubst %,tests/cli/console/test_%_in_browser.py,prefix runs)
NOT_FAST += tests/cli/stopped_clouds/test_console_in_browser.py
NOT_FAST += tests/test_ci.py tests/test_troubleshooting_page.py tests/viewing
NOT_FAST += $(patsubst %,tests/store/test_%.py,parallel_restore store_processes) tests/media/test_frame_sampling.py
NOT_FAST += $(patsubst %,tests/cli/test_%.py,completion web_download) tests/lambdas/runs/test_table_limits.py
NOT_FAST += tests/lambdas/reporting/test_closed_queues.py tests/lambdas/vams/test_answers.py

# Values from the command line reach the program through its environment: no shell ever reads them.
# `value`, because make would expand a dollar sign in them.
override FILE := $(value FILE)
override PROMPT := $(value PROMPT)
export FILE PROMPT PYTHON

# Hundreds of processes import the same modules: what Python makes of them is kept.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15

demo: $(INSTALLED) ## Run one clip through the whole system on this machine: make demo [FILE=my.mp4] [PROMPT="..."]
	@$(BIN)/cosmos-batch demo

demo-generate: $(INSTALLED) ## Make a video on this machine: make demo-generate [PROMPT="..."] [FILE=my.png]
	@$(BIN)/cosmos-batch demo-generate

# mypy takes a minute on one core after a clone: the tests run beside it.
test: style $(VLLM) chromium ## Lint, and run all tests but the slow ones
	@$(MAKE) --no-print-directory --jobs 2 types test-not-slow

test-not-slow: ## Run all tests but the slow ones
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not slow"

test-all: PROCESSES := 3
test-all: lint $(VLLM) chromium ## Lint, then run every test, as CI does
	@$(PYTEST) $(SIDE_BY_SIDE)

test-again: $(INSTALLED) ## Run the tests that failed the last time, one after the other
	@$(PYTEST) -rap --last-failed --last-failed-no-failures none

test-fast: style ## Lint, and run the tests without clouds, browsers, engines, workers and synthesis
	@$(MAKE) --no-print-directory --jobs 2 types test-quick

test-quick: ## Run the tests without clouds, browsers, engines, workers and synthesis
	@$(PYTEST) $(SIDE_BY_SIDE) $(NOT_FAST:%=--ignore %) -m "not slow"

test-omni: $(OMNI) ## Run the real vLLM-Omni server on the CPU, in an environment of its own
	@$(TIME_LIMIT) .venv/omni/bin/python -m pytest -n 2 --dist worksteal tests/omni

lint: style types ## Check style, format and types

style: $(INSTALLED) ## Check style and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(INSTALLED) ## Check types
	@$(BIN)/mypy

vllm: $(INSTALLED) ## Add vLLM to .venv, for this machine's NVIDIA GPU
	@$(BIN)/python scripts/install_vllm.py gpu

chromium: ## Install Debian's Chromium, in which the console is tested
	@scripts/install_chromium.sh

console: $(INSTALLED) ## Build the page of the console with npm
	@$(BIN)/python scripts/build_console.py

pictures: $(INSTALLED) chromium ## Write the pictures of the console in docs/pictures
	@$(BIN)/python scripts/console_pictures.py

synth: $(INSTALLED) ## Write cdk.out from config.json
	@$(BIN)/python app.py

bench: $(INSTALLED) $(VLLM) ## Measure, and write the table of docs/benchmarks.md
	@$(BIN)/python -m benchmarks

docs: $(INSTALLED) ## Write the pages and tables in docs that follow from the code
	@$(BIN)/python scripts/configuration_reference.py
	@$(BIN)/python scripts/metadata_reference.py
	@$(BIN)/python scripts/reasoner_reference.py
	@$(BIN)/python scripts/generator_reference.py
	@$(BIN)/python scripts/generator_engines_reference.py
	@$(BIN)/python scripts/costs_reference.py
	@$(BIN)/python scripts/models_reference.py

locks: $(INSTALLED) ## Write the locks of the container images from their requirements*.in
	@for file in containers/*/requirements*.in; do $(BIN)/python -m containers.locks "$$file"; done

constraints: $(INSTALLED) $(VLLM) ## Write constraints.txt from .venv
	@{ sed -n 1p constraints.txt; $(BIN)/pip freeze --all --exclude-editable | sed -e '/^pip==/d' -e '/ @ /d' -e 's/+[a-z0-9]*$$//'; } > constraints.new
	@mv constraints.new constraints.txt

clean: ## Remove what the other targets made, .venv included
	@rm -rf .venv cdk.out build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(INSTALLED): pyproject.toml constraints.txt scripts/setup.sh scripts/install.py
	@scripts/setup.sh

# Where vLLM cannot be installed there is no such file, and what needs one goes on without it.
$(VLLM): $(INSTALLED) scripts/install_vllm.py $(wildcard scripts/vllm_cpu/*)
	@$(BIN)/python scripts/install_vllm.py

# Unlike vLLM, without it there is nothing for `make test-omni` to run.
$(OMNI): $(INSTALLED) scripts/install_omni.py scripts/vllm_cpu/torchvision_operators.py $(wildcard scripts/vllm_omni_cpu/*) $(wildcard scripts/vllm_omni_cpu/*/*)
	@$(BIN)/python scripts/install_omni.py
