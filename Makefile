# Everything a person needs: make demo, make test, make bench. Each installs what it needs
# into .venv; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUST := examples/cigen/rust
RUST_STAMP := $(VENV)/.rust-example

# Servers and clients from npm, for tests and bench that say when they go without. A stamp that is
# only written where npm is there and the registry answers.
NODE := $(VENV)/node
NODE_PACKAGES := @modelcontextprotocol/server-everything@2026.8.31 \
	@modelcontextprotocol/sdk@1.32.2 vscode-jsonrpc@10.0.0

.PHONY: node test demo lint types imports tests bench soak fuzz trial-cgroup recall proto init bubblewrap format clean

test: lint types imports tests

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group test
	touch $@

node: $(STAMP)
	@test -e $(NODE)/.installed || { command -v npm >/dev/null \
		&& npm install --silent --no-audit --no-fund --prefix $(NODE) $(NODE_PACKAGES) \
		&& touch $(NODE)/.installed; } || echo "no packages from npm: some tests are skipped"

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

tests: $(STAMP) $(RUST_STAMP) node bubblewrap
	$(BIN)/python -m pytest --dist worksteal --tx '2*popen//python=$(BIN)/python -X dev'

# What holds extensions in on Linux. Installed where we may; where not, its tests say so.
bubblewrap:
	@if [ "$$(uname)" = Linux ] && ! command -v bwrap >/dev/null && [ "$$(id -u)" = 0 ] \
		&& command -v apt-get >/dev/null; then \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null 2>&1 \
		|| { apt-get update -qq >/dev/null 2>&1 \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null; }; fi

bench: $(STAMP) node
	$(BIN)/python -m bench

# The long versions of the fault suite: half an hour at most, a table, and an exit code.
soak: $(STAMP)
	$(BIN)/python -m soak

# Half a minute for each dialect in each role. atheris has wheels for Linux only.
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python -m fuzz

# Memory and processes held by the kernel, in a virtual machine with cgroup v2: a few minutes. Tells
# what it needs; KERNEL is a Debian package with a kernel.
trial-cgroup: $(STAMP)
	KERNEL="$(KERNEL)" $(BIN)/python -m tests.cgroup.machine

# Finding memory among a million records: filling the store takes minutes.
recall: $(STAMP)
	$(BIN)/python -m bench.recall

# The generated messages of cigen are committed; this is for whoever changes the .proto.
proto: $(STAMP)
	$(BIN)/python -m pip install --quiet --group proto
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src \
		exthost/dialects/cigen_proto/plugin.proto

# The first process of a namespace is committed as code; this is for whoever changes init.c.
init: $(STAMP)
	$(BIN)/python scripts/build_init.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(RUST)/target build dist .mypy_cache .ruff_cache .hypothesis
