"""The fixture `folder` of the fault tests: where a test writes its files, manifests and logs."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
