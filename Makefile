# `make demo` and `make test` need only Python 3.11+, a Rust toolchain and make. They install everything else into
# .venv, target and .cache in this folder; `make clean` removes it.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# packages are installed while the extension is compiled
MAKEFLAGS += --jobs

VENV := .venv
RUN := scripts/with-env
# Modules are compiled once, when they are first imported: most of them never are.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(VENV)/bin/python -m pip install --disable-pip-version-check --no-compile
SPARK ?= 4.1.4
DEMO ?=
PYTEST ?=
# Wheels for Linux run on glibc 2.17 and newer; Zig links them so.
PORTABLE := $(if $(filter Linux,$(shell uname)),--zig --compatibility manylinux2014)

BUILT := $(VENV)/.built
RUNS := $(BUILT) $(VENV)/.runs
DEVELOPS := $(RUNS) $(VENV)/.installed
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)

.PHONY: help demo test test-slow test-spark test-pandas lint format registry bench bench-peers instructions docs notebooks wheel lock build clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUNS) ## a real skewed stream through Spark, hashed and routed (DEMO="--workers 16" passes options)
	mkdir -p demo-report
	$(RUN) keysplit demo --report demo-report/keysplit-demo.html $(DEMO)

test: $(DEVELOPS) $(VENV)/spark.jsa ## all tests except the slow ones (PYTEST="-k sketch" passes options to pytest)
	cargo test --quiet --package keysplit-core
	$(RUN) pytest -n auto -m "not slow" --ignore=tests/spark $(PYTEST)
	$(RUN) pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" tests/spark $(PYTEST)

test-slow: $(DEVELOPS) $(VENV)/spark.jsa ## only the slow tests
	$(RUN) pytest -n auto --dist loadfile -m slow --ignore=tests/spark $(PYTEST)
	$(RUN) pytest -n 2 --dist worksteal -m slow tests/spark $(PYTEST)

test-spark: $(DEVELOPS) .cache/spark-$(SPARK)/.installed ## the Spark tests on another version of Spark: make test-spark SPARK=3.5.9
	KEYSPLIT_VENV=.cache/spark-$(SPARK) JAVA_MAX=$(if $(filter 3.%,$(SPARK)),17,25) \
	    $(RUN) python -m pytest -m "not slow and not newest" tests/spark $(PYTEST)

test-pandas: $(DEVELOPS) .cache/pandas-3/.installed ## the key tests on pandas 3 (PySpark, and so dev.lock, requires pandas 2)
	.cache/pandas-3/bin/python -m pytest tests/test_keys.py tests/test_pandas.py $(PYTEST)

lint: $(DEVELOPS) ## formatting, lints and types of Python and Rust
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) stubtest keysplit._core
	cargo fmt --all --check
	$(RUN) cargo clippy --quiet --workspace --all-targets -- -D warnings

format: $(VENV)/.installed ## format the sources, fix what ruff can fix
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
	cargo fmt --all

registry: $(DEVELOPS) ## regenerate all lists of groupings (docs, navigation, packages)
	$(RUN) python scripts/registry

bench: $(DEVELOPS) ## benchmarks: criterion in Rust, pytest-benchmark from Python, and their ratios
	cargo bench --package keysplit-benches
	$(RUN) pytest benches --benchmark-only $(PYTEST)
	$(RUN) python benches/ratios.py

bench-peers: $(DEVELOPS) .cache/peers/.installed ## keysplit beside what a user would pick instead; writes benches/records/peers-DATE.md
	.cache/peers/bin/python benches/peers/run.py

instructions: $(DEVELOPS) ## instructions per message of every grouping; fails if they are more than recorded (needs valgrind)
	$(RUN) python benches/instructions.py --check

docs: $(DEVELOPS) $(VENV)/.docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

notebooks: $(DEVELOPS) $(VENV)/.docs ## run the notebooks of the documentation and store their outputs
	$(RUN) scripts/notebooks

wheel: .cache/wheel-tools/.installed ## release wheels of keysplit and of its experiments, into dist/
	rm -rf dist
	PATH="$(CURDIR)/.cache/wheel-tools/bin:$$PATH" maturin build --release $(PORTABLE) --out dist
	.cache/wheel-tools/bin/python -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist ./experiments

lock: $(VENV)/.installed ## regenerate requirements/*.lock
	scripts/lock

build: $(DEVELOPS) ## set up .venv, build the extension in release mode, install keysplit and its experiments

clean: ## remove everything that these targets created
	rm -rf $(VENV) .cache target site dist demo-report

# the environment, with what builds the extension; then what runs the demo; then all else
$(VENV)/.builds: requirements/demo.lock scripts/find-python
	python=$$(scripts/find-python) && "$$python" -m venv $(VENV)
	$(INSTALL) --constraint requirements/demo.lock maturin flit_core
	touch $@

$(VENV)/.runs: requirements/demo.lock $(VENV)/.builds
	$(INSTALL) -r requirements/demo.lock
	touch $@

$(VENV)/.installed: requirements/dev.lock $(VENV)/.runs
	$(INSTALL) -r requirements/dev.lock
	touch $@

$(VENV)/.docs: requirements/docs.lock $(VENV)/.installed
	$(INSTALL) -r requirements/docs.lock
	touch $@

$(BUILT): $(VENV)/.builds pyproject.toml experiments/pyproject.toml $(RUST)
	@command -v cargo >/dev/null || { echo "keysplit needs a Rust toolchain (cargo), version 1.90 or newer" >&2; exit 1; }
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(INSTALL) --verbose --no-deps --no-build-isolation \
	    --editable . --editable ./experiments
	touch $@

# the classes of Spark for the many Javas that tests start
$(VENV)/spark.jsa: $(VENV)/.installed tests/spark/quick_java.py
	-$(RUN) python tests/spark/quick_java.py

# an environment with another Spark and only what tests/spark needs; it uses the extension already built
.cache/spark-%/.installed: requirements/spark.in $(wildcard requirements/spark-*.lock) scripts/environment
	scripts/environment spark-$* $(if $(wildcard requirements/spark-$*.lock),-r requirements/spark-$*.lock,"pyspark==$*" -r requirements/spark.in)

# others: with another pandas, with what builds wheels
.cache/%/.installed: requirements/%.lock scripts/environment
	scripts/environment $* -r requirements/$*.lock
