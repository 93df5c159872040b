# People and CI run the same targets. Each one that needs Python makes .venv first, from the
# locks and from nothing that happens to be installed.

PYTHON ?= python3
ARGS ?=
PAPER ?= vldb09

BIN := .venv/bin
LOCKED := .venv/.locked
INSTALLED := .venv/.installed
# Only `make lock` uses it, in an environment of its own: a lock that cannot be installed
# must not keep anybody from making a better one.
UV := uv==0.13.7
LOCK_BIN := .venv-lock/bin
COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

unexport PYTHONPATH
unexport PYTHONHOME

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: bench clean crash demo experiments format help lint lock test venv

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## match 336,776 real flights against 100,000 alert rules, on Spark
	@$(BIN)/tamis demo $(ARGS)

# The tests of a file share what they set up, a session of Spark for one: they go to one process.
test: $(INSTALLED) ## run the tests on all cores; ARGS="-k name" picks some, ARGS=-n0 uses one process
	@$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

crash: $(INSTALLED) ## kill a streaming job 20 times, and compare what it wrote
	@TAMIS_KILLS=20 $(BIN)/python -m pytest tests/spark/test_streaming.py -m slow

lint: $(INSTALLED) ## check style (ruff) and types (mypy)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(INSTALLED) ## put the code into its standard form
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(INSTALLED) ## measure the engines, the roads in, and reading while writing
	@for file in benchmarks/bench_*.py; do $(BIN)/python "$$file" $(ARGS) || exit; done

experiments: $(INSTALLED) ## draw the figures of the k-index paper again; PAPER=sigmod11, profiles01 others'
	@$(BIN)/python -m experiments.$(PAPER).run $(ARGS)

venv: $(INSTALLED) ## make .venv and install Tamis into it, as every target does on its own

lock: ## choose the newest versions that pyproject.toml allows and write the locks
	@$(PYTHON) -m venv --clear .venv-lock
	@$(LOCK_BIN)/pip install --quiet --disable-pip-version-check $(UV)
	@$(LOCK_BIN)/uv $(COMPILE) --upgrade --group build -o requirements-build.lock
	@$(LOCK_BIN)/uv $(COMPILE) --upgrade --extra dev pyproject.toml -o requirements.lock
	@! grep -nE '://' requirements.lock requirements-build.lock

clean: ## remove everything that was made here, the environments too
	rm -rf .venv .venv-lock .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist \
		src/*.egg-info tamis-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements.lock requirements-build.lock scripts/make-venv
	@bash scripts/make-venv $(PYTHON)
	@touch $@

# --no-build-isolation: the build tools are the locked ones in .venv.
$(INSTALLED): $(LOCKED) pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@
	@echo "tamis: .venv is ready"
