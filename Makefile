# People and CI run the same targets. A target that needs Python first creates .venv from the
# locks; it uses nothing else that is installed on the machine.

# Debian's own Python if it is new enough: it is what most users have.
PYTHON ?= $(or $(shell /usr/bin/python3 -c 'import sys; sys.version_info >= (3, 11) and print(sys.executable)' 2>/dev/null),python3)
ARGS ?=
PART ?=
SECONDS ?= 300
EXAMPLES ?= 200
SEED ?=
TABLE ?=
BASE ?=
PAPER ?= vldb09

BIN := .venv/bin
LOCKED := .venv/.locked
INSTALLED := .venv/.installed
# The demo needs a fifth of the packages: it installs those, unless all are there.
DEMO := .venv/.demo
# Only `make lock` uses uv, in an environment of its own: it must work even when the current
# lock cannot be installed.
UV := uv==0.13.7
LOCK_BIN := .venv-lock/bin
COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

WHEEL_CPU = env $$($(BIN)/python scripts/build_wheel.py --cpu)

unexport PYTHONPATH
unexport PYTHONHOME
# Tests start hundreds of processes, and each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: attack audit bench clean cluster compare compatibility coverage crash demo docs experiments format fuzz help kernels lint lock page parts peers pictures test test-pythons venv wheel

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(or $(wildcard $(INSTALLED)),$(DEMO)) ## match 336,776 real flights against 100,000 alert rules, on Spark
	@$(BIN)/tamis demo $(ARGS)

# The tests of a file run in one process, because they share fixtures; see tests/schedule.py.
# The kernels under test are those of a wheel, which is built by a test: they are compiled once.
test: parts ## run the tests on all cores; ARGS="-k name" picks some, ARGS=-n0 uses one process
	@$(WHEEL_CPU) $(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

parts: $(INSTALLED) ## install what some tests run against: a browser, Kafka, PostgreSQL
	@bash scripts/install-parts

test-pythons: ## run the tests on every promised Python; ARGS=3.13 picks one, ARGS=--fast some tests on the newest
	@$(PYTHON) scripts/test_pythons.py $(ARGS)

kernels: $(INSTALLED) ## compile the kernels of a wheel, which the tests call
	@$(WHEEL_CPU) $(BIN)/tamis warmup >/dev/null

coverage: $(INSTALLED) ## run the tests, print what they cover and write htmlcov; ARGS as for test
	@$(BIN)/python -m pytest -n auto --dist loadfile --cov --cov-report=term --cov-report=html $(ARGS)

crash: $(INSTALLED) ## kill tamis serve 100 times and streaming jobs 20 times each, and compare with shadows
	@$(BIN)/python -m tests.pubsub.kills --kills 100
	@bash scripts/install-parts
	@TAMIS_KILLS=20 $(BIN)/python -m pytest tests/spark/stream tests/spark/documents -m slow

cluster: $(INSTALLED) ## run Spark with 4 workers, 10M rules in a bucket, and kill a worker; ARGS="--rules 1000000"
	@$(BIN)/python -m tests.spark.cluster $(ARGS)

attack: $(INSTALLED) ## try to break Tamis: SECONDS=600, SEED=1 repeats a run, PART=threads runs one part
	@$(BIN)/python -m attack --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) \
		$(if $(PART),--part $(PART)) $(if $(TABLE),--table $(TABLE))

fuzz: $(INSTALLED) ## send the server random requests from its OpenAPI document: EXAMPLES=200 for each operation
	@TAMIS_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n auto tests/server/test_openapi.py

audit: $(INSTALLED) ## compare the locked packages with known advisories
	@$(BIN)/python scripts/audit.py

lint: $(INSTALLED) ## check style (ruff) and types (mypy)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(INSTALLED) ## format the code
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(INSTALLED) ## run all benchmarks, about 40 minutes
	@for file in benchmarks/bench_*.py; do \
		$(BIN)/python -m "benchmarks.$$(basename "$$file" .py)" $(ARGS) || exit; done

peers: $(INSTALLED) ## measure Tamis beside other engines, as far as their tools are here, and write the page
	@$(BIN)/python -m benchmarks.peers.run $(ARGS)

compare: $(INSTALLED) ## measure this tree and another checkout in turn: make compare BASE=../other
	@test -n "$(BASE)" || { echo "name the other checkout: make compare BASE=../other"; exit 2; }
	@$(BIN)/python -m benchmarks.compare "$(BASE)" $(ARGS)

# Downloads several versions of PySpark; the page docs/reference/tables.md has the results.
compatibility: $(INSTALLED) ## try versions of PySpark with Kafka, Delta and Iceberg, each in an environment of its own
	@bash scripts/install-parts
	@bash scripts/compatibility

experiments: $(INSTALLED) ## reproduce the figures of a paper: PAPER=vldb09 (default), sigmod11 or profiles01
	@$(BIN)/python -m experiments.$(PAPER).run $(ARGS)

docs: $(INSTALLED) ## build the site into build/site, without a network; open build/site/index.html
	@$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs build/site
	@echo "the site is in build/site: open build/site/index.html"

venv: $(INSTALLED) ## create .venv and install Tamis into it; the other targets do this themselves

page: ## build the page of the server from web/src; needs Node
	@cd web && npm ci --ignore-scripts --no-audit --no-fund --silent && node build.mjs

pictures: $(INSTALLED) ## take the pictures of the workbench in docs/images again; needs Chromium
	@$(BIN)/python -m scripts.screenshots $(ARGS)

wheel: $(INSTALLED) ## build a wheel for this platform in dist, with compiled kernels, and check it
	@$(BIN)/python scripts/build_wheel.py dist
	@$(BIN)/python -m twine check --strict dist/*.whl

lock: ## write the locks after a change of pyproject.toml; ARGS=--upgrade takes the newest versions
	@$(PYTHON) -m venv --clear .venv-lock
	@$(LOCK_BIN)/pip install --quiet --disable-pip-version-check $(UV)
	@$(LOCK_BIN)/uv $(COMPILE) $(ARGS) --group build -o requirements-build.lock
	@$(LOCK_BIN)/uv $(COMPILE) $(ARGS) --extra dev pyproject.toml -o requirements.lock
	@$(LOCK_BIN)/uv $(COMPILE) --constraint requirements.lock --extra demo pyproject.toml \
		-o requirements-demo.lock
	@! grep -nE '://' requirements*.lock

clean: ## remove all generated files and the environments
	rm -rf .venv .venv-lock .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist \
		htmlcov src/*.egg-info tamis-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements.lock requirements-build.lock scripts/make-venv
	@bash scripts/make-venv $(PYTHON) $< $@

# --no-build-isolation: the build tools are the locked ones in .venv.
$(INSTALLED): $(LOCKED) pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@
	@echo "tamis: .venv is ready"

$(DEMO): requirements-demo.lock requirements-build.lock pyproject.toml scripts/make-venv scripts/install-demo
	@bash scripts/install-demo $(PYTHON) $< $@
