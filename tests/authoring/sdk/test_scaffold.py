"""Every project that `exthost new` creates passes its own test and works in a host unchanged.

A project is made for a dialect (the protocol that it speaks) and a template (what the extension
does, such as "tool" or "hook"), or for a dialect and another language, such as "go" or "sh".
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from exthost_sdk.dialects import built_in_names, load_dialect
from exthost_sdk.errors import SdkUsageError
from exthost_sdk.languages import LANGUAGES, WORKFLOW, language_files
from exthost_sdk.scaffold import PROGRAM, create, project_files

from tests.authoring.sdk.programs import LONG_SECONDS
from tests.faces.cli.cli_process import run_inside

DIALECTS = built_in_names()
PROJECTS = [
    (template, dialect) for dialect in DIALECTS for template in load_dialect(dialect).templates
]
# The test of each project takes seconds, so `make test` runs only two of them.
PROJECTS_WITH_MARKS = [
    project
    if project in (("tool", "mcp"), ("hook", "synaps"))
    else pytest.param(*project, marks=pytest.mark.more)
    for project in PROJECTS
]

ROOT = Path(__file__).parents[3]

# The time for a first build on a busy machine.
BUILD_SECONDS = 200.0

ENVIRONMENT = os.environ | {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
}


@pytest.mark.sampled
@pytest.mark.parametrize(("template", "dialect"), PROJECTS_WITH_MARKS)
def test_a_new_extension_passes_its_test_and_can_be_inspected(
    template: str, dialect: str, tmp_path: Path
) -> None:
    folder = tmp_path / "fresh"
    create(str(folder), dialect, template)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=LONG_SECONDS, check=False
    )
    assert result.returncode == 0, result.stdout
    # The line of the README is `exthost inspect TARGET  # a comment`.
    [line] = [item for item in (folder / "README.md").read_text().splitlines() if "inspect" in item]
    target = line.partition("#")[0].split()[2:]
    inspection = run_inside("inspect", *target, cwd=folder, env=ENVIRONMENT)
    assert inspection.returncode == 0, inspection.stderr
    if template == "tool":
        assert "shout" in inspection.stdout and "count" in inspection.stdout


@pytest.mark.more  # builds a wheel, and installs it and pytest into a new environment
def test_the_commands_of_the_readme_work_in_a_new_environment(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    create(str(folder), "synaps", "tool")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    for source in (ROOT, ROOT / "sdk"):
        subprocess.run(build, cwd=source, capture_output=True, timeout=BUILD_SECONDS, check=True)
    lines = (folder / "README.md").read_text().splitlines()
    commands = [line for line in lines if line.startswith("    ") and "exthost dev" not in line]
    # The environment first: the other commands run in it.
    first = next(number for number, line in enumerate(commands) if "-m venv" in line)
    commands = [*commands[first:], *commands[:first]]
    assert len(commands) >= 5 and "pip install" in commands[1]
    # The package is not published yet, so pip finds it in the folder of its wheel.
    names = [name for name in os.environ if not name.startswith(("PYTHON", "VIRTUAL_ENV"))]
    environ = {name: os.environ[name] for name in names} | {"PIP_FIND_LINKS": str(tmp_path)}
    result = subprocess.run(
        ["sh", "-ec", "\n".join(commands)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if "No matching distribution found for msgspec" in result.stderr:
        pytest.skip("pip reaches no package index")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout and "shout" in result.stdout


@pytest.mark.parametrize(("template", "dialect"), PROJECTS)
def test_the_readme_names_the_verbs_and_the_packages_to_install(
    template: str, dialect: str
) -> None:
    files = project_files("fresh", dialect, template)
    for words in ("exthost inspect ", "exthost check ", "exthost dev "):
        assert words in files["README.md"]
    assert ("exthost pack" in files["README.md"]) is (dialect == "mcp")
    before_its_test = files["README.md"].partition("python3 -m pytest")[0]
    assert 'pip install -e ".[test]"' in before_its_test


@pytest.mark.parametrize(("template", "dialect"), PROJECTS)
def test_a_python_project_is_a_package_with_a_command(template: str, dialect: str) -> None:
    files = project_files("fresh-tool", dialect, template)
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["scripts"] == {"fresh-tool": "fresh_tool_extension:main"}
    extra = "[cigen]" if dialect == "cigen" else ""
    assert project["dependencies"] == [f"exthost-sdk{extra}"]
    assert '__version__ = "0.1.0"' in files[PROGRAM] and "def main()" in files[PROGRAM]
    assert "exthost check" in files[WORKFLOW] and "dist" in files[".gitignore"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_project_names_the_program_that_its_build_writes(language: str, dialect: str) -> None:
    files = language_files("fresh", dialect, language)
    assert "sh test.sh" in files[WORKFLOW]
    manifest = files[load_dialect(dialect).manifest_file or "exthost.toml"]
    command = LANGUAGES[language].command[0].format(name="fresh")
    assert f'"{command}"' in manifest and "run" not in manifest.split()
    if language == "typescript":
        package = json.loads(files["package.json"])
        assert package["bin"] == {"fresh": "extension.js"} and '"extension.js"' in manifest
        assert files["extension.ts"].startswith("#!/usr/bin/env node\n")
        assert "this needs Node 20 or later" in files["extension.ts"]


@pytest.mark.parametrize(("template", "dialect"), PROJECTS)
def test_the_program_is_short_and_formatted(template: str, dialect: str, tmp_path: Path) -> None:
    files = project_files("fresh", dialect, template)
    assert len(files[PROGRAM].splitlines()) <= 40
    for name in (PROGRAM, "test_extension.py"):
        path = tmp_path / name
        path.write_text(files[name])
    ruff = [str(Path(sys.executable).with_name("ruff")), "format", "--check", str(tmp_path)]
    result = subprocess.run(ruff, capture_output=True, text=True, timeout=LONG_SECONDS, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("name", "dialect", "template", "message"),
    [
        ("Fresh", "mcp", "tool", "is not a name"),
        ("fresh", "esperanto", "tool", "there is no dialect"),
        ("fresh", "mcp", "poem", "there is no template"),
        ("fresh", "mcp", "hook", "its templates are: tool"),
    ],
)
def test_an_invalid_project_is_refused(
    name: str, dialect: str, template: str, message: str
) -> None:
    with pytest.raises(SdkUsageError, match=message):
        project_files(name, dialect, template)


def test_an_existing_folder_is_not_changed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "exthost.sdk", "new", "fresh", "--dialect", "nexo"]
    first, second = (
        subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG_SECONDS, check=False
        )
        for _ in range(2)
    )
    assert first.returncode == 0 and "fresh/extension.py" in first.stdout
    assert second.returncode == 2 and "already exists" in second.stderr


# Where `make node` installs the compiler of TypeScript.
NODE_MODULES = Path(sys.prefix, "node", "node_modules")

NEEDED_PROGRAMS = {"typescript": "npm", "go": "go", "rust": "cargo", "sh": "jq"}


def provide_typescript(folder: Path) -> Path:
    """Let the projects in a folder use the installed compiler of TypeScript. Return a folder with
    an `npm` that downloads nothing, for PATH: its `npm install` does nothing."""
    npm = shutil.which("npm")
    if npm is None or not (NODE_MODULES / "typescript").exists():
        pytest.skip("npm or TypeScript is not installed: `make node` installs TypeScript")
    (folder / "node_modules").symlink_to(NODE_MODULES)
    programs = folder / "offline_npm"
    programs.mkdir()
    (programs / "npm").write_text(f'#!/bin/sh\ntest "$1" = install || exec {npm} "$@"\n')
    (programs / "npm").chmod(0o755)
    return programs


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_program_in_another_language_is_short(language: str, dialect: str) -> None:
    files = language_files("fresh", dialect, language)
    program = files[LANGUAGES[language].program]
    max_lines = 120 if dialect == "cigen" else 60  # not every language has a protobuf library
    assert len(program.splitlines()) <= max_lines and "fresh" in program
    assert {"test.sh", "README.md"} <= files.keys()


@pytest.fixture(scope="session")
def rust_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a build folder that all Rust projects share, so that crates are compiled once."""
    return tmp_path_factory.mktemp("rust-target")


@pytest.mark.more
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_project_in_another_language_passes_its_test(
    language: str, dialect: str, tmp_path: Path, rust_target: Path
) -> None:
    if shutil.which(NEEDED_PROGRAMS[language]) is None:
        pytest.skip(f"{NEEDED_PROGRAMS[language]} is not installed")
    search_path = os.environ["PATH"]
    if language == "typescript":
        search_path = os.pathsep.join([str(provide_typescript(tmp_path)), search_path])
    create(str(tmp_path / "fresh"), dialect, language=language)
    if language == "rust":
        (tmp_path / "fresh" / "target").symlink_to(rust_target)
    programs = tmp_path / "bin"
    programs.mkdir()
    exthost = programs / "exthost"
    exthost.write_text(f'#!/bin/sh\nexec {sys.executable} -m exthost "$@"\n')
    exthost.chmod(0o755)
    environment = os.environ | {
        "PATH": os.pathsep.join([str(programs), search_path]),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    result = subprocess.run(
        ["sh", "fresh/test.sh"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if result.returncode != 0 and "failed to download" in result.stderr:
        pytest.skip("the registry of crates cannot be reached")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.more  # compiles TypeScript
def test_a_program_in_typescript_reports_a_node_that_is_too_old(tmp_path: Path) -> None:
    programs = provide_typescript(tmp_path)
    old_node = tmp_path / "old_node.cjs"
    old_node.write_text('Object.defineProperty(process.versions, "node", { value: "18.20.0" });')
    create(str(tmp_path / "fresh"), "mcp", language="typescript")
    build = [str(programs / "npm"), "run", "--silent", "build"]
    subprocess.run(build, cwd=tmp_path / "fresh", timeout=BUILD_SECONDS, check=True)
    result = subprocess.run(
        ["node", "--require", str(old_node), "extension.js"],
        cwd=tmp_path / "fresh",
        input="",
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert result.returncode == 1
    assert "this needs Node 20 or later, and Node 18.20.0 runs it" in result.stderr


def test_other_languages_have_only_the_default_template_of_the_dialect(tmp_path: Path) -> None:
    with pytest.raises(SdkUsageError, match="no place for a tool"):
        create(str(tmp_path / "fresh"), "cigen", "tool", "go")
    with pytest.raises(SdkUsageError, match="no hook"):
        create(str(tmp_path / "fresh"), "nexo", "hook", "go")


def test_the_default_template_of_cigen_is_a_generator(tmp_path: Path) -> None:
    result = run_inside("new", "made", "--dialect", "cigen", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "@ext.generate" in (tmp_path / "made" / "extension.py").read_text()


FORMATTERS = {"go": ("gofmt", "-l"), "rust": ("rustfmt", "--edition", "2021", "--check")}


@pytest.mark.more
@pytest.mark.parametrize("language", FORMATTERS)
def test_a_new_program_is_formatted(language: str, tmp_path: Path) -> None:
    formatter = shutil.which(FORMATTERS[language][0])
    if formatter is None:
        pytest.skip(f"{FORMATTERS[language][0]} is not installed")
    programs = []
    for dialect in DIALECTS:
        text = language_files("fresh", dialect, language)[LANGUAGES[language].program]
        path = tmp_path / f"{dialect}{Path(LANGUAGES[language].program).suffix}"
        path.write_text(text)
        programs.append(str(path))
    command = [formatter, *FORMATTERS[language][1:], *programs]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=LONG_SECONDS, check=False
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr
