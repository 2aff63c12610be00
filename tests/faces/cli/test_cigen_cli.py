"""cigen from the command line: the lines that people will type, and what they exit with."""

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
SCHEMA = '{"schema": {"version": "1", "jobs": [{"id": "build"}]}}'


def asking(verb: str, **variables: str) -> str:
    return json.dumps({"schema": {"variables": {"do": verb, **variables}}})


# The test's child gives no answer to these: it waits for the rest of a frame.
SILENT_IN = ("mcp", "synaps", "morphir", "nexo")


def call(*words: str, flags: tuple[str, ...] = (), code: int = 0) -> Any:
    return run_json("call", *words, "--dialect", "cigen", "--", *CHILD, *flags, code=code)


def test_generate_finds_out_the_dialect_and_sends_the_plan_first() -> None:
    result = run_json("call", "generate", "--args", SCHEMA, "--", *CHILD, silent_in=SILENT_IN)
    received = json.loads(result["fragments"][0]["content"])["heard"]
    assert [kind for kind, _ in received] == ["Hello", "PlanRequest", "GenerateRequest"]
    assert received[2][1]["graph"] == [{"id": "build", "type": "RESOURCE_TYPE_JOB"}]


@shows("cigen-call-11")
def test_a_plugin_that_expects_no_plan_is_noticed_and_an_option_helps() -> None:
    words = ("call", "generate", "--args", SCHEMA, "--dialect", "cigen", "--json")
    done = run(*words, "--", *CHILD, "alone")
    assert done.returncode == 7
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "X0622" and "--option plan=false" in error["help"]
    done = run(*words, "--option", "plan=false", "--", *CHILD, "alone")
    result = json.loads(done.stdout)
    received = json.loads(result["fragments"][0]["content"])["heard"]
    assert [kind for kind, _ in received] == ["Hello", "GenerateRequest"]


def test_an_option_is_for_one_extension() -> None:
    done = run("call", "generate", "--option", "plan=false", "--json")
    assert done.returncode == 2 and "--option" in done.stdout


def test_a_program_named_as_a_plugin_is_tried_as_one_first(tmp_path: Path) -> None:
    program = script(tmp_path / "cigen-lang-x")
    done = run("inspect", "--json", "--", str(program))
    assert json.loads(done.stdout)["dialect"] == "cigen"
    assert done.stderr.count("dialect: cigen") == 1


def script(path: Path, *flags: str) -> Path:
    words = " ".join(f"'{word}'" for word in (*CHILD, *flags))
    path.write_text(f"#!/bin/sh\nexec {words}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@shows("cigen-stop-02")
def test_a_plugin_that_is_killed_in_the_middle_exits_with_7_and_its_stderr() -> None:
    error = call("generate", "--args", asking("die"), code=7)["error"]
    assert error["evidence"]["exit"] == "exited with 3"
    assert error["evidence"]["stderr"] == ["the plugin broke"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("words", "flags", "exit_code", "error_code"),
    [
        (["generate"], ("protocol=0",), 5, "X0520"),
        (["generate"], ("protocol=2",), 5, "X0520"),
        (["generate"], ("name=",), 5, "X0521"),
        (["generate"], ("capabilities=github",), 5, "X0522"),
        (["generate", "--capability", "provider:x"], ("capabilities=provider:y",), 5, "X0523"),
        (["generate", "--args", asking("garble")], (), 7, "X0620"),
        (["generate", "--args", asking("die-inside")], (), 7, "X1001"),
        (["generate", "--args", asking("plan:fail")], (), 1, "X0720"),
        (["generate", "--args", asking("hang"), "--timeout", "200ms"], (), 6, "X0801"),
        (["generate", "nosuchfield=1"], (), 2, "X1320"),
        (["detect", "--method"], (), 2, "X1321"),
        (["detect"], (), 2, "X1202"),
    ],
)
def test_each_failure_has_its_code_and_its_exit(
    words: list[str], flags: tuple[str, ...], exit_code: int, error_code: str
) -> None:
    assert call(*words, flags=flags, code=exit_code)["error"]["code"] == error_code


def test_all_diagnostics_are_in_the_evidence_of_a_failed_call() -> None:
    error = call("generate", "--args", asking("plan:fail"), code=1)["error"]
    titles = [
        diagnostic["title"] for diagnostic in error["evidence"]["answer"]["data"]["diagnostics"]
    ]
    assert titles == ["bad plan", "and a warning"]


@shows("cigen-files-05")
def test_files_are_written_only_when_that_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    pieces = [
        {"path": ".ci/a.yml", "content": "a: 1\n", "strategy": "MERGE_STRATEGY_MERGE"},
        {"path": ".ci/a.yml", "content": "b: 2\n", "strategy": "MERGE_STRATEGY_MERGE"},
        {"path": "log", "content": "2", "strategy": "MERGE_STRATEGY_APPEND", "order": 2},
        {"path": "log", "content": "1", "strategy": "MERGE_STRATEGY_APPEND", "order": -1},
    ]
    args = asking("fragments", fragments=json.dumps(pieces))
    printed = call("generate", "--args", args)
    assert [fragment["path"] for fragment in printed["fragments"]] == [".ci/a.yml"] * 2 + [
        "log"
    ] * 2
    assert not out.exists()
    assert call("generate", "--args", args, "--write", str(out)) == printed
    assert (out / ".ci" / "a.yml").read_text() == "a: 1\nb: 2\n"
    assert (out / "log").read_text() == "12"


@shows("cigen-files-04")
@pytest.mark.parametrize("path", ["/tmp/escaped", "../escaped", "link/escaped"])
def test_a_fragment_that_leads_out_exits_with_4_and_nothing_is_written(
    path: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "link").symlink_to(tmp_path)
    pieces = [{"path": "good", "content": "1"}, {"path": path, "content": "2"}]
    args = asking("fragments", fragments=json.dumps(pieces))
    error = call("generate", "--args", args, "--write", str(out), code=4)["error"]
    assert error["code"] == "X0320" and path in error["message"] and error["extension"]
    assert [item.name for item in tmp_path.rglob("*")] == ["out", "link"]


@pytest.mark.parametrize(
    "path", ["more/toy/x.py", "~later/x", "tool.py", "my.toml", "extensions/x", "sub/plugin.toml"]
)
def test_files_that_a_config_runs_or_searches_are_written_only_if_named(
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
    pieces = [{"path": "good", "content": "1"}, {"path": path, "content": "2"}]
    args = asking("fragments", fragments=json.dumps(pieces))
    words = ("call", "generate", "--args", args, "--config", "my.toml", "--write", ".", "--json")
    command = ("--dialect", "cigen", "--", *CHILD)
    done = run(*words, *command, cwd=tmp_path)
    assert done.returncode == 4 and path in done.stdout and not (tmp_path / "good").exists()
    done = run(*words, "--write-protected", path, *command, cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / path).read_text() == "2"


def test_without_a_config_the_default_search_path_is_protected(tmp_path: Path) -> None:
    args = asking("fragments", fragments=json.dumps([{"path": "extensions/x.py", "content": "2"}]))
    words = ("call", "generate", "--args", args, "--write", ".", "--json", "--dialect", "cigen")
    assert run(*words, "--", *CHILD, cwd=tmp_path).returncode == 4


@pytest.mark.parametrize(("option", "code"), [("--write", "X1325"), ("--capability", "X1324")])
def test_options_that_mean_nothing_to_a_dialect_are_refused(option: str, code: str) -> None:
    text = str(ROOT / "examples" / "morphir" / "text.py")
    words = ["call", "echo", option, "a:b", "--dialect", "morphir"]
    assert run_json(*words, "--", sys.executable, text, code=2)["error"]["code"] == code


@shows("cigen-load-10")
def test_plugins_are_found_in_a_folder_by_their_names(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    script(plugins / "cigen-provider-a", "name=provider/a", "capabilities=provider:a")
    script(plugins / "cigen-lang-b", "name=lang/b", "capabilities=lang:b")
    script(plugins / "cigen-other")
    (plugins / "cigen-provider-text").write_text("not executable")
    (tmp_path / "exthost.toml").write_text('[discovery]\nsearch_paths = ["plugins"]\n')
    listed = run_json("list", cwd=tmp_path)
    assert [
        (extension["id"], extension["dialect"], extension["state"])
        for extension in listed["extensions"]
    ] == [
        ("cigen-lang-b", "cigen", "admitted"),
        ("cigen-provider-a", "cigen", "admitted"),
    ]
    assert listed["diagnostics"] == []
    words = ["call", "plan", "--args", SCHEMA]
    for chosen in (["--capability", "lang:*"], ["--capability", "provider:a"]):
        assert run_json(*words, *chosen, cwd=tmp_path)["resources"][0]["id"] == "build"
    assert run_json(*words, code=2, cwd=tmp_path)["error"]["code"] == "X1204"
    named = ["call", "provider/a:plan", "--args", SCHEMA]
    assert run_json(*named, cwd=tmp_path)["resources"][0]["id"] == "build"
    assert run_json("inspect", "plugins/cigen-lang-b", cwd=tmp_path)["name"] == "lang/b"


@shows("cigen-load-10")
def test_plugins_are_found_on_path_by_search_and_by_bare_name(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    (programs / "deeper").mkdir(parents=True)
    script(programs / "cigen-provider-a", "name=provider/a")
    script(programs / "deeper" / "cigen-provider-b", "name=provider/b")
    # As package managers install programs: a link to where they really are.
    script(tmp_path / "installed", "name=provider/c")
    (programs / "cigen-provider-c").symlink_to(tmp_path / "installed")
    (programs / "linked").symlink_to(programs / "deeper")
    (tmp_path / "exthost.toml").write_text(
        '[discovery]\nsearch_paths = ["$PATH"]\n\n'
        '[[extensions]]\nname = "bare"\ndialect = "cigen"\n'
        'source = { type = "process", command = "cigen-provider-a" }\n'
    )
    env = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    listed = json.loads(run("list", "--json", cwd=tmp_path, env=env).stdout)
    found = [extension["id"] for extension in listed["extensions"]]
    assert found == ["bare", "cigen-provider-a", "cigen-provider-c"]
    done = run("inspect", "cigen-provider-c", "--json", cwd=tmp_path, env=env)
    assert json.loads(done.stdout)["name"] == "provider/c"
    done = run("inspect", "bare", "--json", cwd=tmp_path, env=env)
    assert json.loads(done.stdout)["name"] == "provider/a"


def test_inspect_shows_name_capabilities_and_conflicts() -> None:
    report = run_json("inspect", "--dialect", "cigen", "--", sys.executable, str(DEMO))
    assert (report["name"], report["version"]) == ("provider/demo", "0.1.0")
    assert report["capabilities"] == ["provider:demo"]
    assert report["warnings"] == [] and report["extra"]["conflicts_with"] == ["provider:*"]
    assert [tool["tool"] for tool in report["tools"]] == ["plan", "generate"]


@pytest.fixture(scope="session")
def rust_plugin() -> str:
    """The Rust example. `make test-more` has built it; else it is built here."""
    if shutil.which("cargo") is None:
        pytest.skip("no Rust toolchain here: the Rust example is not tried")
    if _cargo("fetch").returncode != 0:
        pytest.skip("the Rust example's crates are not here: cargo fetch in its folder brings them")
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
    """An example plugin. Of the session, as what it may build is not bound by a test's limit."""
    if request.param == "python":
        return [sys.executable, str(DEMO)]
    return [request.getfixturevalue("rust_plugin")]


def test_the_example_plugins_plan_and_generate(command: list[str]) -> None:
    result = run_json("call", "generate", "--args", SCHEMA, "--", *command, silent_in=SILENT_IN)
    assert result["fragments"][0]["content"] == "jobs:\n  build: {}\n"
