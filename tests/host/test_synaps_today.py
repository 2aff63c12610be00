"""Plugins of synaps, one of the protocols that exthost speaks, in its form of November 2026.

The plugins in `tests/extensions/synaps_today` use no code of exthost: `redact`, in Python, replaces
secrets in the results of tools; `meter`, in JavaScript, counts tokens and needs node. Other plugins
are written by `write_plugin`: the mapping that it gets says how the plugin answers each hook.

A hook is a function of a plugin that the host calls at an event. The answer to `after_tool_call`
can replace the output of the tool, if the plugin has the permission `tools.transform_output`.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import Config, config_from_mapping
from exthost.config.discovery import configfile
from exthost.errors import CallFailed
from exthost.events import OutputReplaced
from exthost.host.host import Host
from exthost.host.session_texts import FIRST_LINE, LAST_LINE, MAX_SESSIONS, SessionTexts
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of
from tests.extensions.synaps_tree import write_plugin

PLUGINS = Path(__file__).parents[1] / "extensions" / "synaps_today"
TRANSFORM = ("tools.register", "tools.intercept", "tools.transform_output")
AFTER_HOOK = [{"hook": "after_tool_call"}]

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


def config(*roots: Path, allowlist: tuple[str, ...] = (), **settings: Any) -> Config:
    discovery = {"search_paths": list(map(str, roots)), "allowlist": list(allowlist)}
    return config_from_mapping({"discovery": discovery, **settings})


@pytest.fixture(name="replacing_plugins")
def write_replacing_plugins(tmp_path: Path) -> Iterator[Path]:
    """A folder of a plugin with tools, and of two plugins that replace the output of tools."""
    write_plugin(tmp_path / "tools")
    for name in ("a_first", "b_second"):
        answer = {"action": "replace", "output": f"by {name}"}
        write_plugin(
            tmp_path / name,
            {"hooks": {"after_tool_call": answer}},
            permissions=TRANSFORM,
            hooks=AFTER_HOOK,
        )
    yield tmp_path


# -- replace ----------------------------------------------------------------------------------


@shows("synaps-today-02", "synaps-today-01", "synaps-today-09", "synaps-today-04")
async def test_a_python_plugin_replaces_the_output_and_the_audit_has_the_sizes(
    tmp_path: Path,
) -> None:
    audit = tmp_path / "audit.jsonl"
    settings = config(PLUGINS, allowlist=("redact",), audit={"path": str(audit)})
    replaced: list[OutputReplaced] = []
    async with Host(settings) as host:
        host.events.subscribe(OutputReplaced, replaced.append)
        result = await host.call_tool("ext_redact_leak", {"text": "it is hunter2"})
        assert (result.text, result.raw) == ("it is *******", "it is *******")  # was "hunter2"
        assert not result.is_error
        assert (await host.call_tool("ext_redact_leak", {"text": "open"})).text == "open"
        error = await error_of(host.call_tool("ext_redact_fail", {}))
        assert isinstance(error, CallFailed) and "*******" in error.error_message
        assert "hunter2" not in str(error)
        failed = await host.call_tool("ext_redact_fail", {}, check=False)
        assert failed.is_error and "hunter2" not in failed.text
    assert {event.about for event in replaced} == {"ext_redact_leak", "ext_redact_fail"}
    assert replaced[0].after == len("it is *******")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    rows = [line for line in lines if line["outcome"] == "replaced"]
    assert len(rows) == 3 and rows[0]["extension"] == "redact" and rows[0]["about"]
    assert rows[0]["before_bytes"] > 0 and rows[0]["after_bytes"] == replaced[0].after
    assert "hunter2" not in json.dumps(rows) and "*******" not in json.dumps(rows)


@shows("synaps-today-02")
async def test_the_first_plugin_that_replaces_the_output_is_used(replacing_plugins: Path) -> None:
    async with Host(config(replacing_plugins)) as host:
        assert (await host.call_tool("ext_tools_echo", {"a": 1})).text == "by a_first"
        # The result of a failed tool remains an error: `raw` fails without its arguments.
        failed = await host.call_tool("ext_tools_raw", {}, check=False)
        assert failed.is_error and failed.text == "by a_first"


@shows("synaps-today-02", "synaps-hook-03")
async def test_a_replacement_without_the_permission_is_ignored(
    replacing_plugins: Path,
) -> None:
    answer = {"action": "replace", "output": "by nobody"}
    behaviour = {"hooks": {"after_tool_call": answer}}
    without_transform = TRANSFORM[:2]
    write_plugin(
        replacing_plugins / "a_first", behaviour, permissions=without_transform, hooks=AFTER_HOOK
    )
    async with Host(config(replacing_plugins)) as host:
        result = await host.call_tool("ext_tools_echo", {"a": 1})
        assert result.text == "by b_second"
        assert any("tools.transform_output" in warning for warning in result.warnings)


@shows("synaps-today-02")
@pytest.mark.parametrize(
    "answer", [{"action": "replace"}, {"action": "replace", "output": 5}, "die"]
)
async def test_the_output_is_kept_if_the_replacement_fails(tmp_path: Path, answer: Any) -> None:
    write_plugin(tmp_path / "tools")
    behaviour = {"hooks": {"after_tool_call": answer}}
    write_plugin(tmp_path / "bad", behaviour, permissions=TRANSFORM, hooks=AFTER_HOOK)
    async with Host(config(tmp_path)) as host:
        result = await host.call_tool("ext_tools_echo", {"a": 1})
        assert result.data == {"a": 1} and result.warnings


@shows("synaps-today-02")
async def test_a_long_replacement_is_cut_at_a_character() -> None:
    async with Host(config(PLUGINS, allowlist=("redact",))) as host:
        # `redact` replaces "grow" by more than 1 MiB of é, which has two bytes in UTF-8.
        text = (await host.call_tool("ext_redact_leak", {"text": "grow"})).text
        assert len(text.encode()) == 1024 * 1024 and set(text) == {"é"}


@shows("synaps-today-02")
async def test_the_output_of_a_tool_of_another_dialect_is_replaced_by_text(
    replacing_plugins: Path,
) -> None:
    server = Path(__file__).parents[1] / "extensions" / "mcp_child.py"
    source = {"type": "process", "command": "python3", "args": [str(server)]}
    entry = {"name": "server", "dialect": "mcp", "source": source}
    async with Host(config(replacing_plugins, extensions=[entry])) as host:
        name = next(name for name in host.tools if name.startswith("ext_server_"))
        result = await host.call_tool(name, {}, check=False)
        assert result.text == "by a_first" and result.content[0].type == "text"


# -- inject, sessions, usage ------------------------------------------------------------------


@shows("synaps-today-03", "synaps-today-11")
async def test_text_injected_at_the_start_of_a_session_is_kept_until_its_end(
    tmp_path: Path,
) -> None:
    answer = {"action": "inject", "content": "Be brief."}
    hooks = [{"hook": "on_session_start"}]
    write_plugin(tmp_path / "short", {"hooks": {"on_session_start": answer}}, hooks=hooks)
    async with Host(config(PLUGINS, tmp_path, allowlist=("redact", "short"))) as host:
        outcome = await host.hooks.run("on_session_start", {"session_id": "s1"})
        assert outcome.injected == "Session s1: hide secrets.\n\nBe brief."
        session_text = host.hooks.sessions["s1"]
        assert session_text == f"{FIRST_LINE}\n{outcome.injected}\n{LAST_LINE}" == outcome.context
        write_plugin(tmp_path / "short", {"hooks": {}}, hooks=hooks)
        await host["short"].restart()
        again = await host.hooks.run("on_session_start", {"session_id": "s1"})
        assert again.context == session_text == host.hooks.sessions["s1"]
        assert host.hooks.sessions["s2"] == ""
        await host.hooks.run("on_session_end", {"session_id": "s1"})
        assert host.hooks.sessions["s1"] == ""


@shows("synaps-today-03")
def test_the_number_of_session_texts_is_limited() -> None:
    texts = SessionTexts()
    for number in range(MAX_SESSIONS + 1):
        texts.update("on_session_start", {"session_id": str(number)}, "x")
    assert texts["0"] == "" and texts[str(MAX_SESSIONS)]


@shows("synaps-today-11")
@pytest.mark.parametrize(("variable", "expected_id"), [(None, "s1"), ("0", None)])
async def test_events_have_the_session_id_unless_a_variable_is_0(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, expected_id: str | None
) -> None:
    if variable is not None:
        monkeypatch.setenv("SYNAPS_HOOK_SESSION_ID", variable)
    async with Host(config(PLUGINS, allowlist=("redact",))) as host:
        event = {"message": "hi", "session_id": "s1"}
        outcome = await host.hooks.run("before_message", event)
        # `redact` answers with the id that the event has. Events of sessions always have it.
        assert outcome.injected == f"seen in {expected_id}"
        started = await host.hooks.run("on_session_start", {"session_id": "s1"})
        assert started.injected == "Session s1: hide secrets."


@needs_node
@shows("synaps-today-05", "synaps-route-02", "synaps-frame-03")
async def test_a_node_plugin_of_protocol_2_gets_the_usage() -> None:
    usage = {"input_tokens": 30, "output_tokens": 12}
    async with Host(config(PLUGINS, allowlist=("meter",))) as host:
        event = {"data": {"provider": "p", "model": "m", "usage": usage}, "session_id": "s"}
        outcome = await host.hooks.run("on_usage", event)
        assert not outcome.stopped and not outcome.passed_over
        result = await host.call_tool("ext_meter_total", {}, hooks=False)
        # The request of the plugin had a text as its id, and got its reply.
        assert result.data == {
            "tokens": 42,
            "greeting": {"id": "q1", "result": {"value": None}, "error": None},
        }
        assert (await host.call_tool("ext_meter_total", {})).text == "metered (42)"


# -- features that this host does not offer ---------------------------------------------------


@shows("synaps-today-08")
def test_features_that_this_host_does_not_offer_are_named() -> None:
    (warning,) = configfile.find_extensions(config(PLUGINS, allowlist=("redact",))).diagnostics
    assert warning.message.startswith("this host does not offer context providers and session driv")
    assert not warning.is_mistake


@shows("synaps-today-10")
async def test_variables_of_the_host_are_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNAPS_BASE_DIR", "/nowhere")
    async with exthost.connect(
        ["python3", str(PLUGINS / "redact" / "redact.py")], dialect="synaps"
    ) as ext:
        assert "SYNAPS_BASE_DIR" not in ext.environment.passed
