"""`extensions.yaml`, a config file of the program nexo, which exthost reads as well.

It has the settings that exthost.toml has in `[discovery]`: the folders in which extensions are
searched, and which of them are used. PyYAML, with which it is read, is an optional package.
"""

import builtins
from pathlib import Path
from typing import Any

import pytest

from exthost.config import DiscoverySettings, WatchSettings
from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.errors import ConfigError
from tests.dialects.requirements import shows
from tests.extensions.nexo_tree import write_plugin

# The file of the nexo documentation, with all defaults.
DEFAULTS = """
extensions:
  enabled: true
  search_paths: [./extensions]
  ignore_dirs: [node_modules, .git, target]
  disabled: []
  allowlist: []            # empty = all allowed
  max_depth: 4
  follow_links: false
  watch:
    enabled: false
    debounce_ms: 500
"""


def read_text(folder: Path, text: str | bytes, name: str = "extensions.yaml") -> Any:
    """Write a config with this text and read it."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_config(path)


def read_error(folder: Path, text: str | bytes) -> ConfigError:
    """Return the error for a config with this text."""
    with pytest.raises(ConfigError) as caught:
        read_text(folder, text)
    assert caught.value.evidence.path == str(folder / "extensions.yaml")
    return caught.value


@shows("nexo-disc-11")
@pytest.mark.parametrize("text", [DEFAULTS, "extensions:\n", "extensions: {}"])
def test_the_documented_file_has_the_defaults(tmp_path: Path, text: str) -> None:
    expected = DiscoverySettings(prefers_working_folder=True)
    for name in ("extensions.yaml", "extensions.yml"):
        assert read_text(tmp_path, text, name).discovery == expected


@shows("nexo-disc-11")
def test_every_key_can_be_set(tmp_path: Path) -> None:
    discovery = read_text(
        tmp_path,
        "extensions:\n  search_paths: [a, /b]\n  disabled: [x]\n  allowlist: [y]\n  max_depth: 2\n"
        "  follow_links: true\n  watch: {enabled: true, debounce_ms: 50, reload: true}\n",
    ).discovery
    assert discovery.search_paths == ("a", "/b")
    assert (discovery.disabled, discovery.allowlist, discovery.max_depth) == (("x",), ("y",), 2)
    assert discovery.watch == WatchSettings(enabled=True, debounce_ms=50, reload=True)


@shows("nexo-disc-11")
@pytest.mark.parametrize(
    ("text", "line", "key", "message"),  # line 0: the error may have any line
    [
        ("extensions:\n  max_deph: 2\n", 2, "extensions.max_deph", "max_depth"),
        ("extensions:\n  watch:\n    debounce_ms: 49\n", 3, "extensions.watch.debounce_ms", "50"),
        ("extensions:\n  disabled:\n    - a\n    - 5\n", 4, "extensions.disabled[1]", "text"),
        ("extensions: [a]\n", 1, "extensions", "table"),
        ("extension: {}\n", 0, "", "extensions"),
        ("extensions: {}\nextention: 1\n", 2, "extention", "unknown"),
        ("extensions: {disable: [x]}\n", 1, "extensions.disable", "disabled"),
        ("extensions:\n  watch: {reloads: true}\n", 2, "extensions.watch.reloads", "reload"),
        ("extensions:\n  enabled: true\n  enabled: false\n", 3, "", "is repeated"),
        ("extensions: {\n", 2, "", "YAML"),
        ("a: b: c\n", 1, "", "YAML"),
        (b"extensions: \xff", 1, "", "UTF-8"),
        ("", 0, "", "extensions"),
        ("5", 0, "", "extensions"),
        ("x: !!python/object:os.system {}\n", 1, "", "YAML"),
        ("[" * 3000, 0, "", "YAML"),
        ("extensions: !!bool x", 0, "", "the type of its tag"),
        ("extensions: !!timestamp x", 0, "", "the type of its tag"),
        ("extensions: !!int ''", 0, "", "the type of its tag"),
    ],
)
def test_mistakes_are_reported_with_their_line_and_key(
    tmp_path: Path, text: str | bytes, line: int, key: str, message: str
) -> None:
    error = read_error(tmp_path, text)
    assert message in error.message
    assert line in (0, error.evidence.line) and (not key or error.evidence.key == key)


# A file of nexo with keys that exthost does not have.
NEXO_FILE = """
schema_version: 2
extensions:
  search_paths: [./extensions]
  transport_defaults:
    stdio: {handshake_timeout_ms: 5000, call_timeout_ms: 1500, shutdown_grace_ms: 250, later: x}
    nats: {handshake_timeout_ms: 10000, subject_prefix: ext}
  doctor: {interval_secs: 5}
  entries: {weather: {enabled: true}}
"""


@shows("nexo-disc-12")
def test_a_file_of_nexo_is_read_and_keys_without_effect_are_noted(
    tmp_path: Path,
) -> None:
    config = read_text(tmp_path, NEXO_FILE)
    limits = config.defaults.limits
    assert (limits.handshake, limits.call, limits.stop) == (5, 1.5, 0.25)  # in seconds
    assert config.discovery == DiscoverySettings(
        search_paths=("./extensions",), prefers_working_folder=True
    )
    notes = "\n".join(config.notes)
    for key in ("schema_version", "doctor", "entries", "nats", "stdio.later"):
        assert key in notes
    assert len(config.notes) == 5  # "stdio.later" is an unknown key of a known table


@shows("nexo-disc-12")
def test_keys_of_a_later_version_are_noted_with_their_place(tmp_path: Path) -> None:
    text = "telemetry: {x: 1}\nextensions:\n  quarantine: true\n  watch: {enabled: true, poll: 5}\n"
    config = read_text(tmp_path, text)
    assert config.discovery is not None and config.discovery.watch.enabled
    keys = ("telemetry", "extensions.quarantine", "extensions.watch.poll")
    for key, note in zip(keys, config.notes, strict=True):
        assert key in note
    key_without_effect = "X0161"
    diagnostics = [
        item for item in find_extensions(config).diagnostics if item.code == key_without_effect
    ]
    assert [item.level for item in diagnostics] == ["warning"] * 3


@shows("nexo-disc-12")
@pytest.mark.parametrize(
    "text",
    [
        "extensions: {transport_defaults: 5}",
        "extensions: {transport_defaults: {stdio: 5}}",
        "extensions: {transport_defaults: {stdio: {call_timeout_ms: soon}}}",
        "extensions: {transport_defaults: {stdio: {call_timeout_ms: 0}}}",
    ],
)
def test_invalid_limits_of_nexo_are_errors(tmp_path: Path, text: str) -> None:
    assert "transport_defaults" in read_error(tmp_path, text).evidence.key


@shows("nexo-disc-13")
def test_search_paths_are_below_the_working_folder_or_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    config = read_text(folder, "extensions: {search_paths: [./extensions]}")
    (warning,) = find_extensions(config).diagnostics
    assert str(tmp_path / "extensions") in warning.message
    assert str(folder / "extensions") in warning.message
    write_plugin(folder / "extensions" / "a", "beside")
    assert [spec.id for spec in find_extensions(config).specs] == ["beside"]
    write_plugin(tmp_path / "extensions" / "a", "working")
    assert [spec.id for spec in find_extensions(config).specs] == ["working"]


@shows("nexo-disc-11")
def test_disabled_discovery_searches_nothing(tmp_path: Path) -> None:
    # A search of a missing folder would give a diagnostic.
    config = read_text(tmp_path, "extensions: {enabled: false, search_paths: [/no/such]}")
    configured = find_extensions(config)
    assert configured.specs == () and configured.diagnostics == ()
    assert configured.report.scanned == 0


def test_nested_aliases_do_not_take_exponential_time(tmp_path: Path) -> None:
    """Each list has the one before it twice, so that the last one has 2**40 items."""
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    assert read_error(tmp_path, "\n".join([*lines, "extensions: {disabled: *a39}"])).code == "X0103"


def test_without_pyyaml_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def import_without_yaml(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", import_without_yaml)
    error = read_error(tmp_path, DEFAULTS)
    assert error.code == "X0130" and "exthost[yaml]" in error.help
