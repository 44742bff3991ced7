# Every verb works from a fresh checkout: those that need packages make .venv from requirements.lock first, and say so.
# `make` alone lists the verbs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The newest Python from 3.11 on, looked for once and only where it is needed; name another with `make PYTHON=...`.
PYTHON ?= $(eval PYTHON := $$(shell for each in python3.13 python3.12 python3.11 python3.14 python3 python; do \
	"$$$$each" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && { echo "$$$$each"; break; }; done))$(PYTHON)

VENV := .venv
BIN := $(VENV)/bin
SITE_VENV := .venv-site
STAMP := $(VENV)/.trainfare-installed
TEST_ARGS ?=
BENCH_ARGS ?=
PYTEST = $(BIN)/python -m pytest
# Processes that share the tests; a third of their time they wait, for brokers and clocks, so two cores bear four.
TEST_WORKERS ?= 4
# Each begins with a run of whole files, so that what the tests of a file share is made once, and takes over from the others.
SHARED := -n $(TEST_WORKERS) --dist worksteal
# Once for all processes, which each would compile kernels that have changed: 20 s of a core, and a second where none has.
COMPILED = $(BIN)/python -m streams.cli.kernels
# Once for all processes, too: pytest compiles each test file with its asserts rewritten, in a new checkout two minutes of a core.
COLLECTED = $(BIN)/python -m pytest --collect-only -q -m ""
# Examples of each property: few enough here for a suite that is run often; `make test-long` tries many more.
export TRAINFARE_EXAMPLES ?= 5
LONG_EXAMPLES ?= 500
# Seeds of the simulator, about half a second of a core each; python -m tests.simulator --seeds A:B runs any.
export TRAINFARE_SEEDS ?= 12
LONG_SEEDS ?= 2000
# What Python compiles is kept, also where the shell says otherwise: each process would compile 700 files anew.
export PYTHONDONTWRITEBYTECODE :=
DEMO_ARGS ?=
PEERS_ARGS ?=
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate
COMPOSE = docker compose --env-file deploy/images.env
UP_ARGS ?=
HELM ?= helm
MANIFESTS ?= deploy/kubernetes/trainfare.yaml
EXAMPLE_DATA ?= ./meter
EXAMPLE_ARGS ?=
EXAMPLE_FILES ?= examples/helios-500.jsonl.gz

.PHONY: help demo example test test-long coverage coverage-erased check bench bench-check peers lock site dist pin secrets image up down manifests docs clean

help:  ## List the verbs.
	@echo "make VERB [NAME=VALUE...]    PYTHON=/path/to/python3 names the Python to make .venv with (3.11 to 3.14)"
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "make: no Python from 3.11 to 3.14 found; install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; fi
	@if [ ! -x $(BIN)/python ]; then echo "== making $(VENV) with $(PYTHON) ($$($(PYTHON) --version))"; \
		$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "make: $(PYTHON) cannot make a virtual environment (Debian: apt-get install python3-venv)" >&2; exit 1; }; fi
	@echo "== installing the packages of requirements.lock, each checked by its hash (1.4 GB on disk, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@echo "== installing trainfare itself from this checkout"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . 2>&1 \
		| { grep -iE 'error|cannot' || true; }
	@echo "== compiling the kernels (half a minute to a minute of one core, once)"
	@$(COMPILED)
	@touch $(STAMP)

demo: $(STAMP)  ## Watch a simulated fleet cost money, and a runaway job page its owner (DEMO_ARGS: options of trainfare demo).
	@$(BIN)/trainfare demo $(DEMO_ARGS)

example: $(STAMP)  ## Meter a real trace of 500 jobs and show what they cost (EXAMPLE_FILES, EXAMPLE_DATA: other ones; EXAMPLE_ARGS: more options of replay).
	@echo "== trainfare replay $(EXAMPLE_FILES) --data $(EXAMPLE_DATA) $(EXAMPLE_ARGS)"
	@$(BIN)/trainfare replay $(EXAMPLE_FILES) --data $(EXAMPLE_DATA) --format table $(EXAMPLE_ARGS)
	@echo; echo "== the ten dearest jobs: trainfare jobs --data $(EXAMPLE_DATA) --limit 10"
	@$(BIN)/trainfare jobs --data $(EXAMPLE_DATA) --limit 10
	@echo; echo "== cost by team: trainfare sql --data $(EXAMPLE_DATA) ..."
	@$(BIN)/trainfare sql --data $(EXAMPLE_DATA) "SELECT team, count() AS jobs, round(sum(gpu_s) / 3600, 1) AS gpu_h, \
		sum(cost_usd) AS usd, sum(lost_cost_usd) AS lost_usd FROM job_costs GROUP BY team ORDER BY usd DESC LIMIT 10"
	@echo; echo "Next: $(BIN)/trainfare explain JOB --data $(EXAMPLE_DATA)   every interval of one job's cost"

# The suite without the JIT comes first, so that the last line of all is the summary of the whole suite.
test: $(STAMP)  ## Run the tests: kernels without the JIT, then everything (TEST_ARGS: options of pytest; TEST_WORKERS; TRAINFARE_EXAMPLES; TRAINFARE_SEEDS).
	@echo "== compiling kernels and tests"
	@$(COLLECTED) tests/[a-d]* >/dev/null & collecting=$$!; \
		$(COMPILED); $(COLLECTED) tests/[e-z]* >/dev/null; wait $$collecting
	@echo "== the kernels as plain Python (NUMBA_DISABLE_JIT=1)"
	@NUMBA_DISABLE_JIT=1 $(PYTEST) $(SHARED) tests/engine/kernels tests/engine/coverage
	@echo "== all tests"
	@$(PYTEST) $(SHARED) --durations=25 $(TEST_ARGS)

test-long: $(STAMP)  ## Run what takes minutes: the properties with many examples, whole traces (LONG_EXAMPLES, LONG_SEEDS, TEST_ARGS).
	@echo "== the properties, $(LONG_EXAMPLES) examples each, and of parts of the engine 100"
	@TRAINFARE_EXAMPLES=$(LONG_EXAMPLES) $(PYTEST) $(SHARED) tests/property tests/engine --timeout 3600 $(TEST_ARGS)
	@echo "== the simulator, $(LONG_SEEDS) seeds"
	@TRAINFARE_SEEDS=$(LONG_SEEDS) $(PYTEST) $(SHARED) tests/simulator --timeout 3600 $(TEST_ARGS)
	@echo "== the tests marked long, and those of tests/long_tests.txt"
	@$(PYTEST) -n 2 --dist worksteal -m long --timeout 3600 $(TEST_ARGS)

coverage: PYTEST = $(BIN)/coverage run -m pytest
coverage: coverage-erased test  ## Run the tests as `make test` does, slower, and show which lines they leave out (TEST_ARGS).
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

coverage-erased:
	@rm -rf build/coverage

check: $(STAMP)  ## Lint, format, types and import contracts.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(STAMP)  ## Measure every scenario against a real Kafka, one table (BENCH_ARGS: names of scenarios, --list, options).
	@$(BIN)/python -m loadtest.bench $(BENCH_ARGS)

bench-check: $(STAMP)  ## Fail if the meter has become slower than the committed ratios say (half a minute to two minutes; BENCH_ARGS).
	@$(BIN)/python -m loadtest.bench check --compare --out loadtest/results/check.json $(BENCH_ARGS)

peers: $(STAMP)  ## Run the same windowed sums on other engines and on ours; fetches them first (PEERS_ARGS: --quick, names).
	@$(BIN)/python -m loadtest.peers --out loadtest/results/peers.json $(PEERS_ARGS)

# The two small ones are parts of the first, for the image: what runs, and what builds the package itself. That of the
# documentation site stands apart: nothing of it is imported by the project or its tests.
lock: $(STAMP)  ## Resolve requirements.lock, -runtime.lock, -build.lock and -docs.lock anew.
	@$(COMPILE) --extra embedded --extra jit --extra pdf --extra oidc --extra sealed --extra test --extra dev pyproject.toml --output-file requirements.lock
	@$(COMPILE) --constraint requirements.lock --extra embedded --extra oidc --extra sealed pyproject.toml --output-file requirements-runtime.lock
	@printf '%s\n' setuptools numba llvmlite numpy | $(COMPILE) --constraint requirements.lock - --output-file requirements-build.lock >/dev/null
	@echo 'mkdocs-material>=9.8,<10' | $(COMPILE) --constraint requirements.lock - --output-file requirements-docs.lock >/dev/null

$(SITE_VENV)/.installed: requirements-docs.lock
	@if [ -z "$(PYTHON)" ]; then echo "make: no Python from 3.11 to 3.14 found; name one: make site PYTHON=..." >&2; exit 1; fi
	@echo "== installing the packages of requirements-docs.lock into $(SITE_VENV), each checked by its hash"
	@$(PYTHON) -m venv --clear $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

site: $(SITE_VENV)/.installed  ## Build the documentation site into build/site; it opens without a server, search included.
	@NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/python -m mkdocs build --strict --quiet
	@echo "== open build/site/index.html"

# By the locked packages and nothing else; each wheel is built from its sdist, so the sdist has all that it needs.
dist:  ## Build the sdists and wheels of a release, of trainfare and of the SDK, into dist/ (needs a C compiler).
	@rm -rf dist build
	@$(PYTHON) -m venv build/env
	@build/env/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@build/env/bin/python -m deploy.build_dist dist

# What follows needs Docker and no environment of ours: Python's own library is enough.
pin:  ## Ask a registry for the digests of deploy/images.toml and write deploy/images.env; commit that file.
	@$(PYTHON) -m deploy.pin_images

deploy/images.env:
	@echo "== deploy/images.env is not there: asking the registry for the digests"
	@$(PYTHON) -m deploy.pin_images

secrets:  ## Make the passwords and tokens of the compose file that are missing, in deploy/secrets.
	@$(PYTHON) -m deploy.make_secrets

image: deploy/images.env  ## Build the image trainfare:local, its base by digest.
	@$(PYTHON) -m deploy.pin_images --check
	@$(COMPOSE) build

up: deploy/images.env secrets  ## Start Kafka, ClickHouse, workers, Grafana and Prometheus (UP_ARGS: options of docker compose up).
	@$(PYTHON) -m deploy.pin_images --check
	@$(COMPOSE) up --detach $(UP_ARGS)
	@echo "== page http://127.0.0.1:8787 (token: deploy/secrets/web_token), Grafana http://127.0.0.1:3000"

down:  ## Stop what `make up` started; the volumes stay.
	@$(COMPOSE) down

manifests:  ## Render deploy/kubernetes/trainfare.yaml from the Helm chart (HELM: the program; MANIFESTS: another file).
	@text=$$($(HELM) template trainfare deploy/helm/trainfare --namespace trainfare \
		--kube-version 1.34.0 --values deploy/helm/examples/gpu-cluster.yaml); \
		printf '%s\n' '# Rendered from deploy/helm/trainfare with deploy/helm/examples/gpu-cluster.yaml: make manifests. docs/kubernetes.md says how it is used.' \
		"$$text" > $(MANIFESTS)

docs: $(STAMP)  ## Write the generated pages, the chart's values and the JSON Schemas of messages.
	@$(BIN)/python -m streams.config.page > docs/settings.md
	@$(BIN)/python -m streams.config.page access > docs/settings_access.md
	@$(BIN)/python -m streams.web.matrix_page > docs/access_matrix.md
	@for page in events usage_events reference_events; do $(BIN)/python -m schemas.events_docs $$page.md > docs/$$page.md; done
	@$(BIN)/python -m sinks.clickhouse.tables_page docs/tables.md docs/views.md docs/bill_tables.md
	@COLUMNS=80 $(BIN)/python -m streams.cli.main --help > streams/cli/help.txt
	@$(BIN)/python -m streams.rules.page docs/rules.md docs/ledger_rules.md docs/runbook.md
	@$(BIN)/python -m streams.rules.pairs > docs/rule_pairs.md
	@$(BIN)/python -m deploy.helm.write
	@for type in $$($(BIN)/python -c 'from schemas.messages.json_schema import MESSAGES; print(*MESSAGES)'); do \
		$(BIN)/python -m schemas.messages.json_schema $$type > schemas/messages/$$type.json; done

clean:  ## Remove the environment and caches; data directories stay.
	rm -rf $(VENV) .venv-peers $(SITE_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
