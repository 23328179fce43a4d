.DEFAULT_GOAL := help
.PHONY: help help-checks demo test test-full test-python lint docs web wheel wheels bench

# Cargo profile of the programs that targets run. `test` uses the programs that `make test` built.
PROFILE := release
# Features of the command. `full` adds the service, which doubles the number of crates.
FEATURES := parquet
SUDARE = cargo run --locked --profile $(PROFILE) --package sudare-cli --features "$(FEATURES)" --
BENCH = cargo run --locked --profile $(PROFILE) --package sudare-bench --

## make demo         train on encrypted data, all roles in one process
demo: PROFILE := quick
demo:
	$(SUDARE) demo

## make test         run every test except most at full ring size and those of research; 10 GiB of memory
test:
	cargo test --workspace --exclude sudare-research-clt --locked

## make test-full    run every test, for hours; needs 16 GiB of memory and strace
test-full:
	cargo test --workspace --locked -- --include-ignored
	$(SUDARE) selftest
	$(MAKE) test-python TESTS="-m 'slow or not slow'"

# Virtual environment of the Python package, and arguments of pytest.
PYTHON := target/python
TESTS :=

## make test-python  install the Python package into target/python and test it
test-python: $(PYTHON)/bin/maturin
	PATH="$(abspath $(PYTHON))/bin:$$PATH" MATURIN_PEP517_ARGS="--profile dev" \
	  $(PYTHON)/bin/pip install --quiet --no-build-isolation --force-reinstall --no-deps .
	$(PYTHON)/bin/python -m pytest --quiet --durations=20 --numprocesses=auto --dist=worksteal $(TESTS)
	$(PYTHON)/bin/mypy python/sudare python/tests python/examples
	$(PYTHON)/bin/python -m mypy.stubtest sudare

$(PYTHON)/bin/maturin: python/tests/requirements.txt
	python3 -m venv --clear $(PYTHON)
	$(PYTHON)/bin/pip install --quiet --no-compile --requirement $<

TYPOS := target/typos

## make lint         check format, lints, documentation and English; warnings are errors; needs PyPI
lint: $(TYPOS)/bin/typos
	scripts/features.sh
	scripts/pinned.sh
	$(TYPOS)/bin/typos --format brief
	scripts/test_prose.py
	scripts/prose.py
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --package sudare-cli --package sudare-server --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

$(TYPOS)/bin/typos: scripts/requirements.txt
	python3 -m venv --clear $(TYPOS)
	$(TYPOS)/bin/pip install --quiet --requirement $<
	touch $@

DOCS := target/docs

## make docs         build the documentation site, in target/site
docs: $(DOCS)/bin/mkdocs
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

$(DOCS)/bin/mkdocs: docs/requirements.txt
	python3 -m venv --clear $(DOCS)
	$(DOCS)/bin/pip install --quiet --requirement $<

# Rust's target of the page, and the directory for the page.
BROWSER := wasm32-unknown-unknown
PAGE := target/web
# Packs the module with its bindings and the unchanged files of the page.
BUNDLE = cargo run --locked --quiet --manifest-path crates/web/bundle/Cargo.toml --target-dir target/bundle --

## make web          build the owner's page for `sudare web`, in target/web; needs Rust's target
##                   wasm32-unknown-unknown
web:
	cargo build --locked --profile web --target $(BROWSER) --package sudare-web
	$(BUNDLE) target/$(BROWSER)/web/sudare_web.wasm $(PAGE) $(wildcard crates/web/page/*) \
	  crates/roles/src/clear/report/report.css

WHEEL_TOOLS := target/wheel-tools
# All platforms that this system can build for, or names from scripts/wheels.py.
PLATFORMS := all
BUILD_WHEELS = PATH="$(abspath $(WHEEL_TOOLS))/bin:$$PATH" $(WHEEL_TOOLS)/bin/python scripts/wheels.py

## make wheel        build a wheel for this machine into wheels, with the page; needs maturin and zig from
##                   PyPI
wheel: $(WHEEL_TOOLS)/bin/maturin
	$(BUILD_WHEELS)

## make wheels       build wheels for Linux, with glibc or musl, and Windows, or PLATFORMS="win_amd64 …";
##                   names missing Rust targets and mingw-w64
wheels: $(WHEEL_TOOLS)/bin/maturin
	$(BUILD_WHEELS) $(PLATFORMS)

$(WHEEL_TOOLS)/bin/maturin:
	python3 -m venv --clear $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/pip install --quiet "maturin[zig]>=1.9,<2"

# Parameter sets for `make bench`, and timed runs of each operation.
SETS := n15 n16-d24 fullrns-5 fullrns-10 fullrns-15
RUNS := 10

## make bench        time operations; choose with SETS="n13 n14" RUNS=3
bench:
	set -e; for set in $(SETS); do $(BENCH) --params $$set --runs $(RUNS); done

# Checks of single parts, for continuous integration, releases and changes of these parts.
include scripts/checks.mk

## make help-checks  list the checks of single parts
help-checks:
	@sed -n 's/^## //p' scripts/checks.mk

help:
	@sed -n 's/^## //p' Makefile
