"""Tests of cigen plugins on the command line: calls, files that are written, and exit codes.

cigen is a dialect (protocol) whose plugins generate the configuration of a build service from a
schema. Their tools are `plan` and `generate`. The result of `generate` is a list of fragments of
files, which `exthost call … --write FOLDER` writes. Most tests run `cigen_child.py`, which does
what a test tells it in the variable `do` of the schema.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.requirements import shows
from tests.faces.cli.cli_process import run_inside as run
from tests.faces.cli.test_cli import run_json

ROOT = Path(__file__).parents[3]
RUST = ROOT / "examples" / "cigen" / "rust"
CHILD = [sys.executable, str(ROOT / "tests" / "extensions" / "cigen_child.py")]
DEMO = ROOT / "examples" / "cigen" / "cigen-provider-demo"
BUILD_SECONDS = 600
# The arguments of a call of `plan` or `generate`.
SCHEMA = '{"schema": {"version": "1", "jobs": [{"id": "build"}]}}'


def behaviour_args(behaviour: str, **variables: str) -> str:
    """Return the value of --args that makes cigen_child.py behave in this way."""
    return json.dumps({"schema": {"variables": {"do": behaviour, **variables}}})


# cigen_child.py does not answer in these dialects: it waits for the rest of a frame.
SILENT_IN = ("mcp", "synaps", "morphir", "nexo")


def call(*arguments: str, flags: tuple[str, ...] = (), code: int = 0) -> Any:
    """Run `exthost call` with cigen_child.py; return the JSON that it prints."""
    return run_json("call", *arguments, "--dialect", "cigen", "--", *CHILD, *flags, code=code)


def test_generate_detects_the_dialect_and_sends_the_plan_first() -> None:
    result = run_json("call", "generate", "--args", SCHEMA, "--", *CHILD, silent_in=SILENT_IN)
    received = json.loads(result["fragments"][0]["content"])["heard"]
    assert [kind for kind, _ in received] == ["Hello", "PlanRequest", "GenerateRequest"]
    assert received[2][1]["graph"] == [{"id": "build", "type": "RESOURCE_TYPE_JOB"}]


@shows("cigen-call-11")
def test_the_error_of_a_plugin_that_expects_no_plan_names_the_option() -> None:
    arguments = ("call", "generate", "--args", SCHEMA, "--dialect", "cigen", "--json")
    completed = run(*arguments, "--", *CHILD, "alone")
    assert completed.returncode == 7
    error = json.loads(completed.stdout)["error"]
    assert error["code"] == "X0622" and "--option plan=false" in error["help"]
    completed = run(*arguments, "--option", "plan=false", "--", *CHILD, "alone")
    result = json.loads(completed.stdout)
    received = json.loads(result["fragments"][0]["content"])["heard"]
    assert [kind for kind, _ in received] == ["Hello", "GenerateRequest"]


def test_options_of_a_dialect_need_one_named_extension() -> None:
    result = run("call", "generate", "--option", "plan=false", "--json")
    assert result.returncode == 2 and "--option" in result.stdout


def test_cigen_is_tried_first_for_a_program_with_the_name_of_a_plugin(tmp_path: Path) -> None:
    program = write_plugin(tmp_path / "cigen-lang-x")
    result = run("inspect", "--json", "--", str(program))
    assert json.loads(result.stdout)["dialect"] == "cigen"
    assert result.stderr.count("dialect: cigen") == 1


def write_plugin(path: Path, *flags: str) -> Path:
    """Write a shell script that runs cigen_child.py with these flags."""
    command = " ".join(f"'{word}'" for word in (*CHILD, *flags))
    path.write_text(f"#!/bin/sh\nexec {command}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@shows("cigen-stop-02")
def test_the_error_for_a_plugin_that_dies_during_a_call_has_exit_code_7_and_its_stderr() -> None:
    error = call("generate", "--args", behaviour_args("die"), code=7)["error"]
    assert error["evidence"]["exit"] == "exited with 3"
    assert error["evidence"]["stderr"] == ["the plugin broke"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "flags", "exit_code", "error_code"),
    [
        (["generate"], ("protocol=0",), 5, "X0520"),
        (["generate"], ("protocol=2",), 5, "X0520"),
        (["generate"], ("name=",), 5, "X0521"),
        (["generate"], ("capabilities=github",), 5, "X0522"),
        (["generate", "--capability", "provider:x"], ("capabilities=provider:y",), 5, "X0523"),
        (["generate", "--args", behaviour_args("garble")], (), 7, "X0620"),
        (["generate", "--args", behaviour_args("die-inside")], (), 7, "X1001"),
        (["generate", "--args", behaviour_args("plan:fail")], (), 1, "X0720"),
        (["generate", "--args", behaviour_args("hang"), "--timeout", "200ms"], (), 6, "X0801"),
        (["generate", "nosuchfield=1"], (), 2, "X1320"),
        (["detect", "--method"], (), 2, "X1321"),
        (["detect"], (), 2, "X1202"),
    ],
)
def test_each_failure_has_its_error_code_and_exit_code(
    arguments: list[str], flags: tuple[str, ...], exit_code: int, error_code: str
) -> None:
    assert call(*arguments, flags=flags, code=exit_code)["error"]["code"] == error_code


def test_all_diagnostics_are_in_the_evidence_of_a_failed_call() -> None:
    error = call("generate", "--args", behaviour_args("plan:fail"), code=1)["error"]
    diagnostic_titles = [
        diagnostic["title"] for diagnostic in error["evidence"]["answer"]["data"]["diagnostics"]
    ]
    assert diagnostic_titles == ["bad plan", "and a warning"]


@shows("cigen-files-05")
def test_files_are_written_only_with_the_write_option(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fragments = [
        {"path": ".ci/a.yml", "content": "a: 1\n", "strategy": "MERGE_STRATEGY_MERGE"},
        {"path": ".ci/a.yml", "content": "b: 2\n", "strategy": "MERGE_STRATEGY_MERGE"},
        {"path": "log", "content": "2", "strategy": "MERGE_STRATEGY_APPEND", "order": 2},
        {"path": "log", "content": "1", "strategy": "MERGE_STRATEGY_APPEND", "order": -1},
    ]
    args = behaviour_args("fragments", fragments=json.dumps(fragments))
    result = call("generate", "--args", args)
    paths = [fragment["path"] for fragment in result["fragments"]]
    assert paths == [".ci/a.yml", ".ci/a.yml", "log", "log"]
    assert not out.exists()
    assert call("generate", "--args", args, "--write", str(out)) == result
    assert (out / ".ci" / "a.yml").read_text() == "a: 1\nb: 2\n"
    assert (out / "log").read_text() == "12"


@shows("cigen-files-04")
@pytest.mark.parametrize("path", ["/tmp/escaped", "../escaped", "link/escaped"])
def test_a_fragment_outside_of_the_folder_exits_with_4_and_nothing_is_written(
    path: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "link").symlink_to(tmp_path)
    fragments = [{"path": "good", "content": "1"}, {"path": path, "content": "2"}]
    args = behaviour_args("fragments", fragments=json.dumps(fragments))
    error = call("generate", "--args", args, "--write", str(out), code=4)["error"]
    assert error["code"] == "X0320" and path in error["message"] and error["extension"]
    assert [item.name for item in tmp_path.rglob("*")] == ["out", "link"]


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize(
    "path", ["more/toy/x.py", "~later/x", "tool.py", "my.toml", "extensions/x", "sub/plugin.toml"]
)
def test_files_that_a_config_runs_or_searches_need_write_protected(
    path: str, tmp_path: Path
) -> None:
    entry = """
    [[extensions]]
    name = "tool"
    source = { type = "process", command = "python3", args = ["tool.py"] }
    """
    search = '[discovery]\nsearch_paths = ["more", "./~later", "extensions"]\n'
    (tmp_path / "my.toml").write_text(entry + search)
    (tmp_path / "tool.py").write_text("")
    fragments = [{"path": "good", "content": "1"}, {"path": path, "content": "2"}]
    args = behaviour_args("fragments", fragments=json.dumps(fragments))
    arguments = ("call", "generate", "--args", args, "--config", "my.toml", "--write", ".")
    command = ("--json", "--dialect", "cigen", "--", *CHILD)
    result = run(*arguments, *command, cwd=tmp_path)
    assert result.returncode == 4 and path in result.stdout and not (tmp_path / "good").exists()
    result = run(*arguments, "--write-protected", path, *command, cwd=tmp_path)
    assert result.returncode == 0 and (tmp_path / path).read_text() == "2"


def test_without_a_config_the_default_search_path_is_protected(tmp_path: Path) -> None:
    args = behaviour_args(
        "fragments", fragments=json.dumps([{"path": "extensions/x.py", "content": "2"}])
    )
    arguments = ("call", "generate", "--args", args, "--write", ".", "--json", "--dialect", "cigen")
    assert run(*arguments, "--", *CHILD, cwd=tmp_path).returncode == 4


@pytest.mark.parametrize(("option", "code"), [("--write", "X1325"), ("--capability", "X1324")])
def test_options_that_a_dialect_does_not_have_are_refused(option: str, code: str) -> None:
    text = str(ROOT / "examples" / "morphir" / "text.py")
    arguments = ["call", "echo", option, "a:b", "--dialect", "morphir"]
    assert run_json(*arguments, "--", sys.executable, text, code=2)["error"]["code"] == code


@pytest.mark.more
@shows("cigen-load-10")
def test_plugins_are_found_in_a_folder_by_their_names(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    write_plugin(plugins / "cigen-provider-a", "name=provider/a", "capabilities=provider:a")
    write_plugin(plugins / "cigen-lang-b", "name=lang/b", "capabilities=lang:b")
    write_plugin(plugins / "cigen-other")
    (plugins / "cigen-provider-text").write_text("not executable")
    (tmp_path / "exthost.toml").write_text('[discovery]\nsearch_paths = ["plugins"]\n')
    listing = run_json("list", cwd=tmp_path)
    assert [
        (extension["id"], extension["dialect"], extension["state"])
        for extension in listing["extensions"]
    ] == [
        ("cigen-lang-b", "cigen", "admitted"),
        ("cigen-provider-a", "cigen", "admitted"),
    ]
    assert listing["diagnostics"] == []
    arguments = ["call", "plan", "--args", SCHEMA]
    for option in (["--capability", "lang:*"], ["--capability", "provider:a"]):
        assert run_json(*arguments, *option, cwd=tmp_path)["resources"][0]["id"] == "build"
    assert run_json(*arguments, code=2, cwd=tmp_path)["error"]["code"] == "X1204"
    named = ["call", "provider/a:plan", "--args", SCHEMA]
    assert run_json(*named, cwd=tmp_path)["resources"][0]["id"] == "build"
    assert run_json("inspect", "plugins/cigen-lang-b", cwd=tmp_path)["name"] == "lang/b"


@shows("cigen-load-10")
def test_plugins_are_found_on_path_by_search_and_by_bare_name(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    (programs / "deeper").mkdir(parents=True)
    write_plugin(programs / "cigen-provider-a", "name=provider/a")
    write_plugin(programs / "deeper" / "cigen-provider-b", "name=provider/b")
    # Package managers install programs as links to files in other folders.
    write_plugin(tmp_path / "installed", "name=provider/c")
    (programs / "cigen-provider-c").symlink_to(tmp_path / "installed")
    (programs / "linked").symlink_to(programs / "deeper")
    (tmp_path / "exthost.toml").write_text(
        '[discovery]\nsearch_paths = ["$PATH"]\n\n'
        '[[extensions]]\nname = "bare"\ndialect = "cigen"\n'
        'source = { type = "process", command = "cigen-provider-a" }\n'
    )
    env = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    listing = json.loads(run("list", "--json", cwd=tmp_path, env=env).stdout)
    found_ids = [extension["id"] for extension in listing["extensions"]]
    assert found_ids == ["bare", "cigen-provider-a", "cigen-provider-c"]
    result = run("inspect", "cigen-provider-c", "--json", cwd=tmp_path, env=env)
    assert json.loads(result.stdout)["name"] == "provider/c"
    result = run("inspect", "bare", "--json", cwd=tmp_path, env=env)
    assert json.loads(result.stdout)["name"] == "provider/a"


def test_inspect_shows_name_capabilities_and_conflicts() -> None:
    report = run_json("inspect", "--dialect", "cigen", "--", sys.executable, str(DEMO))
    assert (report["name"], report["version"]) == ("provider/demo", "0.1.0")
    assert report["capabilities"] == ["provider:demo"]
    assert report["warnings"] == [] and report["extra"]["conflicts_with"] == ["provider:*"]
    assert [tool["tool"] for tool in report["tools"]] == ["plan", "generate"]


@pytest.fixture(scope="session")
def rust_plugin() -> str:
    """The program of the Rust example. It is built here unless `make test-more` has built it."""
    if shutil.which("cargo") is None:
        pytest.skip("there is no Rust toolchain: the Rust example is not tested")
    if _cargo("fetch").returncode != 0:
        pytest.skip("the crates of the Rust example are missing: run cargo fetch in its folder")
    built = _cargo("build")
    assert built.returncode == 0, built.stderr
    return str(RUST / "target" / "debug" / "cigen-provider-rust")


def _cargo(verb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cargo", verb, "--locked", "--offline"],
        cwd=RUST,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )


@pytest.fixture(scope="session", params=["python", pytest.param("rust", marks=pytest.mark.more)])
def command(request: pytest.FixtureRequest) -> list[str]:
    """The command of an example plugin. Its scope is the session, because a build can take longer
    than the time limit of a test."""
    if request.param == "python":
        return [sys.executable, str(DEMO)]
    return [request.getfixturevalue("rust_plugin")]


def test_the_example_plugins_plan_and_generate(command: list[str]) -> None:
    result = run_json("call", "generate", "--args", SCHEMA, "--", *command, silent_in=SILENT_IN)
    assert result["fragments"][0]["content"] == "jobs:\n  build: {}\n"
