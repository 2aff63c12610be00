"""The advice to a user whose extension failed, from its stderr or from the error of a tool.

For example, after "KeyError: 'WEATHER_API_KEY'" the host suggests `-e WEATHER_API_KEY=VALUE`. The
functions find what a program lacks: a variable, a file, a module, a program, or a permission of its
sandbox. ENVIRONMENT is what an extension gets, and knows which variables the host has held back.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from exthost.faces.cli.verb_table import read_verbs
from exthost.launch.advice import (
    find_hidden_module,
    find_missing,
    suggest_grant_to_tool,
    suggest_network,
    suggest_variable,
)
from exthost.model.launch_plan import LaunchPlan, Wrapper
from exthost.process.environment import child_environment

ENVIRONMENT = child_environment(
    {"GITHUB_TOKEN": "x", "CITY_NAME": "Lima"}, "minimal", names=["CITY_NAME"]
)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("GITHUB_TOKEN must be set", "held back: GITHUB_TOKEN"),
        ("KeyError: 'WEATHER_API_KEY'", "-e WEATHER_API_KEY=VALUE"),
        ("Error: BRAVE_API_KEY environment variable is required", "-e BRAVE_API_KEY=VALUE"),
        ("Please set SLACK_TOKEN before you start", "-e SLACK_TOKEN=VALUE"),
        ("missing variable: DATABASE_URL", "-e DATABASE_URL=VALUE"),
    ],
)
def test_a_missing_variable_is_named(line: str, advice: str) -> None:
    assert advice in suggest_variable(ENVIRONMENT, ["starting", line])


@pytest.mark.parametrize("line", ["GITHUB_TOKEN must be set", "KeyError: 'WEATHER_API_KEY'"])
def test_the_advice_names_the_verbs_that_can_set_a_variable(line: str) -> None:
    verbs = [
        verb.name for verb in read_verbs() if any("-e" in option.names for option in verb.options)
    ]
    _, _, verb_names = suggest_variable(ENVIRONMENT, [line]).partition(" of exthost ")
    assert sorted(re.findall("[a-z]{3,}", verb_names)) == sorted(verbs)


@pytest.mark.parametrize(
    "line", ["KeyError: 'name'", "ERR_MODULE_NOT_FOUND", "CITY_NAME is missing", "set -e", ""]
)
def test_other_lines_name_no_variable(line: str) -> None:
    assert suggest_variable(ENVIRONMENT, [line]) == ""


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("cause: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE, NODE_EXTRA_CA_CERTS"),
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", "SSL_CERT_FILE, NODE_EXTRA_CA_CERTS"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] unable", "SSL_CERT_FILE, NODE_EXTRA_CA_CERTS"),
        ("getaddrinfo ENOTFOUND registry.example.org", "HTTPS_PROXY, no_proxy"),
        ("dial tcp: lookup proxy.example.org: no such host", "HTTPS_PROXY, no_proxy"),
    ],
)
def test_the_advice_for_a_failed_download_names_network_variables(line: str, names: str) -> None:
    variables = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "no_proxy", "OTHER_NAME"]
    environment = child_environment(dict.fromkeys(variables, "x"), "minimal")
    assert suggest_variable(environment, [line]).startswith(f"held back: {names}. ")
    assert suggest_variable(child_environment({}, "minimal"), [line]) == ""
    assert suggest_variable(environment, [line], {"network": "netns"}) == ""


SANDBOX = Wrapper(options=(), init=b"", filter=b"a filter")


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 101] Network is unreachable",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "getaddrinfo EAI_AGAIN api.example.org",
        "dial tcp: lookup api.example.org: no such host",
        "curl: (6) Could not resolve host: api.example.org",
        "PermissionError: [Errno 1] Operation not permitted",
        "PermissionError(1, 'Operation not permitted')",
        "connect EPERM 192.0.2.1:80 - Local (undefined:undefined)",
    ],
)
def test_the_error_of_a_tool_without_a_network_mentions_its_sandbox(text: str) -> None:
    assert "permissions.network" in suggest_grant_to_tool(SANDBOX, {"network": "netns"}, text)
    assert suggest_grant_to_tool(SANDBOX, {"network": "open"}, text) == ""


def test_the_error_of_a_tool_that_misses_a_hidden_file_mentions_its_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.touch(0o644)
    text = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    assert f"its sandbox hides {path}" in suggest_grant_to_tool(SANDBOX, {}, text)


@pytest.mark.parametrize(
    "text",
    [
        *("no such city: Atlantis", "ZeroDivisionError", "", "x" * 10**6),
        "PermissionError: [Errno 1] Operation not permitted: '/none/a'",
        "EPERM: operation not permitted, open '/none/a'",
        "PermissionError: [Errno 13] Permission denied: '/none/a'",
    ],
)
def test_other_failures_of_a_tool_do_not_mention_the_sandbox(text: str) -> None:
    assert suggest_grant_to_tool(SANDBOX, {"network": "netns"}, text) == ""


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "python3: can't open file '/x/none.py': [Errno 2] No such file or directory",
            "there is no file /x/none.py",
        ),
        ("ModuleNotFoundError: No module named 'numpy'", "the module numpy is not installed"),
        (
            "ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x, where …",
            "the package mcp has no module mcp.server.fastmcp",
        ),
        (
            "ModuleNotFoundError: No module named 'mcp.types'; 'mcp' is not a package",
            "the package mcp has no module mcp.types",
        ),
        ("Error: Cannot find package 'lodash.get'", "the module lodash.get is not installed"),
        ("Error: Cannot find module '/x/none.mjs'", "there is no file /x/none.mjs"),
        ("Error: Cannot find module 'express'", "the module express is not installed"),
        ("cannot load such file -- nokogiri (LoadError)", "the module nokogiri is not installed"),
        ("cannot load such file -- /x/none (LoadError)", "there is no file /x/none"),
        ("Can't locate JSON/XS.pm in @INC (@INC contains: …", "the module JSON/XS is not"),
        ("python3: can't open file '/x\0y': …", "there is no file /x: correct"),
        ("python3: can't open file '/x\ud800y': …", "there is no file /x: correct"),
        ("sh: 1: uvx: not found", "there is no program uvx"),
        ("bash: line 1: uvx: command not found", "there is no program uvx"),
    ],
)
def test_a_file_that_a_program_cannot_find_at_its_start_is_named(line: str, advice: str) -> None:
    assert find_missing(["starting", line], ["python3"]).startswith(advice)


@pytest.mark.parametrize("line", ["", "ValueError: city not found", "user: not found"])
def test_other_lines_of_stderr_report_nothing_missing(line: str) -> None:
    assert find_missing([line]) == ""


def test_a_program_that_is_not_built_is_named_with_its_build_command(tmp_path: Path) -> None:
    (tmp_path / "extension.ts").touch()
    (tmp_path / "package.json").touch()
    stderr = [f"Error: Cannot find module '{tmp_path}/extension.js'"]
    advice = find_missing(stderr, ["node", "extension.js"], str(tmp_path))
    assert "is not built yet" in advice and "npm run --silent build" in advice
    # A path outside of the command is the word of the extension: nothing is to be run there.
    assert "npm" not in find_missing(stderr, ["node", "other.js"], str(tmp_path))


def test_a_script_that_is_a_pipe_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.py")
    advice = find_missing([], ["python3", "run.py"], str(tmp_path))
    assert advice == f"{tmp_path}/run.py is a pipe, a socket or a device: name a file with code"
    (tmp_path / "run.py").unlink()
    (tmp_path / "run.py").touch()
    assert find_missing([], ["python3", "run.py"], str(tmp_path)) == ""


def test_the_help_for_a_missing_module_names_the_sandbox(tmp_path: Path) -> None:
    script, line = tmp_path / "run.rb", "cannot load such file -- helper (LoadError)"
    script.touch()
    plan = LaunchPlan(argv=("/usr/bin/ruby", str(script)), wrapper=SANDBOX)
    environment = child_environment({"PYTHONPATH": "/x"}, "minimal")
    advice = find_hidden_module(plan, environment, [line])
    assert "helper is not installed" in advice and "or its sandbox hides it" in advice
    assert 'env = { PYTHONPATH = { from = "PYTHONPATH" } }' in advice
    (tmp_path / "helper.rb").touch()
    assert f'add "{tmp_path}"' in find_hidden_module(plan, environment, [line])
    absolute = f"cannot load such file -- {tmp_path}/helper (LoadError)"
    assert f'add "{tmp_path}"' in find_hidden_module(plan, environment, [absolute])
    assert find_hidden_module(replace(plan, wrapper=None), environment, [line]) == ""
    assert find_hidden_module(plan, environment, ["ValueError"]) == ""


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("uvx --offline some-server", "uv tool install some-server"),
        ("npx -y @scope/server@1.0.0", "npm install -g @scope/server@1.0.0, and name its program"),
        ("pnpm dlx server", "pnpm add -g server, and name its program"),
        ("docker run x", ""),
    ],
)
def test_the_advice_for_a_downloaded_program_is_to_install_it(command: str, hint: str) -> None:
    advice = suggest_network(
        {"network": "netns"}, "x", (), is_silent=True, ended=False, argv=command.split()
    )
    assert f"install it first{f' ({hint}' if hint else ';'}" in advice


def test_a_network_is_suggested_only_for_a_silent_program() -> None:
    netns = {"network": "netns"}

    def suggest(*stderr: str, silent: bool = True, ended: bool = False) -> str:
        return suggest_network(netns, "x", stderr, is_silent=silent, ended=ended)

    assert "fetched at its start" in suggest()
    assert "fetched at its start" in suggest("warning: old")
    assert "fetched at its start" in suggest("npm error ENOTFOUND", ended=True)
    assert suggest("ValueError: no", ended=True) == "x"
    assert suggest(silent=False) == "x"
