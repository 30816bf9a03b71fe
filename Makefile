# Every target works on a fresh machine with python3 (3.10 or newer, with venv): those that need packages install them first.
PYTHON ?= python3
VENV ?= .venv
SECONDS_OF_RUN ?= 90
RUN_FLAGS ?=
TEST_FLAGS ?=
TEST_PROCESSES ?= 2
FEW_CASES ?= 1
RUNS_AT_ONCE ?= 2
PYTHONS ?= python3.10 python3.11 python3.12 python3.13 python3.14

BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed.stamp
# Runs are many processes, each of which would compile the package anew where Python may write no bytecode.
COMPILE = $(BIN)/python -m compileall -q sample_profiler sf_examples harness benchmarks
# Those that take minutes; comparisons of whole runs take a quarter of an hour to several: each has a target, or is called
# by hand.
BENCHMARKS := $(addprefix benchmarks.,env_alone minibatch_cost checks.accounts_check vectors.device_vectors vectors.vector_cost) \
	$(subst /,.,$(basename $(sort $(wildcard benchmarks/profiler/*.py))))
VERSUS_FLAGS ?=
VERSUS_OUTPUT ?= build/compared
FAULT_ROUNDS ?= 3
FAULT_FLAGS ?=
KILL_FLAGS ?=
BREAKAGE_FLAGS ?=
FUZZ_RESULTS ?= benchmarks/results/fuzz.jsonl
SOAK_MINUTES ?= 60
SOAK_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help install run bytecode test test-all test-fast test-pythons fuzz kills breakages lint types check format docs site wheels bench bench-versus faults soak clean

help:  ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## Make .venv with everything that examples and tests need

# The stamp is touched last, so an installation that was interrupted is done again.
$(INSTALLED): pyproject.toml setup.py constraints.txt $(shell find sample_profiler -name '*.c')
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -c constraints.txt -e '.[atari,box2d,mujoco,video,profilers,memray,py-spy,web,export,docs,dev]'
	@$(BIN)/python -c "from sample_profiler.profiling import TWIN; from sample_profiler.model.kernels.built import KERNELS; \
		print(f'sample_profiler is installed; recorder: {TWIN}, kernels of networks: {KERNELS}')"
	@$(COMPILE)
	@touch $@

run: install  ## Train on ViZDoom for about two minutes, sized to this machine (RUN_FLAGS='--flag=value …' adds flags)
	$(BIN)/python -m sf_examples.vizdoom.train_vizdoom --env=doom_benchmark --experiment=make_run \
		--restart_behavior=overwrite --benchmark=True --train_for_seconds=$(SECONDS_OF_RUN) \
		--num_envs_per_worker=8 --batch_size=1024 --rollout=32 $(RUN_FLAGS)

bytecode: install  ## Compile the modules for processes that may write no bytecode
	@$(COMPILE)

# Whole runs wait more than they compute, so several share the machine; tests that share a run stay together. What looks
# at how much is done in a while has the machine for itself.
test: bytecode  ## Run all tests, of those that start whole runs FEW_CASES (1) cases each (TEST_FLAGS='-k name' chooses some)
ifeq ($(strip $(TEST_FLAGS)),)
	$(BIN)/python -m pytest -m "not whole_run" -n $(TEST_PROCESSES); status=$$?; \
	$(BIN)/python -m pytest -m "whole_run and not alone" -n $(RUNS_AT_ONCE) --dist=loadscope --few_cases=$(FEW_CASES) \
		--durations=20 --durations-min=10 || status=1; \
	$(BIN)/python -m pytest -m alone --few_cases=$(FEW_CASES) && exit $$status
else
	$(BIN)/python -m pytest $(TEST_FLAGS)
endif

test-all: bytecode  ## Run all tests with all of their cases: most of an hour
	$(MAKE) test FEW_CASES=0

test-fast: bytecode  ## Run the tests that need no whole run, in TEST_PROCESSES (2) at a time
	$(BIN)/python -m pytest -m "not whole_run" -n $(TEST_PROCESSES) $(TEST_FLAGS)

test-pythons:  ## Run the fast tests with each of PYTHONS that is here, in environments of their own (build/python3.10, …)
	@for python in $(PYTHONS); do \
		if "$$python" -c "" 2> /dev/null; then \
			echo "== $$python"; \
			$(MAKE) test-fast PYTHON="$$python" VENV="build/$${python##*/}" || failed="$$failed $$python"; \
		else echo "== $$python is not here: left out"; fi; \
	done; if [ -n "$$failed" ]; then echo "== failed with$$failed"; exit 1; fi

fuzz: install  ## Try 500 mutated inputs of each kind; again: those that are missing in FUZZ_RESULTS
	FAULTS_EXAMPLES=500 FUZZ_RESULTS=$(FUZZ_RESULTS) $(BIN)/python -m pytest tests/faults --timeout=1200 $(TEST_FLAGS)

kills: install  ## Kill processes 200 times each while they save and while they train, and go on with what is left
	$(BIN)/python -m benchmarks.kill_checkpoints $(KILL_FLAGS)

breakages: install  ## Make mistakes in a copy of the package, one at a time, which tests have to notice (BREAKAGE_FLAGS='--only gae')
	$(BIN)/python -m benchmarks.breakages $(BREAKAGE_FLAGS)

lint: install  ## Check style and types without running anything
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict

types: install  ## Check with pyright, too, that all that is public has types
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[types]'
	$(BIN)/python scripts/check_types.py

check: lint  ## Everything that has to pass before a commit: style, types and all tests
	$(MAKE) test

format: install  ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install  ## Write the generated pages of the documentation
	$(BIN)/python scripts/make_configuration_docs.py
	$(BIN)/python scripts/make_api_docs.py

site: install  ## Make the documentation a site with a search: build/site/index.html opens without a server or a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheels: install  ## Build a source distribution, and of it a wheel for each of PYTHONS that is here, into dist
	$(BIN)/python -m build --no-isolation --sdist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/build_wheels.py $(PYTHONS)

bench: install  ## Measure parts: every shorter script in benchmarks, one after another, and turbo mode
	@for benchmark in $(BENCHMARKS); do echo "== $$benchmark"; $(BIN)/python -m "$$benchmark" || exit 1; done
	$(BIN)/python scripts/profile_turbo_mode.py

bench-versus: install  ## Compare with Sample Factory and Stable-Baselines3, alone for hours (VERSUS_FLAGS='--tasks doom --resume')
	for task in doom cartpole halfcheetah; do $(BIN)/python -m benchmarks.limit --task "$$task" --output $(VERSUS_OUTPUT) || exit 1; done
	$(BIN)/python -m benchmarks.versus --output $(VERSUS_OUTPUT) $(VERSUS_FLAGS)

faults: install  ## Break runs in every way and place, FAULT_ROUNDS times each (3; hours: FAULT_FLAGS='--seconds 3000')
	$(BIN)/python -m benchmarks.fault_matrix --rounds $(FAULT_ROUNDS) $(FAULT_FLAGS)

soak: install  ## Train for SOAK_MINUTES (60) on CartPole and on doom_basic, and see whether memory or speed change
	$(BIN)/python -m benchmarks.soak --minutes $(SOAK_MINUTES) $(SOAK_FLAGS)

clean:  ## Remove .venv, builds and caches; runs in train_dir stay
	rm -rf $(VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
