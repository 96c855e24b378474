# `make demo` and `make test` are the two commands; each builds .venv when it is absent or out of date.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$p && break; done)
WORKERS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
VENV := .venv/bin
CHROMIUM_NAMES := chromium chromium-browser google-chrome google-chrome-stable
# One thread a test worker: two torch processes with two threads each are slower than one.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(VENV)/python -m pytest

.PHONY: demo test test-slow check bench clean distclean chromium

demo: .venv/installed  ## train three small models with the dashboard open; ARGS="--no-app" only prints the table
	@$(VENV)/workbench demo $(ARGS)

test: .venv/installed chromium  ## unit, property, command-line and browser tests
	$(PYTEST) -n $(WORKERS) --dist loadscope -m "not slow" $(ARGS)

test-slow: .venv/installed chromium  ## recipes that reach their marks, notebooks
	$(PYTEST) -n $(WORKERS) --dist loadscope -m slow --timeout 3000 $(ARGS)

check: .venv/installed  ## format, lint, types, import contracts
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports --no-cache

bench: .venv/installed  ## speed, as ratios measured in one run
	@$(VENV)/workbench bench $(ARGS)

clean:  ## caches and build output; runs stay
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . \( -name .venv -o -name .git -o -name runs \) -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) \
		-exec rm -rf {} +

distclean: clean  ## also .venv
	rm -rf .venv

.venv/installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer with venv found; install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(VENV)/python -c '' 2>/dev/null || { echo "Creating .venv with $(PYTHON)"; $(PYTHON) -m venv --clear .venv; }
	@echo "Installing into .venv (a few minutes the first time)"
	@$(VENV)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

chromium:
	@for name in $(CHROMIUM_NAMES); do command -v $$name >/dev/null && exit 0; done; test -n "$$CHROMIUM" || { \
		echo "error: the browser tests need Chromium; install it with: $$(test "$$(uname)" = Darwin && echo 'brew install --cask chromium (and set CHROMIUM to its path)' || echo 'sudo apt-get install -y chromium')" >&2; exit 1; }
