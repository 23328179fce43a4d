.DEFAULT_GOAL := help
.PHONY: help demo test test-tier portable test-full test-peers test-python lint wheel wheels test-wheels \
  docs test-site bench bench-peers trust trust-full fuzz fuzz-smoke deny advisories coverage mutants miri constant-time wasm \
  test-research test-service test-service-full test-service-peers test-stores web test-web

# Of the programs that are run; `test` takes what `make test` built.
PROFILE := release
# Parameter sets that `make bench` times.
SETS := n15 n16-d24 fullrns-5 fullrns-10 fullrns-15
# Timed runs of each operation.
RUNS := 10

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

# Runs tests of one package again, from the programs that `make test` built: all, or the named ones.
chosen = cargo --config 'target."cfg(all())".runner = ["$(CURDIR)/scripts/run_chosen.sh", "$(1)"]' \
  test --workspace --tests --locked -- $(2)
PACKAGE := sudare
NAMES :=
ISA := scalar

## make test-tier    run the tests of PACKAGE=sudare on the kernels of ISA=scalar, avx2 or another;
##                   NAMES="laws:: rules::" chooses those whose names contain one of these
test-tier:
	SUDARE_ISA=$(ISA) $(call chosen,$(PACKAGE),$(NAMES))

## make test-research run the tests of schemes that are for research only, on what `make test` built
test-research:
	$(call chosen,sudare-research-clt)

# Other platforms, and what runs their programs: WASI by Wasmtime from PyPI, and ARM by QEMU with a
# cross compiler (gcc-aarch64-linux-gnu and qemu-user of Debian).
WASM := wasm32-wasip1
ARM := aarch64-unknown-linux-gnu
WASMTIME := target/wasmtime
# What must be the same there, of words and of files and plans. ARM has kernels of its own.
SAME := --package sudare-arith --lib -- real:: dd:: sample:: prng:: wide:: modulus:: ntt::
SAME_FILES := --package sudare --package sudare-apps --test golden --test plans
KERNELS := --package sudare-arith --lib --test rows

## make portable     run tests of what must be the same on every platform on WASI and ARM; takes
##                   Rust's targets, a cross compiler and QEMU, and Wasmtime from PyPI
portable: wasm $(WASMTIME)/bin/python
	set -e; for tests in "$(SAME_FILES)" "$(SAME)"; do \
	  CARGO_TARGET_WASM32_WASIP1_RUNNER="$(abspath $(WASMTIME))/bin/python $(CURDIR)/scripts/run_wasm.py" \
	    cargo test --locked --target $(WASM) $$tests; \
	done
	set -e; for tests in "$(SAME_FILES)" "$(KERNELS)"; do \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
	    cargo test --locked --target $(ARM) $$tests; \
	done

## make wasm         build what a browser can run, up to what owners and servers do, without
##                   running it; takes Rust's target wasm32-unknown-unknown
wasm:
	cargo check --locked --target wasm32-unknown-unknown --package sudare-arith --package sudare \
	  --package sudare-apps --package sudare-roles --package sudare-web

# The page for a browser: a module, its bindings by a tool of its own (crates/web/bundle), and files
# that are as they are.
BROWSER := wasm32-unknown-unknown
PAGE := target/web
BUNDLE = cargo run --locked --quiet --manifest-path crates/web/bundle/Cargo.toml --target-dir target/bundle --

## make web          the owner's side for a browser, into target/web: `sudare web` serves it; takes
##                   Rust's target wasm32-unknown-unknown
web:
	cargo build --locked --profile web --target $(BROWSER) --package sudare-web
	$(BUNDLE) target/$(BROWSER)/web/sudare_web.wasm $(PAGE) $(wildcard crates/web/page/*) \
	  crates/roles/src/clear/report/report.css

# Where packages of npm are for tests of the page, and the browser.
TEST_WEB := target/test-web
CHROMIUM := /usr/bin/chromium

## make test-web     an owner's journeys through the page, with pictures in target/test-web/pictures;
##                   takes Node.js 20.11, npm and Chromium
test-web: web $(TEST_WEB)/node_modules
	cargo build --locked --profile $(PROFILE) --package sudare-cli --features full
	SUDARE=$(abspath target/$(patsubst dev,debug,$(PROFILE))/sudare) PAGE=$(PAGE) MODULES=$(TEST_WEB) \
	  CHROMIUM=$(CHROMIUM) node --test crates/web/tests/requests.mjs crates/web/tests/journey.mjs

$(TEST_WEB)/node_modules: crates/web/tests/package-lock.json
	mkdir -p $(TEST_WEB)
	cp crates/web/tests/package.json $< $(TEST_WEB)
	npm ci --prefix $(TEST_WEB) --no-audit --no-fund
	touch $@

$(WASMTIME)/bin/python:
	python3 -m venv --clear $(WASMTIME)
	$(WASMTIME)/bin/pip install --quiet wasmtime

## make test-full    run every test; hours, and 16 GiB of memory; takes strace
test-full:
	cargo test --workspace --locked -- --include-ignored
	$(SUDARE) selftest
	$(MAKE) test-python TESTS="-m 'slow or not slow'"

SERVICE := cargo test --locked --package sudare-cli --features full --test it -- service:: service_accounts:: service_workers:: \
  service_connections:: service_operation::
LOAD := cargo test --locked --package sudare-cli --features full --test it -- service_load:: service_faults:: --ignored --nocapture

## make test-service every test of the service: killed, cut, misused, under load and on disks that fail; with
##                   its records in a file, and in a database beside a store of objects; a quarter of an hour,
##                   on a machine that does nothing else; takes PostgreSQL, strace, nginx-light and caddy of
##                   Debian
test-service:
	cargo test --locked --package sudare-server --all-features
	$(SERVICE) --include-ignored
	$(LOAD)
	scripts/with_postgres.sh $(SERVICE) service_shared:: --include-ignored

## make test-service-full  the same, for hours: 500 kills, ten minutes of load, ten thousand damaged files
test-service-full: export SUDARE_TEST_FULL = 1
test-service-full: test-service

## make test-stores  tests of servers that share a database and a store of objects, beside a server of
##                   PostgreSQL that it starts (postgresql of Debian)
test-stores:
	scripts/with_postgres.sh $(call chosen,sudare-server,records)
	scripts/with_postgres.sh $(call chosen,sudare-cli,service_shared:: --include-ignored)

# Where programs of others are that ask the service, and how many requests one of them makes up.
TEST_PEERS := target/test-peers-service
REQUESTS := 2000

## make test-service-peers  the service asked by clients of tus and by schemathesis, which others wrote; takes
##                   Python 3.11, Node.js, npm and PyPI; a minute, or half an hour with REQUESTS=100000
test-service-peers: $(TEST_PEERS)/python/bin/schemathesis $(TEST_PEERS)/node_modules
	cargo build --locked --profile $(PROFILE) --package sudare-cli --features full
	SUDARE=$(abspath target/$(patsubst dev,debug,$(PROFILE))/sudare) MODULES=$(abspath $(TEST_PEERS)) \
	  $(TEST_PEERS)/python/bin/python -m pytest --quiet cli/tests/peers --requests $(REQUESTS)

$(TEST_PEERS)/python/bin/schemathesis: cli/tests/peers/requirements.txt
	python3 -m venv --clear $(TEST_PEERS)/python
	$(TEST_PEERS)/python/bin/pip install --quiet --requirement $<
	touch $@

$(TEST_PEERS)/node_modules: cli/tests/peers/package-lock.json
	mkdir -p $(TEST_PEERS)
	cp cli/tests/peers/package.json $< $(TEST_PEERS)
	npm ci --prefix $(TEST_PEERS) --no-audit --no-fund
	touch $@

# Finds misspelt words.
TYPOS := target/typos

## make lint         check format, lints, documentation and English; warnings are errors; takes PyPI
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

## make miri         run tests of memory, random streams and portable words by Miri, which finds
##                   undefined behaviour; needs Miri of Rust's nightly release
miri:
	SUDARE_ISA=scalar PROPTEST_CASES=8 MIRIFLAGS="-Zmiri-disable-isolation" cargo +nightly miri test --locked \
	  --package sudare-arith --lib -- $(MIRI)

# Tests that Miri runs, in minutes; statistics of samplers and whole transforms would take days.
MIRI := mem:: prng:: modulus:: kernel::scalar

## make constant-time  examine compiled code for what depends on secrets; needs Valgrind
constant-time:
	python3 scripts/constant_time.py $(PROFILE)

## make bench        time operations; choose with SETS="n13 n14" RUNS=3
bench:
	set -e; for set in $(SETS); do $(BENCH) --params $$set --runs $(RUNS); done

## make bench-peers  compare with other libraries and write docs/benchmarks.md; 40 minutes and
##                   16 GiB of memory; PEERS=--plan says what is run, PEERS=--help how to choose
bench-peers:
	python3 benches/peers/run.py $(PEERS)

## make test-peers   test that comparison, without running it; needs python3
test-peers:
	python3 -m unittest discover --start-directory benches/peers

# Where the Python package is installed and tested, and which of its tests are run.
PYTHON := target/python
TESTS :=

## make differential  compare random programs, tables and models with other libraries, for MINUTES=60
MINUTES := 60
.PHONY: differential
differential:
	$(PYTHON)/bin/python scripts/differential.py --minutes $(MINUTES)

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

# What makes wheels, and for which platforms: all that this system can, or some by their names, which
# are in scripts/wheels.py.
WHEEL_TOOLS := target/wheel-tools
PLATFORMS := all
BUILD_WHEELS = PATH="$(abspath $(WHEEL_TOOLS))/bin:$$PATH" $(WHEEL_TOOLS)/bin/python scripts/wheels.py

## make wheel        build a wheel for this machine into wheels, with the page of `make web`; takes
##                   maturin and zig from PyPI
wheel: $(WHEEL_TOOLS)/bin/maturin
	$(BUILD_WHEELS)

## make wheels       the same for Linux, with glibc or musl, and Windows, or PLATFORMS="win_amd64 …";
##                   takes Rust's targets and mingw-w64, and says how to get them
wheels: $(WHEEL_TOOLS)/bin/maturin
	$(BUILD_WHEELS) $(PLATFORMS)

## make test-wheels  install each wheel that runs here, or by QEMU, where no Rust is, run the first
##                   example of the package, and export the page
test-wheels:
	python3 scripts/test_wheel.py

$(WHEEL_TOOLS)/bin/maturin:
	python3 -m venv --clear $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/pip install --quiet "maturin[zig]>=1.9,<2"

# What makes the site.
DOCS := target/docs

## make docs         build the site of the documentation into target/site
docs: $(DOCS)/bin/mkdocs
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

## make test-site    the documentation site for users of assistive technology, at three widths and in both
##                   colours, with pictures in target/test-web/site; takes Node.js 20.11, npm and Chromium
test-site: docs $(TEST_WEB)/node_modules
	SITE=target/site MODULES=$(TEST_WEB) CHROMIUM=$(CHROMIUM) node --test crates/web/tests/site.mjs

$(DOCS)/bin/mkdocs: docs/requirements.txt
	python3 -m venv --clear $(DOCS)
	$(DOCS)/bin/pip install --quiet --requirement $<

# Runs the tests of the promises in SECURITY.md.
TRUST = cargo run --locked --profile dev --package sudare-trust --

## make trust        run the tests of every promise in SECURITY.md, and write target/trust.json
trust:
	$(TRUST) promises

## make trust-full   the same, with those that take hours
trust-full:
	$(TRUST) promises --full

# A target of fuzzing, one of fuzz/fuzz_targets or all; --fast for FUZZ does without AddressSanitizer,
# --plain without nightly Rust, --jobs 2 fuzzes two targets at a time.
TARGET := all
SECONDS := 60
FUZZ :=

## make fuzz         fuzz TARGET=… for SECONDS=… and add it to docs/trust-log.md; takes nightly Rust
##                   and cargo-fuzz, or FUZZ=--plain
fuzz:
	python3 scripts/fuzz.py $(FUZZ) $(TARGET) $(SECONDS)

## make fuzz-smoke   a minute for each target, and how many inputs get past checksums
fuzz-smoke:
	python3 scripts/fuzz.py $(FUZZ) all 60
	$(TRUST) fuzz all 5

## make deny         check licences, bans and sources of dependencies; takes cargo-deny. Published faults
##                   of dependencies are looked up by `make advisories`, and each week by a workflow
deny:
	cargo deny --offline --locked check licenses bans sources
	cargo deny --offline --manifest-path fuzz/Cargo.toml check licenses bans sources

## make advisories   look up published faults of dependencies; takes cargo-deny and a network
advisories:
	cargo deny --locked check advisories
	cargo deny --manifest-path fuzz/Cargo.toml check advisories

# Which packages, and further arguments of cargo-llvm-cov, such as --html.
COVERED := --workspace --exclude sudare-python
COVERAGE := --summary-only

## make coverage     lines that tests reach, in an hour; takes cargo-llvm-cov and PostgreSQL,
##                   COVERED="-p sudare-roles" for less
# Tests kill processes, which leave no count of their lines.
coverage:
	scripts/with_postgres.sh cargo llvm-cov --locked --failure-mode all $(COVERED) $(COVERAGE)

# What decides of words, files, prices and released values, and the tests that are to notice changes:
# first those beside the code, then further programs for what is left.
WORDS := crates/arith/src/modulus.rs crates/arith/src/dd.rs
GUARDS := $(wildcard crates/sudare/src/rlwe/serial/*.rs) crates/sudare/src/ckks/serial.rs \
  crates/sudare/src/exact/serial.rs crates/sudare/src/rlwe/security.rs crates/sudare/src/ckks/release.rs
GUARDED := fixed_seeds primes sections labels specifications lists moduli files:: corrupted_bytes:: malformed_cases:: \
  key_storage:: prices:: release_attack::
MUTANTS = cargo mutants --profile mutants --gitignore true --no-shuffle --cargo-arg=--locked \
  --output target/mutants/$(1) --package $(1) $(2:%=--file %)

## make mutants      change what decides of words, files, prices and releases in a thousand small ways,
##                   and see that tests fail, in two hours; takes cargo-mutants
mutants:
	mkdir -p target/mutants
	-$(call MUTANTS,sudare-arith,$(WORDS)) --cargo-arg=--lib -- -- modulus:: dd::
	-$(call MUTANTS,sudare-arith,$(WORDS)) --iterate --cargo-arg=--lib --cargo-arg=--test=rows
	-$(call MUTANTS,sudare,$(GUARDS)) --cargo-arg=--lib -- -- serial security release
	$(call MUTANTS,sudare,$(GUARDS)) --iterate --cargo-arg=--tests -- -- $(GUARDED)

help:
	@sed -n 's/^## //p' Makefile
