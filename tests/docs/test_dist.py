"""Tests of the packages as users install them: they can be built and installed, and their metadata
agrees with the README, the Makefile and the constraints."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import exthost_sdk._version
import pytest

import exthost

ROOT = Path(__file__).parents[2]
FRAMEWORKS = {"pydantic-ai", "langchain", "openai-agents", "smolagents", "fastmcp"}


@pytest.mark.more  # it takes most of a minute: it installs packages from an index
def test_the_built_packages_can_be_installed_and_work(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    for folder in (ROOT, ROOT / "sdk"):
        subprocess.run(build, cwd=folder, check=True, capture_output=True, timeout=100)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "msgspec"]
    downloaded = subprocess.run(
        [*download, "-d", str(tmp_path / "x")], capture_output=True, check=False
    )
    if downloaded.returncode != 0:
        pytest.skip("the package index cannot be reached, so packages cannot be installed")
    env_without_pythonpath = dict(os.environ)
    env_without_pythonpath.pop("PYTHONPATH", None)
    result = subprocess.run(
        [sys.executable, "scripts/check_dist.py", "--dist", str(tmp_path), sys.executable],
        cwd=ROOT,
        env=env_without_pythonpath,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(" works on Python ") == 2  # the wheel and the source package
    assert "works alone" in result.stdout  # the wheel of the SDK


def test_both_packages_have_the_same_version() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert exthost_sdk._version.__version__ == exthost.__version__
    assert f"exthost-sdk=={exthost.__version__}" in dependencies


def test_the_readme_has_a_row_for_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "README.md").read_text().partition("| extra | for |")[2].partition("\n\n")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines() if "`" in row]
    extras = re.findall(r"`([\w-]+)`", " ".join(first_cells))
    assert sorted(extras) == sorted(project["optional-dependencies"])


def test_the_first_page_shows_how_to_install() -> None:
    install = "pip install ./sdk ."
    assert f"`{install}`" in (ROOT / "README.md").read_text()
    assert f"\n{install}\n" in (ROOT / "docs" / "index.md").read_text()


def test_the_classifiers_name_every_tested_python() -> None:
    [versions] = re.findall(r"^PYTHONS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for file in (ROOT / "pyproject.toml", ROOT / "sdk" / "pyproject.toml"):
        classifiers = tomllib.loads(file.read_text())["project"]["classifiers"]
        for version in versions.split():
            assert f"Programming Language :: Python :: {version}" in classifiers


def test_the_constraints_pin_every_dependency_and_name_no_index() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = [*project["project"]["dependencies"]]
    for extra, packages in project["project"]["optional-dependencies"].items():
        if extra not in FRAMEWORKS:  # tested with several releases, so not pinned to one
            requirements += packages
    for group in ("test", "docs"):
        requirements += project["dependency-groups"][group]
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text and "--" not in text
    pinned = {line.partition("==")[0] for line in text.splitlines()}
    for requirement in requirements:
        name = re.split(r"[\[><=!~;\s]", requirement)[0].lower().replace("_", "-")
        assert name in pinned or name in ("exthost", "exthost-sdk"), (
            f"{name}: run `make constraints`"
        )
