# Everything a person needs: make demo, make test, make bench. Each installs what it needs
# into .venv; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: test demo lint types imports tests bench proto init bubblewrap format clean

test: lint types imports tests

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group test
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

tests: $(STAMP) bubblewrap
	$(BIN)/python -X dev -m pytest

# What holds extensions in on Linux. Installed where we may; where not, its tests say so.
bubblewrap:
	@if [ "$$(uname)" = Linux ] && ! command -v bwrap >/dev/null && [ "$$(id -u)" = 0 ] \
		&& command -v apt-get >/dev/null; then \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null 2>&1 \
		|| { apt-get update -qq >/dev/null 2>&1 \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null; }; fi

bench: $(STAMP)
	$(BIN)/python -m bench

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
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis
