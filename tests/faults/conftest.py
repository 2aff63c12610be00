"""Says at the end of a run which trials were made, and gives trials a folder."""

from pathlib import Path

import pytest

from tests.faults.trials import summary


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in summary():
        terminalreporter.write_line(line)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
