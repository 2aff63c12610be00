# Everything a person needs: make demo, make test, make bench. Each installs what it needs
# into .venv; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUST := examples/cigen/rust
RUST_STAMP := $(VENV)/.rust-example

.PHONY: test demo lint types imports tests bench proto format clean

test: lint types imports tests

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group test
	touch $@

# The Rust example, where there is a Rust toolchain, so that its test need not fetch crates. Its
# test is skipped without one, or without a network; both are said.
$(RUST_STAMP): $(STAMP) $(RUST)/Cargo.lock $(RUST)/src/main.rs
	@if ! command -v cargo >/dev/null; then \
		echo "no cargo here: the Rust example is not built, and its test is skipped"; \
	elif CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20 \
		cargo fetch --locked --quiet --manifest-path $(RUST)/Cargo.toml; then \
		cargo build --locked --offline --quiet --manifest-path $(RUST)/Cargo.toml && touch $@; \
	else \
		echo "the Rust example's crates cannot be fetched: its test is skipped"; \
	fi

demo: $(STAMP)
	$(BIN)/python examples/demo.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

tests: $(STAMP) $(RUST_STAMP)
	$(BIN)/python -X dev -m pytest

bench: $(STAMP)
	$(BIN)/python -m bench

# The generated messages of cigen are committed; this is for whoever changes the .proto.
proto: $(STAMP)
	$(BIN)/python -m pip install --quiet --group proto
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src \
		exthost/dialects/cigen_proto/plugin.proto

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(RUST)/target build dist .mypy_cache .ruff_cache .hypothesis
