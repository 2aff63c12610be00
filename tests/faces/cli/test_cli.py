"""Tests of the main verbs of the command line (`inspect`, `call`, `list`, `tools`, `run`, `help`)
as scripts use them: output, exit codes and JSON.

Most run a verb inside the test process with two extensions of `examples/`: `text` has the tools
echo, shout (upper case) and count, and `fragile` has a tool that divides, and so can be made to
crash.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects import find
from exthost.faces.cli import main as cli_main
from exthost.faces.cli.verbs import COMMON_VERBS, VERB_GROUPS, VERBS
from exthost.model import error_catalog
from tests.extensions.harness import hostile_command as hostile_command
from tests.extensions.morphir_program import morphir_program
from tests.faces.cli.cli_process import (
    EXTHOST,
    PATIENT,
    RUN_SECONDS,
    extension,
    run_process,
    write_config,
)
from tests.faces.cli.cli_process import run_inside as run
from tests.host.test_host import FRAGILE, TEXT

CATALOG = error_catalog.load(*find.iter_error_tables())
PYTHON = [sys.executable, "-S", "-E"]
TEXT_COMMAND = ("--dialect", "morphir", "--", *PYTHON, str(TEXT))


def run_json(*arguments: str, code: int = 0, **more: Any) -> Any:
    """Run a verb with --json; return the JSON that it prints, which must be all of stdout."""
    result = run(*_with_json(arguments), **more)
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


def _with_json(arguments: tuple[str, ...]) -> list[str]:
    """Add --json to the arguments of exthost, which end at `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:end], "--json", *arguments[end:]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a config of extensions: two that run, one without a program, one disabled."""
    python = f'command = "{sys.executable}"'
    (tmp_path / "exthost.toml").write_text(
        f"""
        [[extensions]]
        name = "text"
        source = {{ type = "process", {python}, args = ["-S", "-E", "{TEXT}"] }}

        [[extensions]]
        name = "fragile"
        source = {{ type = "process", {python}, args = ["-S", "-E", "{FRAGILE}"] }}

        [[extensions]]
        name = "missing"
        source = {{ type = "process", command = "no-such-program" }}

        [[extensions]]
        name = "off"
        enabled = false
        source = {{ type = "process", command = "no-such-program" }}
        """
    )
    return tmp_path


def test_inspect_shows_the_offer_and_the_grants() -> None:
    report = run_json("inspect", "--dialect", "morphir", "--", *PYTHON, TEXT)
    assert (report["id"], report["dialect"], report["version"]) == ("text", "morphir", "")
    assert report["tools"][1] == {
        "name": "ext_text_shout",
        "tool": "shout",
        "description": "[ext:text] Upper case",
        "input_schema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    }
    assert set(report["timings_ms"]) == {"spawn", "handshake"}
    assert all(value > 0 for value in report["timings_ms"].values())
    assert "PATH" in report["environment"]["passed"]


def test_inspect_names_the_secrets_that_were_withheld() -> None:
    arguments = _with_json(("inspect", "--dialect", "morphir", "--", *PYTHON, TEXT))
    result = run(*arguments, env=os.environ | {"MY_API_KEY": "hunter2"})
    assert "MY_API_KEY" in json.loads(result.stdout)["environment"]["held_back"]
    assert "hunter2" not in result.stdout + result.stderr


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_inspect_takes_options_of_the_dialect(era: str, tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(
        "from exthost.sdk import Extension\next = Extension('both')\next.run('mcp')\n"
    )
    option = f"era={era}"
    command = [sys.executable, str(tmp_path / "both.py")]
    report = run_json("inspect", "--dialect", "mcp", "--option", option, "--", *command)
    assert report["extra"]["era"] == era


def test_inspect_takes_a_name_from_the_config(folder: Path) -> None:
    assert run_json("inspect", "text", cwd=folder)["id"] == "text"


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["shout", "text=hi"], {"text": "HI"}),
        (["shout", "--args", '{"text": "hi"}'], {"text": "HI"}),
        (["echo", "n=1", "b=true", "s=x y", "l=[1]"], {"n": 1, "b": True, "s": "x y", "l": [1]}),
        (["echo"], {}),
        (["echo", "--timeout", "1m", "n=1"], {"n": 1}),
        (["echo", "--method", "--args", "[1, 2]"], [1, 2]),
        (["ext_text_shout", "text=hi"], {"text": "HI"}),
    ],
)
def test_call_prints_the_bare_result(arguments: list[str], result: Any) -> None:
    assert run_json("call", *arguments, "--dialect", "morphir", "--", *PYTHON, TEXT) == result


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e400", "[" * 100_000])
def test_invalid_json_is_a_string_as_an_argument_but_an_error_in_the_args_option(
    text: str,
) -> None:
    assert run_json("call", "echo", f"a={text}", *TEXT_COMMAND) == {"a": text}
    error = run_json("call", "echo", "--args", f'{{"a": {text}}}', *TEXT_COMMAND, code=2)["error"]
    assert error["code"] == "X1316" and "--args" in error["message"]


def test_a_time_limit_of_zero_is_refused() -> None:
    error = run_json("call", "echo", "--timeout", "0", *TEXT_COMMAND, code=2)["error"]
    assert "longer than 0" in error["message"]


def test_call_reads_the_encoding_of_windows_pipes() -> None:
    # A byte order mark before the text, and a carriage return after it.
    result = run(
        *_with_json(("call", "echo", "--args", "-", *TEXT_COMMAND)), input='\ufeff{"a": 1}\r\n'
    )
    assert json.loads(result.stdout) == {"a": 1}, result.stderr


def test_call_prints_the_result_as_json_even_without_the_json_option() -> None:
    result = run("call", "shout", "text=hi", "--dialect", "morphir", "--", *PYTHON, TEXT)
    assert json.loads(result.stdout) == {"text": "HI"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["shout", "text=hi"], '{"text":"HI"}\n'),
        (["echo", "--args", '{"n": [1, null]}', "--json"], '{"n":[1,null]}\n'),
    ],
)
def test_call_prints_the_text_that_a_model_reads(arguments: list[str], text: str) -> None:
    result = run("call", "--text", *arguments, *TEXT_COMMAND)
    assert (result.returncode, result.stdout) == (0, text), result.stderr


def test_the_text_option_is_refused_for_methods() -> None:
    error = run_json("call", "echo", "--text", "--method", *TEXT_COMMAND, code=2)["error"]
    assert error["code"] == "X1316" and "--text" in error["message"]


def test_call_reads_its_arguments_from_stdin() -> None:
    arguments = ("call", "shout", "--args", "-", "--dialect", "morphir", "--", *PYTHON, TEXT)
    assert json.loads(run_process(*arguments, input='{"text": "hi"}').stdout) == {"text": "HI"}


def test_the_error_for_a_number_in_place_of_a_string_shows_how_to_write_it(folder: Path) -> None:
    error = run_json("call", "text", "shout", "text=123", cwd=folder, code=2)["error"]
    assert error["code"] == "X1301" and """text='"…"'""" in error["help"]
    assert run_json("call", "text", "shout", 'text="123"', cwd=folder) == {"text": "123"}


def test_arguments_of_a_tool_that_are_not_pairs_are_reported_with_their_form(folder: Path) -> None:
    arguments = '{"text": "a=b"}'
    for names in (["text:shout"], ["text", "shout"]):
        error = run_json("call", *names, arguments, cwd=folder, code=2)["error"]
        assert error["code"] == "X1316"
        assert error["help"] == f"write the arguments as k=v, or as --args '{arguments}'"
    error = run_json("call", "text:shout", "hi", cwd=folder, code=2)["error"]
    assert error["help"].endswith("; an argument of a tool is written k=v")


def test_call_finds_a_tool_of_the_config_by_each_of_its_names(folder: Path) -> None:
    for arguments in (["ext_text_shout"], ["text:shout"], ["text", "shout"], ["shout"]):
        assert run_json("call", *arguments, "text=hi", cwd=folder) == {"text": "HI"}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "error_code"),
    [
        (["text", "no-such-tool"], 2, "X1202"),
        (["text", "shout", "txet=hi"], 2, "X1301"),
        (["text", "shout", "--args", "{"], 2, "X1316"),
        (["nobody", "shout"], 2, "X1206"),
        (["ext_text_shuot"], 2, "X1201"),
        (["a", "b", "c"], 2, "X1316"),
        (["text", "no_such_method", "--method"], 1, "X0701"),
        (["missing", "shout"], 5, "X0401"),
        (["fragile", "divide", "a=1", "b=0"], 7, "X1001"),
        (["text", "echo", "--config", "no-such-file.toml"], 3, "X0101"),
        (["text", "echo", "--timeout", "5 parsecs"], 2, "X1316"),
    ],
)
def test_a_failed_call_shows_its_code_in_json_and_by_its_exit(
    folder: Path, arguments: list[str], exit_code: int, error_code: str
) -> None:
    error = run_json("call", *arguments, cwd=folder, code=exit_code)["error"]
    assert error["code"] == error_code
    assert set(error) == {"code", "kind", "extension", "message", "help", "evidence"}
    assert error["kind"] == CATALOG[error_code].kind


def test_a_crash_reports_exit_status_and_stderr(folder: Path) -> None:
    error = run_json("call", "fragile", "divide", "a=1", "b=0", cwd=folder, code=7)["error"]
    assert error["evidence"]["exit"] == "exited with 1"
    assert error["evidence"]["stderr"][-1] == "ZeroDivisionError: division by zero"


def test_a_timeout_exits_with_6() -> None:
    arguments = ["call", "keep", "--method", "--timeout", "200ms", "--dialect", "morphir"]
    assert run_json(*arguments, "--", *hostile_command(), code=6)["error"]["kind"] == "CallTimeout"


def test_a_program_that_is_not_an_extension_fails_its_handshake(tmp_path: Path) -> None:
    for program in ("true", "false"):
        error = run_json("inspect", "--dialect", "morphir", "--", program, code=5)["error"]
        assert error["kind"] == "HandshakeFailed"


def test_a_program_that_echoes_its_input_fails_its_handshake(tmp_path: Path) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text(
        '[[extensions]]\nname = "cat"\nlimits = {handshake = "300ms"}\n'
        'source = {type = "process", command = "cat"}\n'
    )
    error = run_json("inspect", "cat", cwd=tmp_path, code=5)["error"]
    assert error["code"] == "X0504"


def test_list_shows_state_and_reason_and_starts_nothing(folder: Path) -> None:
    report = run_json("list", cwd=folder)
    assert [(item["id"], item["state"]) for item in report["extensions"]] == [
        ("text", "admitted"),
        ("fragile", "admitted"),
        ("missing", "admitted"),
        ("off", "disabled"),
    ]
    keys = {"id", "dialect", "version", "state", "path", "reason", "asks_for", "sandbox"}
    keys.add("is_given")
    assert all(set(item) == keys for item in report["extensions"])
    assert report["diagnostics"] == []


def test_a_disabled_extension_is_not_started_by_its_name(folder: Path) -> None:
    error = run_json("inspect", "off", cwd=folder, code=2)["error"]
    assert error["code"] == "X1206" and "switched off" in error["message"]
    assert "exthost enable off" in error["help"]


def test_tools_starts_extensions_only_with_the_start_option(folder: Path) -> None:
    without_start = run_json("tools", cwd=folder)
    assert without_start == {
        "tools": [],
        "quarantined": [],
        "not_asked": ["text", "fragile", "missing"],
        "failed": [],
    }
    with_start = run_json("tools", "--start", cwd=folder, code=5)
    assert [tool["name"] for tool in with_start["tools"]] == [
        "ext_text_echo",
        "ext_text_shout",
        "ext_text_count",
        "ext_fragile_divide",
    ]
    keys = {"name", "tool", "extension", "description", "input_schema", "output_schema"}
    keys |= {"provider", "capabilities", "extra", "remembered"}
    assert all(set(tool) == keys for tool in with_start["tools"])


def test_errors_are_written_to_stderr_only(folder: Path) -> None:
    result = run("call", "missing", "x", cwd=folder)
    assert result.stdout == ""
    assert "error[X0401]" in result.stderr and "help:" in result.stderr


def test_the_description_of_a_tool_cannot_control_a_terminal(tmp_path: Path) -> None:
    tools = [{"name": "a\nb", "description": "two\nlines \x1b[31mred"}]
    child = tmp_path / "child.py"
    child.write_text(morphir_program(tools=tools))
    result = run("inspect", "--dialect", "morphir", "--", *PYTHON, str(child))
    assert result.returncode == 0, result.stderr
    _, row = result.stdout.splitlines()
    assert "\x1b" not in row and row.endswith("two lines \\x1b[31mred")


def test_an_extension_with_an_unsupported_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(
        '[[extensions]]\nname = "far"\nsource = { type = "grpc", address = "x" }\n'
    )
    error = run_json("inspect", "far", code=4, cwd=tmp_path)["error"]
    assert error["code"] == "X0331" and "grpc" in error["message"]


def test_a_missing_config_is_reported_with_the_next_step(tmp_path: Path) -> None:
    result = run("list", cwd=tmp_path)
    assert result.returncode == 2 and "--config" in result.stderr


def test_explain_has_an_entry_for_every_code() -> None:
    for code, entry in CATALOG.items():
        assert entry.meaning and entry.fix, code
    assert run_json("explain", "x0401")["title"] == CATALOG["X0401"].title
    assert set(run_json("explain")) == set(CATALOG)
    assert run("explain", "X9999").returncode == 2


def test_the_error_for_an_unknown_verb_names_the_nearest_verb() -> None:
    result = run("inspekt")
    assert result.returncode == 2 and "inspect" in result.stderr


def listed_verbs(text: str) -> list[str]:
    """Return the verbs that a help text lists."""
    return [verb for verb in re.findall(r"^  (\w+) ", text, re.MULTILINE) if verb != "exthost"]


def test_the_help_groups_the_verbs_by_task() -> None:
    text = run("--help").stdout
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == [*VERB_GROUPS, "examples"]
    assert list(VERB_GROUPS) == ["run", "look", "change", "write", "trust"]
    for name, verbs in VERB_GROUPS.items():
        group = text.partition(f"\n{name}:\n")[2].partition("\n\n")[0]
        assert listed_verbs(group) == list(verbs)
    assert listed_verbs(text) == list(VERBS)


def test_help_without_a_verb_shows_the_ten_most_used() -> None:
    result = run("help")
    assert (result.returncode, listed_verbs(result.stdout)) == (0, list(COMMON_VERBS))
    assert len(COMMON_VERBS) == 10 and "exthost --help" in result.stdout


@pytest.mark.parametrize("verb", ["call", "list", "mcp"])
def test_help_with_a_verb_shows_the_help_of_the_verb(verb: str) -> None:
    result = run("help", verb)
    assert result.returncode == 0 and f"exthost {verb}" in result.stdout
    assert result.stdout == run(verb, "--help").stdout


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_help(verb: str) -> None:
    result = run(verb, "--help")
    assert result.returncode == 0 and "--json" in result.stdout
    assert verb in run("--help").stdout


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that must succeed."""
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=True,
    )


def test_help_imports_nothing_heavy() -> None:
    result = run_python(
        "import sys, exthost.faces.cli; exthost.faces.cli.main(['--help']); "
        "print('MODULES', *sys.modules, sep=chr(10))"
    )
    heavy = {"asyncio", "msgspec", "subprocess", "logging", "jsonschema_rs", "json", "argparse"}
    heavy |= {"mcp", "pydantic", "exthost.faces.gateway", "ctypes"}
    assert not heavy & set(result.stdout.partition("MODULES")[2].split())


@pytest.mark.sampled
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
@pytest.mark.parametrize("verb", ["call", "status", "logs", "doctor"])
def test_other_processes_of_the_user_cannot_read_the_memory_of_a_verb(
    verb: str,
) -> None:
    script = f"""
import contextlib, ctypes
from exthost.faces.cli import main
with contextlib.suppress(SystemExit):
    main([{verb!r}, "--help"])
PR_GET_DUMPABLE = 3
print("DUMPABLE", ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0))
"""
    assert run_python(script).stdout.endswith("DUMPABLE 0\n")


def test_run_supervises_extensions_until_ctrl_c(folder: Path) -> None:
    with subprocess.Popen(
        [*EXTHOST, "run"], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "of 3 extensions ready" in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=RUN_SECONDS) == 130
    assert line.startswith("2 of 3 extensions ready, 4 tools")
    assert "text: stopped" in rest


@pytest.mark.more
def test_ctrl_c_twice_kills_processes_that_do_not_end(tmp_path: Path) -> None:
    program, *args = hostile_command("stubborn")
    (tmp_path / "exthost.toml").write_text(
        f'[[extensions]]\nname = "h"\n'
        f"source = {{type = 'process', command = '{program}', args = {args!r}}}\n"
    )
    with subprocess.Popen(
        [*PATIENT, "run"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "extensions ready" in line:
                break
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if "again kills" in line:
                break
        process.send_signal(signal.SIGINT)
        assert "killing" in process.stderr.read()
        assert process.wait(timeout=RUN_SECONDS) == 130


def test_verbs_that_query_a_running_host_import_neither_asyncio_nor_rich() -> None:
    def modules_imported_by(*modules: str) -> set[str]:
        """Return the names of all modules that the import of these modules imports."""
        script = f"import sys, {', '.join(modules)}; print(*sys.modules, sep=chr(10))"
        return set(run_python(script).stdout.split())

    query_verbs = [f"exthost.faces.cli.{verb}" for verb in ("status", "start", "stop", "restart")]
    assert not {"asyncio", "subprocess", "rich"} & modules_imported_by(*query_verbs)
    assert "rich" not in modules_imported_by("exthost.faces.cli.run", "exthost.faces.cli.logs")


def test_a_call_of_one_extension_is_in_the_audit_file_of_the_config(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    config = tmp_path / "exthost.toml"
    args = json.dumps(["-S", "-E", str(TEXT)])
    config.write_text(
        f'[audit]\npath = "{audit}"\n[[extensions]]\nname = "text"\n'
        f'source = {{ type = "process", command = "{sys.executable}", args = {args} }}\n'
    )
    run_json("call", "text", "shout", "text=hi", "--config", str(config))
    (record,) = [json.loads(line) for line in audit.read_text().splitlines()]
    assert (record["extension"], record["method"], record["outcome"]) == ("text", "shout", "result")


def test_a_tool_name_of_two_extensions_is_ambiguous(tmp_path: Path) -> None:
    source = json.dumps({"type": "process", "command": PYTHON[0], "args": [*PYTHON[1:], str(TEXT)]})
    toml = source.replace('":', '" =')
    entries = [f"[[extensions]]\nname = '{name}'\nsource = {toml}\n" for name in ("one", "two")]
    (tmp_path / "exthost.toml").write_text("".join(entries))
    error = run_json("call", "shout", "text=hi", code=2, cwd=tmp_path)["error"]
    assert error["code"] == "X1204" and "ext_one_shout, ext_two_shout" in error["help"]
    assert run_json("call", "ext_two_shout", "text=hi", cwd=tmp_path) == {"text": "HI"}


def test_tools_are_printed_in_the_format_of_each_api(folder: Path) -> None:
    arguments = ("tools", "text", "--start", "--config", str(folder / "exthost.toml"))
    for format, key in (
        ("openai", "function"),
        ("anthropic", "input_schema"),
        ("mcp", "inputSchema"),
    ):
        tools = json.loads(run(*arguments, "--format", format).stdout)
        assert tools and all(key in tool for tool in tools)


def test_schema_prints_the_json_schema_of_the_config() -> None:
    assert run_json("schema")["title"] == "exthost.toml"


def test_doctor_reports_a_state_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(tmp_path, extension("near"))
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "new" / "folder"))
    assert "cannot be written" not in run("doctor", cwd=tmp_path).stdout
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "exthost.toml" / "folder"))
    result = run("doctor", cwd=tmp_path)
    assert "the host keeps no logs, and exthost up -d fails" in result.stdout
    assert "set EXTHOST_HOME" in result.stdout and result.returncode == 0
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("is_installed", [False, True])
def test_doctor_reports_that_a_pool_needs_ray(
    is_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_installed:
        package = tmp_path / "installed" / "ray"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        monkeypatch.syspath_prepend(package.parent)
        monkeypatch.delitem(sys.modules, "ray", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "ray", None)
    write_config(tmp_path, extension("far", more='pool = { engine = "ray" }'), extension("near"))
    result = run("doctor", "--json", cwd=tmp_path)
    errors = [item for item in json.loads(result.stdout)["findings"] if item["level"] == "error"]
    if is_installed:
        assert (result.returncode, errors) == (0, []), result.stdout
        return
    assert result.returncode == 5, result.stdout
    assert [(item["extension"], item["code"]) for item in errors] == [("far", "X0424")]
    assert "not installed" in errors[0]["message"]
    assert errors[0]["fix"] == "pip install 'exthost[ray]'"


def test_on_windows_every_verb_names_wsl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("exthost.faces.cli.os.name", "nt")
    code = cli_main(["list"])
    monkeypatch.undo()
    assert code == 2 and "WSL2" in capsys.readouterr().err


def test_the_error_for_an_unknown_tool_names_an_extension_that_failed_to_start(
    tmp_path: Path,
) -> None:
    server = {"command": sys.executable, "args": ["-S", "-E", "-c", "raise SystemExit(3)"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"weather": server}}))
    result = run("call", "shout", "--config", "mcp.json", "--json", cwd=tmp_path)
    error = json.loads(result.stdout)["error"]
    assert (result.returncode, error["code"]) == (2, "X1201")
    assert error["help"].startswith("weather failed to start, and may have it: exthost inspect")
