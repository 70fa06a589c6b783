# Everything a reader needs; `make help` lists it.  Set-up is part of each target: nothing but Python 3.11+ is assumed.
SHELL := bash
PYTHON ?= python3
PROFILE ?= laptop
DATA ?= auto
EDITION ?=
JOBS ?= 2

BIN := .venv/bin
STAMP := .venv/.recon-installed
# One thread a worker: results do not depend on the core count, and two workers do not fight over two cores.
BUILT := build/published/exit-code
# Tests compute as every x86-64 processor with AVX2 can, so that rounding is the same on all (tests/arithmetic.py).
SAME := OMP_NUM_THREADS=1 MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 \
    OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES=X86_V4,AVX512_ICL,AVX512_SPR
PYTEST := $(SAME) $(BIN)/python -m pytest -n $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help env book test checks mutants render pdf publish references clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(STAMP) ## set up .venv from requirements.lock (once; 6.4 GiB on Linux)

$(STAMP): requirements.lock pyproject.toml
	@if [ ! -x $(BIN)/pip ]; then \
	    $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	        || { echo "recon needs Python 3.11 or newer: name one with make PYTHON=python3.11" >&2; exit 2; }; \
	    $(PYTHON) -m venv .venv; \
	fi
	@set -o pipefail; $(BIN)/pip install --disable-pip-version-check --progress-bar off -r requirements.lock \
	    | awk -v total="$$(wc -l < requirements.lock)" \
	        '/^Collecting/ && n++ % 20 == 0 {printf "environment: package %d of at most %d\n", n, total; fflush()} \
	         /^Installing collected/ {print "environment: unpacking"; fflush()}'
	@$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@

book: env ## execute all chapters and build their HTML (PROFILE=smoke|laptop|paper, DATA=auto|cifar10|photos)
	@$(BIN)/recon book --profile $(PROFILE) --data $(DATA)

test: env ## lint, types, strict build of the published edition, unit and browser tests, smoke references through nbval
	@RECON_SMOKE_OUT=$$(mktemp -d) && export RECON_SMOKE_OUT && trap 'rm -rf "$$RECON_SMOKE_OUT"' EXIT \
	    && $(MAKE) --no-print-directory checks

# What the unit tests compute at smoke is stored in $RECON_SMOKE_OUT, where nbval's notebooks find it.  The book is built
# beside them, on what a core has to spare; tests that look at its pages wait for $RECON_SITE_BUILT, its exit code.
checks:
	@echo "== lint"; $(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet \
	    || { echo "ruff is not content: see $(BIN)/ruff check and $(BIN)/ruff format --diff" >&2; exit 1; }
	@echo "== types"; $(BIN)/mypy
	@echo "== strict build of the published edition, and unit tests"; mkdir -p build/published && rm -f $(BUILT); \
	    { $(BIN)/recon render; echo $$? > $(BUILT); } & \
	    RECON_SITE="$(CURDIR)/build/published/html" RECON_SITE_BUILT="$(CURDIR)/$(BUILT)" \
	    $(PYTEST) --dist worksteal --doctest-modules tests recon book/_ext; tested=$$?; wait; \
	    [ "$$(cat $(BUILT))" = 0 ] && exit $$tested
	@echo "== smoke references"; $(PYTEST) --dist loadscope --nbval --nbval-current-env tests/reference

mutants: env ## how many of 200 one-line faults in the science its unit tests notice (some minutes)
	@$(BIN)/pip install --disable-pip-version-check --quiet "cosmic-ray==8.7.0"
	@$(SAME) $(BIN)/python tests/mutants.py --jobs $(JOBS)

render: env ## HTML of the published edition in book/executed, without executing
	@$(BIN)/recon render

pdf: env ## one PDF of the published edition, printed by a Chromium on the PATH, into build/published/
	@$(BIN)/recon pdf

publish: env ## promote an edition on CIFAR-10 into book/executed (EDITION=laptop-cifar10; default the newest)
	@$(BIN)/recon publish $(EDITION)

references: env ## recompute what nbval compares with in tests/reference
	@$(SAME) $(BIN)/recon references

clean: ## remove build/ and caches; .venv and the published edition stay
	@rm -rf build .pytest_cache .ruff_cache .mypy_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
