# Every target sets up what it needs: Python 3.11 or newer with pip, and make, are enough.
# Another Python: make test PYTHON=python3.13
# Another suite of benchmarks: make bench SUITE="linear --only a9a"
# A longer hunt on large problems: make campaign MINUTES=60 CAMPAIGN=--long

PYTHON ?= python3
SUITE ?= speed
MINUTES ?= 10
CAMPAIGN ?=
INPUTS ?= 10000
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ROUNDING := tests/test_same_bits.py tests/test_threads.py tests/solvers/parts/test_cholesky.py tests/solvers/test_grid.py
BENCH_READY := $(VENV)/.bench-ready
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test campaign fuzz soak lint format bench clean

help:
	@echo "make demo     set up and take the tour; it leaves demo-report.html"
	@echo "make test     set up, check style and types, run the tests"
	@echo "make campaign hunt for exceptions: random problems, checked by hand, for MINUTES=10"
	@echo "make fuzz     damaged files for every reader, INPUTS=10000 each"
	@echo "make soak     mixed fits in threads and processes for MINUTES=10; memory, threads and errors at the end"
	@echo "make lint     check style and types"
	@echo "make format   put the code into the project's style"
	@echo "make bench    set up and run the benchmarks"
	@echo "make clean    remove the environment and what the tools left behind"

setup: $(READY)

demo: $(READY)
	@$(BIN)/python -m maxmargin demo

# One BLAS thread for each of the two workers, or they take each other's core.
# What rounding could change is run once more with the BLAS kernels of another processor (none where BLAS has no others):
# of the grid the problems with duplicates, in which ties make rounding count most.
test: lint
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal
	@core=$$($(BIN)/python tests/other_core.py); test -z "$$core" || ( \
		echo "Once more, with BLAS as for $$core:"; \
		OPENBLAS_CORETYPE=$$core OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(ROUNDING) -k "not (test_grid and (plain or weighted))" )

# Failures are told with their seeds; `cd tests && ../.venv/bin/python -m campaign --seed N` shows one of them.
campaign: $(READY)
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m campaign --minutes $(MINUTES) --log ../build/campaign.jsonl $(CAMPAIGN)
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m campaign.potential --seed 0 --count 500
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m campaign.expansions --seed 0 --count 500

# What fails is kept in tests/fuzz-failures.
fuzz: $(READY)
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz --inputs $(INPUTS)
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz.guided

soak: $(READY)
	@cd tests && ../$(BIN)/python soak.py --minutes $(MINUTES)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(BENCH_READY)
	@$(BIN)/python benchmarks/run.py $(SUITE)

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again when pyproject.toml changes. Some systems ship Python without ensurepip: pip then installs itself.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("maxmargin needs Python 3.11 or newer: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV); this is done once and takes a minute or two."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --without-pip $(VENV)
	@$(PIP) --version >/dev/null 2>&1 || $(PYTHON) -m pip -qq --python $(BIN)/python install pip
	@$(PIP) install --editable ".[dev]"
	@touch $@

$(BENCH_READY): $(READY)
	@$(PIP) install --editable ".[bench]"
	@touch $@
