"""Tests of `print_diagnostics`, which prints problems of manifests and configs:

error: a/plugin.toml:3: no name
"""

import sys

import pytest

from exthost.config.discovery.report import Diagnostic
from exthost.faces.cli.diagnostic_lines import print_diagnostics

PROBLEM = Diagnostic(
    level="error", path="a/plugin.toml", message="no name", code="X0202", help="add one", line=3
)


def test_labels_are_coloured_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    lines: list[str] = []
    print_diagnostics([PROBLEM])
    print_diagnostics([PROBLEM], with_help=True, print_line=lines.append)
    printed = capsys.readouterr().err
    assert printed.startswith("\x1b[") and printed.endswith("a/plugin.toml:3: no name\n")
    assert lines == ["error: a/plugin.toml:3: no name", "  fix: add one"]
