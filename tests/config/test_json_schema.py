"""The declared keys of configs are complete, and their JSON Schema agrees with the reader.

Each key of exthost.toml is declared once, as a `Key` with its type, description, example and
default: for example `max_depth` in the section `[discovery]`. The reader of configs, the page in
`docs/reference/` and the JSON Schema for editors are all made from these declarations. Dialects may
declare sections of their own.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from exthost.config import DiscoverySettings, config_from_mapping
from exthost.config.document import _SECTIONS
from exthost.config.json_schema import dialect_sections, json_schema
from exthost.config.section_keys import SECTION_KEYS
from exthost.dialects import find
from exthost.dialects.options import COMMON_OPTIONS
from exthost.errors import ConfigError
from exthost.model.documents.keys import Key
from exthost.model.documents.problems import Place, Problems

ROOT = Path(__file__).parents[2]
BUILT_IN = [find.find_package(name) for name in find.BUILT_IN]
SECTIONS: dict[str, Key] = {
    **SECTION_KEYS,
    **{name: key for package in BUILT_IN for name, key in dialect_sections(package)},
}


def keys_below(path: str, keys: Mapping[str, Key]) -> Iterator[tuple[str, Key]]:
    """Yield all keys and the keys of their tables, each with its dotted path."""
    for name, key in keys.items():
        yield f"{path}.{name}", key
        yield from keys_below(f"{path}.{name}", key.type.keys)


# Every key by its dotted path, such as ".discovery.watch.debounce_ms".
KEYS = dict(keys_below("", SECTIONS))


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Validator:
    """A validator for the JSON Schema of configs."""
    return jsonschema_rs.validator_for(json_schema(BUILT_IN))


def test_every_section_that_is_read_is_in_the_table() -> None:
    dialect_names = {name for package in BUILT_IN for name in package.config_sections}
    assert set(SECTIONS) == {*_SECTIONS, *dialect_names}


def test_every_key_has_a_description_and_an_example() -> None:
    for path, key in KEYS.items():
        assert key.about.endswith(".") and key.about[0].isupper(), path
        is_section = path.count(".") == 1
        assert key.example or is_section, path


def test_every_option_of_a_dialect_has_a_description() -> None:
    for name, option in COMMON_OPTIONS.items():
        assert option.about, name
    for package in BUILT_IN:
        for name, option in find.find_dialect(package.name).options.items():
            assert option.about.endswith(".") and option.schema, f"{package.name}: {name}"


@pytest.mark.parametrize("path", [path for path, key in KEYS.items() if key.example])
def test_every_example_and_default_is_read_without_a_mistake(path: str) -> None:
    key = KEYS[path]
    for text in (key.example, key.default):
        if text and not text.startswith("("):  # a default in brackets is a description
            problems = Problems()
            # Reading a value adds what is wrong with it to `problems`.
            key(tomllib.loads(f"value = {text}")["value"], Place(problems))
            assert not problems.items, text


def test_the_documented_defaults_of_discovery_are_the_real_ones() -> None:
    settings = DiscoverySettings()
    keys = SECTION_KEYS["discovery"].type.keys
    for table, table_keys in ((settings, keys), (settings.watch, keys["watch"].type.keys)):
        for setting in fields(table):
            # The first is set by the kind of the config file, and the second is a table.
            if setting.name in ("prefers_working_folder", "watch"):
                continue
            default = tomllib.loads(f"value = {table_keys[setting.name].default}")["value"]
            value = getattr(table, setting.name)
            assert default == (list(value) if isinstance(value, tuple) else value), setting.name


def example_of(section: Key) -> Any:
    """Return a value of a section in which every key has its example."""
    table = {
        name: tomllib.loads(f"value = {key.example}")["value"]
        for name, key in section.type.keys.items()
        if key.example
    }
    if section.type.layout == "list":
        return [table]
    # In a section such as [mcp_servers.weather], the user chooses the names of the tables.
    return {"weather": table} if section.type.layout == "names" else table


@pytest.mark.parametrize("section", SECTIONS)
def test_the_schema_accepts_every_example(schema: jsonschema_rs.Validator, section: str) -> None:
    schema.validate({section: example_of(SECTIONS[section])})


ENTRY = {"name": "a", "source": {"command": "python3"}}

# Each document has one mistake: a misspelt or missing key, or a value that is not allowed.
INVALID: list[dict[str, Any]] = [
    {"extension": []},
    {"extensions": {}},
    {"extensions": [{"name": "a"}]},
    {"extensions": [{**ENTRY, "limit": {}}]},
    {"extensions": [{**ENTRY, "limits": {"call": "10 years"}}]},
    {"extensions": [{**ENTRY, "limits": {"cal": 1}}]},
    {"extensions": [{**ENTRY, "limits": {"max_in_flight": 0}}]},
    {"extensions": [{**ENTRY, "restart": {"strategy": "sometimes"}}]},
    {"extensions": [{**ENTRY, "restart": {"max_retries": "many"}}]},
    {"extensions": [{**ENTRY, "env": {"A": 1}}]},
    {"extensions": [{**ENTRY, "env": {"A": {"of": "B"}}}]},
    {"extensions": [{**ENTRY, "args": "one"}]},
    {"extensions": [{**ENTRY, "sha256": "abc"}]},
    {"extensions": [{**ENTRY, "dialect": "cigen", "options": {"plan": "yes"}}]},
    {"defaults": {"name": "a"}},
    {"discovery": {"max_depth": -1}},
    {"discovery": {"watch": {"debounce_ms": 1}}},
    {"hooks": {"on_failure": "perhaps"}},
    {"hooks": {"before_message": {"on_failur": "open"}}},
    {"mcp_servers": {"time": {"command": 1}}},
    {"process_extensions": [{"id": "a", "manifest": "m"}]},
]


@pytest.mark.parametrize("document", INVALID, ids=str)
def test_the_reader_and_the_schema_reject_the_same_documents(
    schema: jsonschema_rs.Validator, document: dict[str, Any]
) -> None:
    assert not schema.is_valid(document)
    with pytest.raises(ConfigError):
        config_from_mapping(document)


def test_the_schema_accepts_the_configs_of_the_examples(schema: jsonschema_rs.Validator) -> None:
    configs = [*ROOT.glob("examples/**/exthost.toml")]
    assert configs
    for config in configs:
        schema.validate(tomllib.loads(config.read_text()))


def test_the_schema_accepts_a_source_that_exthost_reads_and_cannot_run(
    schema: jsonschema_rs.Validator,
) -> None:
    document = {"extensions": [{"name": "a", "source": {"type": "grpc", "port": 1}}]}
    schema.validate(document)
    (spec,) = config_from_mapping(document).specs
    assert spec.unrunnable  # the reason, which the host reports when it would start the extension


def test_the_section_of_a_dialect_without_declared_keys_accepts_any_key() -> None:
    package = replace(BUILT_IN[0], config_sections={"toys": "x:y"}, section_keys={})
    jsonschema_rs.validate(json_schema([package]), {"toys": {"a": 1}})
