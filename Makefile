# Everything a person needs: make demo, make test, make bench. Each installs what it needs
# into .venv; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: test demo lint types imports tests bench soak fuzz proto format clean

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

tests: $(STAMP)
	$(BIN)/python -X dev -m pytest

bench: $(STAMP)
	$(BIN)/python -m bench

# The long versions of the fault suite: half an hour at most, a table, and an exit code.
soak: $(STAMP)
	$(BIN)/python -m soak

# Half a minute for each dialect in each role. atheris has wheels for Linux only.
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python -m fuzz

# The generated messages of cigen are committed; this is for whoever changes the .proto.
proto: $(STAMP)
	$(BIN)/python -m pip install --quiet --group proto
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src \
		exthost/dialects/cigen_proto/plugin.proto

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis
