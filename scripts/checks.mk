# Checks of single parts. `make help-checks` lists them, and CONTRIBUTING.md names the check for each change.
.PHONY: test-tier test-research test-peers test-stores test-service test-service-full test-service-peers test-web test-site \
  test-wheels portable wasm differential trust trust-full fuzz fuzz-smoke constant-time miri mutants coverage \
  deny advisories bench-peers

# Runs tests of one package from the programs that `make test` built: all tests, or the named ones.
chosen = cargo --config 'target."cfg(all())".runner = ["$(CURDIR)/scripts/run_chosen.sh", "$(1)"]' \
  test --workspace --tests --locked -- $(2)
PACKAGE := sudare
NAMES :=
ISA := scalar

## make test-tier            run the tests of PACKAGE=sudare on the kernels of ISA=scalar, avx2 or another;
##                           NAMES="laws:: rules::" chooses tests whose names contain one of these
test-tier:
	SUDARE_ISA=$(ISA) $(call chosen,$(PACKAGE),$(NAMES))

## make test-research        run the tests of schemes for research only, on the programs of `make test`
test-research:
	$(call chosen,sudare-research-clt)

## make test-peers           test the comparison with other libraries, without running it
test-peers:
	python3 -m unittest discover --start-directory benches/peers

## make bench-peers          compare with other libraries, and write docs/benchmarks.md: 40 minutes and 16 GiB of
##                           memory; PEERS=--plan shows the runs, PEERS=--help the choices
bench-peers:
	python3 benches/peers/run.py $(PEERS)

# Tests of one service, and tests under load and faults. `it` is the test program of the command.
IT := cargo test --locked --package sudare-cli --features full --test it --
SERVICE := $(IT) service:: service_accounts:: service_workers:: service_connections:: service_operation::
LOAD := $(IT) service_load:: service_faults:: --ignored --nocapture

## make test-service         run every test of the service: kills, cuts, misuse, load and failing disks, with records
##                           in a file and in a database; a quarter of an hour on an idle machine; needs PostgreSQL,
##                           strace, nginx-light and caddy of Debian
test-service:
	cargo test --locked --package sudare-server --all-features
	$(SERVICE) --include-ignored
	$(LOAD)
	scripts/with_postgres.sh $(SERVICE) service_shared:: --include-ignored

## make test-service-full    the same for hours: 500 kills, ten minutes of load, ten thousand damaged files
test-service-full: export SUDARE_TEST_FULL = 1
test-service-full: test-service

## make test-stores          test servers that share a database and an object store; needs postgresql of Debian
test-stores:
	scripts/with_postgres.sh $(call chosen,sudare-server,records)
	scripts/with_postgres.sh $(call chosen,sudare-cli,service_shared:: --include-ignored)

# The command with the service, built with PROFILE.
SERVER = $(abspath target/$(patsubst dev,debug,$(PROFILE))/sudare)
BUILD_SERVER = cargo build --locked --profile $(PROFILE) --package sudare-cli --features full
TEST_PEERS := target/test-peers-service
# Minimum number of requests that schemathesis generates.
REQUESTS := 2000

## make test-service-peers   check a running service by schemathesis against its OpenAPI description, and by foreign
##                           clients of tus; needs Python 3.11, Node.js, npm and PyPI; a minute, or half an hour with
##                           REQUESTS=100000
test-service-peers: $(TEST_PEERS)/python/bin/schemathesis $(TEST_PEERS)/node_modules
	$(BUILD_SERVER)
	SUDARE=$(SERVER) MODULES=$(abspath $(TEST_PEERS)) \
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

TEST_WEB := target/test-web
CHROMIUM := /usr/bin/chromium

## make test-web             run an owner's journeys through the page, with pictures in target/test-web/pictures;
##                           needs Node.js 20.11, npm and Chromium
test-web: web $(TEST_WEB)/node_modules
	$(BUILD_SERVER)
	SUDARE=$(SERVER) PAGE=$(PAGE) MODULES=$(TEST_WEB) CHROMIUM=$(CHROMIUM) \
	  node --test crates/web/tests/requests.mjs crates/web/tests/journey.mjs

## make test-site            test the documentation site for users of assistive technology, at three widths and in
##                           both colours, with pictures in target/test-web/site; needs the same
test-site: docs $(TEST_WEB)/node_modules
	SITE=target/site MODULES=$(TEST_WEB) CHROMIUM=$(CHROMIUM) node --test crates/web/tests/site.mjs

$(TEST_WEB)/node_modules: crates/web/tests/package-lock.json
	mkdir -p $(TEST_WEB)
	cp crates/web/tests/package.json $< $(TEST_WEB)
	npm ci --prefix $(TEST_WEB) --no-audit --no-fund
	touch $@

## make test-wheels          install each wheel without Rust, here or by QEMU, run the first example of the package,
##                           and export the page
test-wheels:
	python3 scripts/test_wheel.py

# Other platforms: WASI by Wasmtime from PyPI, and ARM by QEMU with a cross compiler (gcc-aarch64-linux-gnu and
# qemu-user of Debian).
WASM := wasm32-wasip1
ARM := aarch64-unknown-linux-gnu
WASMTIME := target/wasmtime
# Tests of words, and of files and plans, whose results must be equal everywhere. ARM has its own kernels.
SAME := --package sudare-arith --lib -- real:: dd:: sample:: prng:: wide:: modulus:: ntt::
SAME_FILES := --package sudare --package sudare-apps --test golden --test plans
KERNELS := --package sudare-arith --lib --test rows

## make portable             run the tests of equal results on WASI and ARM; needs Rust's targets, a cross compiler,
##                           QEMU, and Wasmtime from PyPI
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

$(WASMTIME)/bin/python:
	python3 -m venv --clear $(WASMTIME)
	$(WASMTIME)/bin/pip install --quiet wasmtime

## make wasm                 build the crates of owner and server for a browser, without running them; needs Rust's
##                           target wasm32-unknown-unknown
wasm:
	cargo check --locked --target $(BROWSER) --package sudare-arith --package sudare \
	  --package sudare-apps --package sudare-roles --package sudare-web

MINUTES := 60

## make differential         compare random programs, tables and models with other libraries, for MINUTES=60
differential:
	$(PYTHON)/bin/python scripts/differential.py --minutes $(MINUTES)

TRUST = cargo run --locked --profile dev --package sudare-trust --

## make trust                run the tests of every promise in SECURITY.md, and write target/trust.json
trust:
	$(TRUST) promises

## make trust-full           the same, with the tests that take hours
trust-full:
	$(TRUST) promises --full

# A program of fuzz/fuzz_targets, or all. FUZZ=--fast leaves out AddressSanitizer, FUZZ=--plain needs no nightly
# Rust, and FUZZ="--jobs 2" fuzzes two targets at a time.
TARGET := all
SECONDS := 60
FUZZ :=

## make fuzz                 fuzz TARGET=… for SECONDS=…, and add the campaign to docs/trust-log.md; needs nightly
##                           Rust and cargo-fuzz, or FUZZ=--plain
fuzz:
	python3 scripts/fuzz.py $(FUZZ) $(TARGET) $(SECONDS)

## make fuzz-smoke           fuzz each target for a minute, and count inputs that pass the checksums
fuzz-smoke:
	python3 scripts/fuzz.py $(FUZZ) all 60
	$(TRUST) fuzz all 5

## make constant-time        search compiled code for dependence on secrets; needs Valgrind
constant-time:
	python3 scripts/constant_time.py $(PROFILE)

# Tests that Miri runs in minutes. Statistics of samplers and whole transforms would take days.
MIRI := mem:: prng:: modulus:: kernel::scalar

## make miri                 run tests of memory, random streams and portable words by Miri, which finds undefined
##                           behaviour; needs Miri of nightly Rust
miri:
	SUDARE_ISA=scalar PROPTEST_CASES=8 MIRIFLAGS="-Zmiri-disable-isolation" cargo +nightly miri test --locked \
	  --package sudare-arith --lib -- $(MIRI)

# Code that decides words, files, prices and released values, and the tests that should notice changes: first the
# tests next to the code, then others for the surviving changes.
WORDS := crates/arith/src/modulus.rs crates/arith/src/dd.rs
GUARDS := $(wildcard crates/sudare/src/rlwe/serial/*.rs) crates/sudare/src/ckks/serial.rs \
  crates/sudare/src/exact/serial.rs crates/sudare/src/rlwe/security.rs crates/sudare/src/ckks/release.rs
GUARDED := fixed_seeds primes sections labels specifications lists moduli files:: corrupted_bytes:: malformed_cases:: \
  key_storage:: prices:: release_attack::
MUTANTS = cargo mutants --profile mutants --gitignore true --no-shuffle --cargo-arg=--locked \
  --output target/mutants/$(1) --package $(1) $(2:%=--file %)

## make mutants              change the code of words, files, prices and releases in a thousand small ways, and check
##                           that tests fail, in two hours; needs cargo-mutants
mutants:
	mkdir -p target/mutants
	-$(call MUTANTS,sudare-arith,$(WORDS)) --cargo-arg=--lib -- -- modulus:: dd::
	-$(call MUTANTS,sudare-arith,$(WORDS)) --iterate --cargo-arg=--lib --cargo-arg=--test=rows
	-$(call MUTANTS,sudare,$(GUARDS)) --cargo-arg=--lib -- -- serial security release
	$(call MUTANTS,sudare,$(GUARDS)) --iterate --cargo-arg=--tests -- -- $(GUARDED)

# Covered packages, and further arguments of cargo-llvm-cov, such as --html.
COVERED := --workspace --exclude sudare-python
COVERAGE := --summary-only

## make coverage             measure the lines that tests reach, in an hour; needs cargo-llvm-cov and PostgreSQL;
##                           COVERED="-p sudare-roles" for less
# Processes that tests kill leave no count of their lines.
coverage:
	scripts/with_postgres.sh cargo llvm-cov --locked --failure-mode all $(COVERED) $(COVERAGE)

## make deny                 check licences, bans and sources of dependencies; needs cargo-deny
deny:
	cargo deny --offline --locked check licenses bans sources
	cargo deny --offline --manifest-path fuzz/Cargo.toml check licenses bans sources

## make advisories           look up published vulnerabilities of dependencies, as a workflow does each week; needs
##                           cargo-deny and a network
advisories:
	cargo deny --locked check advisories
	cargo deny --manifest-path fuzz/Cargo.toml check advisories
