# Everything a reader needs; `make help` lists it.  Set-up is part of each target: nothing but Python 3.11 to 3.14 is assumed.
SHELL := bash
PYTHON ?= python3
PROFILE ?= laptop
DATA ?= auto
EDITION ?= laptop-cifar10
JOBS ?= 2

# `make test`: build and types on one processor, the other stages beside them, whatever fails, and a table at the end;
# output is in build/test/STAGE.log
STAGES := build types lint format unit replays references-compared
LOGS := build/test
SITE := build/published
PYTEST = $(BIN)/python -m pytest -n $(JOBS) -rfE --tb=short

BIN := .venv/bin
STAMP := .venv/.recon-installed
.DEFAULT_GOAL := help
.PHONY: help env book test test-all $(STAGES) mutants render bundle publish references clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(STAMP) ## set up .venv from requirements.lock (once; 6.4 GiB on Linux)

$(STAMP): requirements.lock pyproject.toml companion/pyproject.toml recon-audit/pyproject.toml
	@if [ ! -x $(BIN)/pip ]; then \
	    $(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
	        || { echo "recon needs Python 3.11 to 3.14: name one with make PYTHON=python3.11" >&2; exit 2; }; \
	    $(PYTHON) -c 'import platform as p, sys; sys.exit((p.system(), p.machine()) == ("Darwin", "x86_64"))' \
	        || { echo "PyTorch ended with 2.2.2 on Macs with Intel processors, and recon needs 2.11" >&2; exit 2; }; \
	    $(PYTHON) -m venv .venv; \
	fi
	@set -o pipefail; $(BIN)/pip install --disable-pip-version-check --progress-bar off -r requirements.lock \
	    | awk -v total="$$(wc -l < requirements.lock)" \
	        '/^Collecting/ && n++ % 20 == 0 {printf "environment: package %d of at most %d\n", n, total; fflush()} \
	         /^Installing collected/ {print "environment: unpacking"; fflush()}'
	@$(BIN)/pip uninstall --yes --quiet recon recon-audit recon-companion 2>/dev/null # names until 0.1, and another's package
	@$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e . -e companion -e recon-audit
	@touch $@

book: env ## execute all chapters and build the HTML (PROFILE=smoke|laptop|paper, DATA=auto|cifar10|photos)
	@$(BIN)/recon book --profile $(PROFILE) --data $(DATA)

test: env ## lint, types, strict build of the published edition, unit tests, smoke references through nbval
	@mkdir -p $(SITE); rm -f $(SITE)/exit-code $(LOGS)/*.line; failed=0; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	export RECON_SMOKE_OUT="$$folder" RECON_SITE="$(CURDIR)/$(SITE)/html" RECON_SITE_BUILT="$(CURDIR)/$(SITE)/exit-code"; \
	export OMP_NUM_THREADS="$${OMP_NUM_THREADS:-1}"; \
	$(MAKE) --no-print-directory --keep-going build types & beside=$$!; \
	$(MAKE) --no-print-directory --keep-going $(filter-out build types,$(STAGES)) || failed=1; \
	wait $$beside || failed=1; \
	cat $(STAGES:%=$(LOGS)/%.line); exit $$failed

run-lint = $(BIN)/ruff check --quiet
run-format = $(BIN)/ruff format --check --quiet
run-types = $(BIN)/mypy
run-build = $(BIN)/recon render; code=$$?; echo $$code > $(SITE)/exit-code; exit $$code
run-unit = $(PYTEST) --dist worksteal $(if $(SLOW),,-m "not slow") --doctest-modules tests recon-audit recon companion book/_ext
run-replays = $(BIN)/recon replay --weekly --seconds 8
# a busy machine takes more than the minute that is the default for a kernel
run-references-compared = $(PYTEST) --dist loadscope --nbval --nbval-current-env --nbval-kernel-startup-timeout 300 \
    tests/reference/$(if $(SLOW),,[0-9])*.ipynb

$(STAGES):
	@mkdir -p $(LOGS) $(SITE); SECONDS=0; ($(run-$@)) 2>&1 | tee $(LOGS)/$@.log \
	    | awk 'match($$0, /\[ *[0-9]+%\]$$/) {print "   $@ " substr($$0, RSTART); fflush()}'; \
	code=$${PIPESTATUS[0]}; how=passed; [ $$code = 0 ] || how=FAILED; \
	printf '%-20s %s %6d s  %s\n' $@ $$how $$SECONDS "$$(grep -E '^[0-9]+ (passed|failed)' $(LOGS)/$@.log | tail -n 1)" | tee $(LOGS)/$@.line; \
	[ $$code = 0 ] && exit 0; grep -E '^(FAILED|ERROR)' $(LOGS)/$@.log || tail -n 12 $(LOGS)/$@.log; echo "all of it: $(LOGS)/$@.log"; exit 1

test-all: env ## the same with the tests marked slow: browsers, hostile input, interruptions
	@$(MAKE) --no-print-directory test SLOW=1

mutants: env ## how many of 200 one-line faults in the science its unit tests notice (some minutes)
	@$(BIN)/pip install --disable-pip-version-check --quiet "cosmic-ray==8.7.0"
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutants.py --jobs $(JOBS)

render: env ## HTML of the published edition in book/executed, without executing
	@$(BIN)/recon render

bundle: render ## the same as one archive, build/training-data-recon-book.zip, which opens from a disk
	@cd build/published && ../../$(BIN)/python -m zipfile -c ../training-data-recon-book.zip html

publish: env ## promote an edition on CIFAR-10 into book/executed (EDITION=laptop-cifar10)
	@$(BIN)/recon publish $(EDITION)

references: env ## execute the chapters at smoke, and write what nbval compares with
	@$(BIN)/python tests/references.py

clean: ## remove build/ and caches; .venv and the published edition stay
	@rm -rf build .pytest_cache .ruff_cache .mypy_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
