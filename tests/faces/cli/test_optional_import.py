"""Tests of `import_optional`, which imports a module of exthost that needs an optional package.

If the package is missing, the error has the command that installs it (`pip install
'exthost[otel]'`). Any other import error is a bug, and must not be hidden by that advice.
"""

import sys
from pathlib import Path

import pytest

from exthost.errors import ConfigError
from exthost.faces.cli.optional_import import import_optional


def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Write a module with this text, which `import_module` can then import."""
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)


def import_module(module: str) -> object:
    return import_optional(module, code="X0168", feature="OpenTelemetry", extra="otel")


def test_a_missing_package_is_reported_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path, monkeypatch, "uses_missing_package", "import no_such_package_at_all")
    with pytest.raises(ConfigError, match="no_such_package_at_all is missing") as caught:
        import_module("uses_missing_package")
    assert caught.value.help == "pip install 'exthost[otel]'"


@pytest.mark.parametrize(
    "text", ["import exthost.no_such_module", "from exthost.errors import no_such_name"]
)
def test_an_import_error_of_exthost_itself_is_not_reported_as_a_missing_package(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path, monkeypatch, "uses_broken_import", text)
    with pytest.raises(ImportError, match="no_such"):
        import_module("uses_broken_import")
