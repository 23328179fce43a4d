.PHONY: test lint

## Runs every test.
test:
	cargo test --workspace --locked

## Format, lints and documentation, warnings as errors.
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
