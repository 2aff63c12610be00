"""The documentation site (`make docs`) builds without warnings, has a page for each file in docs/,
and loads nothing from other sites."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.more  # needs mkdocs-material: make test-more installs it
def test_the_site_builds_in_strict_mode(tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: make docs")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        html = tmp_path / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert html.exists(), page
    front_page = (tmp_path / "index.html").read_text()
    assert "fonts.googleapis" not in front_page and "unpkg.com" not in front_page
