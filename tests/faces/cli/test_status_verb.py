"""Tests of what `exthost status` prints about connections that a sandbox refused."""

from pathlib import Path
from typing import Any

import pytest

from exthost.faces.cli import status
from tests.faces.cli.cli_process import run_inside


def test_a_refused_connection_is_shown_with_its_count_and_the_entry_that_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row: dict[str, Any] = {
        "id": "a",
        **dict.fromkeys(("dialect", "state", "health"), ""),
        **dict.fromkeys(("uptime", "restarts", "calls", "failed"), 0),
        "processes": [],
        "last_error": None,
        "stats": {"refused": {"b.com:443": 1, "10.0.0.1:80": 3}},
        "missing_network_entries": {"b.com:443": "b.com"},
    }
    host = {"pid": 1, "uptime": 0, "ending": False}
    report = {"extensions": [row], "host": host, "clients": []}
    monkeypatch.setattr(status, "ask", lambda *_, **__: report)
    lines = run_inside("status", cwd=tmp_path).stderr.splitlines()
    assert (
        'a: 1 connection to b.com:443 refused; to allow it, add "b.com" to permissions.network'
        in lines
    )
    assert "a: 3 connections to 10.0.0.1:80 refused" in lines
