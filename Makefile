# Everything sets itself up: `make demo` and `make test` need Python 3.11+, a Rust toolchain and make, no more.
# What they bring goes to .venv, target and .cache in this folder; `make clean` removes it.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
RUN := scripts/with-env
SPARK ?= 4.1.4
DEMO ?=
PYTEST ?=

BUILT := $(VENV)/.built
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)

.PHONY: help demo test test-slow test-spark test-pandas lint format bench docs wheel lock build clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(BUILT) ## a real skewed stream through Spark, hashed and routed (DEMO="--workers 16" passes options)
	mkdir -p demo-report
	$(RUN) keysplit demo --report demo-report/keysplit-demo.html $(DEMO)

test: $(BUILT) ## all tests but the slow ones (PYTEST="-k sketch" passes options to pytest)
	cargo test --quiet --package keysplit-core
	$(RUN) pytest -n auto -m "not slow" --ignore=tests/spark $(PYTEST)
	$(RUN) pytest -m "not slow" tests/spark $(PYTEST)

test-slow: $(BUILT) ## the slow tests alone
	$(RUN) pytest -n auto -m slow --ignore=tests/spark $(PYTEST)
	$(RUN) pytest -m slow tests/spark $(PYTEST)

test-spark: $(BUILT) .cache/spark-$(SPARK)/.installed ## the Spark tests on another Spark: make test-spark SPARK=3.5.9
	KEYSPLIT_VENV=.cache/spark-$(SPARK) JAVA_MAX=$(if $(filter 3.%,$(SPARK)),17,25) \
	    $(RUN) python -m pytest -m "not slow" tests/spark $(PYTEST)

test-pandas: $(BUILT) .cache/pandas-3/.installed ## the tests of keys on pandas 3: PySpark, and so dev.lock, stays with pandas 2
	.cache/pandas-3/bin/python -m pytest tests/test_keys.py tests/test_pandas.py $(PYTEST)

lint: $(BUILT) ## formatting, lints and types of Python and Rust
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) stubtest keysplit._core
	cargo fmt --all --check
	$(RUN) cargo clippy --quiet --workspace --all-targets -- -D warnings

format: $(VENV)/.installed ## format the sources, mend what ruff can mend
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
	cargo fmt --all

bench: $(BUILT) ## benchmarks: criterion in Rust, through Python, and their ratios
	cargo bench --package keysplit-core
	$(RUN) pytest benches --benchmark-only $(PYTEST)
	$(RUN) python benches/ratios.py

docs: $(BUILT) $(VENV)/.docs ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

wheel: $(BUILT) ## a release wheel, into dist/
	rm -rf dist
	$(RUN) maturin build --release --out dist

lock: $(VENV)/.installed ## write requirements/*.lock anew
	scripts/lock

build: $(BUILT) ## set up .venv and build the extension in release mode

clean: ## remove all that these targets made
	rm -rf $(VENV) .cache target site dist demo-report

$(VENV)/.installed: requirements/dev.lock scripts/find-python
	python=$$(scripts/find-python) && "$$python" -m venv $(VENV)
	$(VENV)/bin/python -m pip install --disable-pip-version-check -r requirements/dev.lock
	touch $@

$(VENV)/.docs: requirements/docs.lock $(VENV)/.installed
	$(VENV)/bin/python -m pip install --disable-pip-version-check -r requirements/docs.lock
	touch $@

$(BUILT): $(VENV)/.installed pyproject.toml $(RUST)
	@command -v cargo >/dev/null || { echo "keysplit needs a Rust toolchain (cargo), version 1.90 or newer" >&2; exit 1; }
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python -m pip install --disable-pip-version-check --verbose \
	    --no-deps --no-build-isolation --editable .
	touch $@

# an environment with another Spark and no more than tests/spark needs; the extension is the one already built
.cache/spark-%/.installed: requirements/spark.in $(wildcard requirements/spark-*.lock)
	mkdir -p .cache
	python=$$(scripts/find-python) && "$$python" -m venv .cache/spark-$*
	if [ -f requirements/spark-$*.lock ]; then set -- -r requirements/spark-$*.lock; \
	    else set -- "pyspark==$*" -r requirements/spark.in; fi; \
	    .cache/spark-$*/bin/python -m pip install --disable-pip-version-check "$$@"
	echo "$(CURDIR)/python" >"$$(.cache/spark-$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/keysplit.pth"
	touch $@

# the same with another pandas
.cache/pandas-3/.installed: requirements/pandas-3.lock
	mkdir -p .cache
	python=$$(scripts/find-python) && "$$python" -m venv .cache/pandas-3
	.cache/pandas-3/bin/python -m pip install --disable-pip-version-check -r requirements/pandas-3.lock
	echo "$(CURDIR)/python" >"$$(.cache/pandas-3/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/keysplit.pth"
	touch $@
