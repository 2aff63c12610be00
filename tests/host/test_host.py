"""The host with real extensions: loading, names, events, audit and errors.

`text.py` is an extension with the tools `echo`, `shout` and `count`; `fragile.py` has the tool
`divide`, which crashes the process when it divides by 0. A tool can be called as
`ext_EXTENSION_TOOL`, as `EXTENSION:TOOL`, or as `TOOL` if only one extension has it.
"""

import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.config import spec_from_mapping
from exthost.events import EVERYTHING, CallEnded, OfferChanged, Spawned, StateChanged
from exthost.extension.extension import Extension
from exthost.extension.lifecycle import Event, State, step
from tests.dialects.requirements import shows
from tests.extensions.harness import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples" / "morphir"
TEXT, FRAGILE = str(EXAMPLES / "text.py"), str(EXAMPLES / "fragile.py")


HOST_NOT_OPEN = "X1315"


def entry(name: str, program: str = TEXT, **settings: Any) -> dict[str, Any]:
    """Return the config entry of an extension; -S -E starts Python in a few milliseconds."""
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-E", program]}
    return {"name": name, "source": source, **settings}


def config(*entries: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"extensions": list(entries), **settings}


@shows("morphir-manager-01")
async def test_an_extension_is_loaded_called_and_unloaded() -> None:
    async with exthost.Host() as host:
        extension = await host.load(entry("test"))
        assert await extension.call("echo", {"msg": "hello"}) == {"msg": "hello"}
        await host.unload("test")
        assert "test" not in host
        assert not host.tools


async def test_tools_are_called_by_each_of_their_names() -> None:
    async with exthost.Host.from_config(config(entry("a"), entry("b", FRAGILE))) as host:
        assert list(host) == ["a", "b"] and len(host) == 2 and "a" in host
        assert set(host.tools) == {"ext_a_echo", "ext_a_shout", "ext_a_count", "ext_b_divide"}
        tool = host.tools["ext_a_shout"]
        assert (tool.tool, tool.extension, tool.name) == ("shout", "a", "ext_a_shout")
        assert tool.description == "[ext:a] Upper case"
        for name in ("ext_a_shout", "a:shout", "shout"):
            assert (await host.call_tool(name, {"text": "x"})).data == {"text": "X"}
        assert (await host["a"].call_tool("shout", {"text": "x"})).data == {"text": "X"}


async def test_an_ambiguous_name_must_be_written_in_full() -> None:
    async with exthost.Host.from_config(config(entry("a"), entry("b"))) as host:
        with pytest.raises(errors.NotFound) as caught:
            await host.call_tool("shout", {"text": "x"})
        assert caught.value.code == "X1204"  # several extensions have a tool of this name
        assert "ext_a_shout" in caught.value.help and "ext_b_shout" in caught.value.help


@shows("morphir-manager-02")
async def test_the_error_for_an_unknown_name_suggests_the_nearest_name() -> None:
    async with exthost.Host.from_config(config(entry("weather"))) as host:
        with pytest.raises(errors.NotFound, match="ext_weather_shuot") as caught:
            await host.call_tool("ext_weather_shuot")
        assert "ext_weather_shout" in caught.value.help
        with pytest.raises(errors.NotFound) as caught:
            host["wether"]
        assert "weather" in caught.value.help


async def test_arguments_that_do_not_match_the_schema_are_not_sent() -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:
        with pytest.raises(errors.UsageError) as caught:
            await host.call_tool("ext_a_shout", {"text": 7})
        assert caught.value.code == "X1301" and "text" in caught.value.message
        assert host["a"].stats.calls == 0


async def test_an_extension_that_exits_in_its_handshake_does_not_affect_nine_others() -> None:
    working_entries = [entry(f"good{n}") for n in range(9)]
    broken_entry = entry("bad", str(EXAMPLES / "no-such-file.py"))
    async with exthost.Host.from_config(
        config(*working_entries[:4], broken_entry, *working_entries[4:])
    ) as host:
        assert sum(ext.state == "ready" for ext in host.extensions) == 9
        assert host["bad"].state == "failed"
        assert len(host.tools) == 9 * 3
        with pytest.raises(errors.HandshakeFailed) as caught:
            await host["bad"].call("echo")
        assert caught.value.extension == "bad"
        assert "No such file" in "\n".join(caught.value.evidence.stderr)
        answers = [await host.call_tool(f"ext_good{n}_echo", {"n": n}) for n in range(9)]
        assert [answer.data for answer in answers] == [{"n": n} for n in range(9)]


async def test_calls_to_an_extension_whose_program_is_missing_report_it() -> None:
    broken = {"name": "x", "source": {"type": "process", "command": "no-such-program"}}
    async with exthost.Host.from_config(config(broken)) as host:
        assert host["x"].state == "failed"
        with pytest.raises(errors.SpawnFailed) as caught:
            await host["x"].call_tool("echo")
        assert caught.value.code == "X0401"


async def test_a_lazy_extension_is_started_once_by_a_hundred_first_calls() -> None:
    async with exthost.Host.from_config(config(entry("a", start="lazy"))) as host:
        assert host["a"].state == "admitted" and not host.tools
        spawned: list[int] = []
        host.events.subscribe(exthost.events.Spawned, lambda event: spawned.append(event.pid))
        calls = (host.call_tool("ext_a_echo", {"n": n}) for n in range(100))
        answers = await asyncio.gather(*calls)
        assert [answer.data for answer in answers] == [{"n": n} for n in range(100)]
        assert len(spawned) == 1


async def test_a_loaded_extension_has_the_config_and_the_audit_of_the_host(tmp_path: Path) -> None:
    """The sandbox protects these files from an extension that may write, and the path of a secret
    begins at the folder of the config."""
    path = tmp_path / "exthost.toml"
    path.write_text("[audit]\npath = 'audit.jsonl'\n")
    secret = tmp_path / "token"
    secret.write_text("hush")
    secret.chmod(0o600)
    async with exthost.Host.from_config(path) as host:
        extension = await host.load(entry("a", env={"TOKEN": {"file": "token"}}))
        assert extension.state == "ready"
        assert extension.spec.config_file == str(path)
        assert extension.spec.audit_file == str(tmp_path / "audit.jsonl")


@shows("morphir-config-03")
async def test_disabled_entries_are_not_loaded() -> None:
    async with exthost.Host.from_config(config(entry("a", enabled=False))) as host:
        assert len(host) == 0


@shows("morphir-config-06")
async def test_an_extension_is_refused_if_its_permissions_cannot_be_enforced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXTHOST_BWRAP", "/nowhere/bwrap")  # the program that makes the sandbox
    refused_entry = entry("a", permissions={"network": False})
    best_effort_entry = entry("b", permissions={"network": False}, sandbox="best-effort")
    async with exthost.Host.from_config(config(refused_entry, best_effort_entry)) as host:
        assert (host["a"].state, host["b"].state) == ("refused", "ready")
        with pytest.raises(errors.Refused) as caught:
            await host["a"].call("echo")
        assert caught.value.exit_code == 4  # the exit status of the command line for refusals


async def test_loading_a_name_twice_is_refused_and_the_first_continues() -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:
        with pytest.raises(errors.UsageError) as caught:
            await host.load(entry("a"))
        assert caught.value.code == "X1312"
        assert (await host.call_tool("ext_a_echo", {})).data == {}


async def test_an_extension_that_is_unloaded_while_it_starts_does_not_end_its_successor() -> None:
    silent = {"type": "process", "command": "sleep", "args": ["3600"]}
    slow = entry("a") | {"source": silent, "dialect": "morphir", "limits": {"handshake": "1h"}}
    async with exthost.Host() as host:
        spawned: list[int] = []
        host.events.subscribe(Spawned, lambda event: spawned.append(event.pid))
        loading = asyncio.ensure_future(host.load(slow))
        await wait_until(lambda: bool(spawned))
        unloading = asyncio.ensure_future(host.unload("a"))
        await wait_until(lambda: "a" not in host)
        successor = await host.load(entry("a"))
        await unloading
        with pytest.raises(errors.ExtensionGone):
            await loading
        assert host["a"] is successor and await successor.call("echo", 1) == 1


@pytest.mark.parametrize("arguments", [{"kind": 5}, {"kind": "a.b", "source": 5}])
async def test_an_event_of_the_program_with_a_name_that_is_not_a_text_is_reported(
    arguments: dict[str, Any],
) -> None:
    async with exthost.Host() as host:
        with pytest.raises(errors.UsageError, match="must be a text"):
            host.emit(**arguments)


async def test_an_extension_that_cannot_be_loaded_is_not_kept() -> None:
    async with exthost.Host() as host:
        with pytest.raises(errors.HandshakeFailed):
            await host.load(entry("a", str(EXAMPLES / "no-such-file.py")))
        assert "a" not in host


@shows("morphir-config-04")
async def test_a_wrong_config_raises_before_anything_is_started() -> None:
    for invalid_config, code in (
        ({"extensoins": []}, "X0102"),
        (config(entry("a"), entry("a")), "X0104"),
        (config(entry("a", limits={"call": "5 parsecs"})), "X0106"),
        (config(entry("a", dialect="klingon")), "X0107"),
    ):
        with pytest.raises(errors.ConfigError) as caught:
            exthost.Host.from_config(invalid_config)
        assert caught.value.code == code


@shows("morphir-config-05", "morphir-manager-01")
async def test_paths_in_a_config_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    shutil.copy(TEXT, tmp_path / "ext.py")
    path = tmp_path / "exthost.toml"
    command = f'{{type="process", command="{sys.executable}", args=["ext.py"]}}'
    path.write_text(f'[[extensions]]\nname = "a"\nsource = {command}\n')
    async with exthost.Host.from_config(path) as host:
        assert (await host.call_tool("ext_a_echo", {})).data == {}


@shows("morphir-manager-04")
async def test_state_changes_are_published_and_follow_the_life_cycle_table() -> None:
    events: list[Any] = []
    host = exthost.Host.from_config(
        config(entry("a", FRAGILE, restart={"strategy": "immediate", "max_retries": 2}))
    )
    unsubscribe = host.events.subscribe(EVERYTHING, events.append)
    async with host:
        with pytest.raises(errors.ExtensionGone):
            await host.call_tool("ext_a_divide", {"a": 1, "b": 0})
        assert (await host.call_tool("ext_a_divide", {"a": 1, "b": 1})).data == 1
    unsubscribe()
    changes = [event for event in events if isinstance(event, StateChanged)]
    assert all(map(is_in_table, changes))
    assert [change.after for change in changes] == [
        "admitted", "starting", "ready", "backoff", "starting", "ready", "draining", "stopped",
    ]  # fmt: skip
    outcomes = [event.outcome for event in events if isinstance(event, CallEnded)]
    assert outcomes == ["gone", "result"]
    assert [event.added for event in events if isinstance(event, OfferChanged)] == [("divide",)]


def is_in_table(change: StateChanged) -> bool:
    """Return whether an event of the life cycle leads from the one state to the other."""
    for event in Event:
        with contextlib.suppress(LookupError):  # the state has no such event
            if step(State(change.before), event).value == change.after:
                return True
    return False


async def test_a_listener_that_fails_does_not_affect_others() -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:

        def fail(event: CallEnded) -> None:
            raise ZeroDivisionError

        host.events.subscribe(CallEnded, fail)
        assert (await host.call_tool("ext_a_echo", {"x": 1})).data == {"x": 1}


@shows("morphir-manager-05")
async def test_the_audit_has_a_line_for_each_call_with_its_context(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audited_config = config(entry("a"), audit={"path": str(path)})
    async with exthost.Host.from_config(audited_config) as host:
        await host.call_tool("ext_a_echo", {"x": 1}, context={"agent_id": "a1"})
        with pytest.raises(errors.CallFailed):
            await host["a"].call("no such method")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["result", "error"]
    assert lines[0]["context"] == {"agent_id": "a1"}
    assert (lines[0]["extension"], lines[0]["method"]) == ("a", "echo")
    assert os.stat(path).st_mode & 0o077 == 0  # noqa: PTH116


async def test_a_registered_name_of_two_tools_belongs_to_the_first_extension() -> None:
    async with exthost.Host.from_config(config(entry("a.b"), entry("a_b"))) as host:
        assert host.tools["ext_a_b_echo"].extension == "a.b"
        await host.unload("a.b")
        assert host.tools["ext_a_b_echo"].extension == "a_b"


async def test_the_error_for_a_missing_facet_names_the_dialect() -> None:
    """A facet is an attribute with the functions of one kind of extension. morphir has tools only,
    so that its extensions do not have `inference`."""
    async with exthost.Host.from_config(config(entry("a"))) as host:
        with pytest.raises(errors.UsageError, match="morphir"):
            _ = host["a"].inference
        assert not hasattr(host["a"], "inference")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_using_a_host_that_is_not_open_is_an_error(when: str) -> None:
    host = exthost.Host.from_config(config(entry("a")))
    if when == "after":
        async with host:
            pass
    for use in (
        lambda: host.call_tool("ext_a_echo", {}),
        lambda: host.find_tool("echo"),
        lambda: host.load(entry("b")),
        lambda: host.replace(spec_from_mapping(entry("b"))),
        lambda: host.reload(config(entry("b"))),
        lambda: host.configure("a", "key", "value"),
        lambda: host.unload("a"),
    ):
        with pytest.raises(errors.UsageError) as caught:
            await use()
        assert caught.value.code == HOST_NOT_OPEN
    assert len(host) == 0
    with pytest.raises(errors.UsageError) as caught:
        host["a"]
    assert caught.value.code == HOST_NOT_OPEN


async def check_cannot_start(ext: Extension) -> None:
    """Check that nothing starts the extension again, and that no error advises to restart it."""
    for use in (ext.restart, ext.start):
        with pytest.raises(errors.UsageError) as caught:
            await use()
        assert caught.value.code == HOST_NOT_OPEN and caught.value.extension == ext.id
    with pytest.raises(errors.ExtensionGone) as gone:
        await ext.call("echo")
    assert "restart" not in gone.value.help and "open host" in gone.value.help
    assert ext.state == "stopped" and not ext.internals.queue.live_sessions


async def test_an_extension_cannot_start_after_its_host_was_closed() -> None:
    async with exthost.Host.from_config(config(entry("a"), entry("lazy", start="lazy"))) as host:
        extensions = [host["a"], host["lazy"]]
    async with exthost.connect([sys.executable, "-S", "-E", TEXT], dialect="morphir") as connection:
        assert await connection.call("echo", 1) == 1
    for ext in (*extensions, connection):
        await check_cannot_start(ext)


async def test_a_removed_or_replaced_extension_cannot_start() -> None:
    async with exthost.Host.from_config(config(entry("a"), entry("b"))) as host:
        removed, replaced = host["a"], host["b"]
        await host.unload("a")
        await host.replace(spec_from_mapping(entry("b", limits={"call": 7})))
        await replaced.close()  # wait for its end
        for ext in (removed, replaced):
            await check_cannot_start(ext)
        await host["b"].close()
        await host["b"].restart()  # an extension that was only stopped can be restarted
        assert host["b"].state == "ready"


@pytest.mark.parametrize("name", [None, 5, b"a", ["a"], {"a": 1}])
async def test_a_name_that_is_not_a_string_is_reported(name: Any) -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:
        uses: list[Callable[[], Any]] = [
            lambda: host["a"].call(name),
            lambda: host["a"].call_tool(name),
            lambda: host["a"].stream(name),
            lambda: host.call_tool(name),
            lambda: host.find_tool(name),
            lambda: host.complete(name, []),
            lambda: host.unload(name),
            lambda: host[name],
        ]
        for use in uses:
            with pytest.raises(errors.UsageError, match="must be a string, not") as caught:
                await asyncio.wait_for(use(), 120)
            assert caught.value.code == "X1335"
        assert host["a"].state == "ready"


@pytest.mark.parametrize("host_class", [exthost.Host, exthost.SyncHost])
def test_the_error_for_a_host_with_a_path_or_dict_names_from_config(host_class: Any) -> None:
    for argument in ("exthost.toml", Path("exthost.toml"), {}, config(entry("a"))):
        with pytest.raises(errors.UsageError, match="from_config") as caught:
            host_class(argument)
        assert caught.value.code == "X1339"


@pytest.mark.parametrize("host_class", [exthost.Host, exthost.SyncHost])
def test_a_config_that_is_neither_a_path_nor_a_dict_is_reported(host_class: Any) -> None:
    for argument in (None, 5, [entry("a")]):
        with pytest.raises(errors.UsageError, match="a path or a dict") as caught:
            host_class.from_config(argument)
        assert caught.value.code == "X1339"


async def test_a_timeout_larger_than_any_float_is_accepted() -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:
        assert await host["a"].call("echo", 1, timeout=10**400) == 1


@pytest.mark.parametrize("timeout", ["5s", float("nan"), [1]])
async def test_a_timeout_that_is_not_a_number_of_seconds_is_reported(timeout: Any) -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:
        for use in (
            host["a"].call("echo", 1, timeout=timeout),
            host.call_tool("a:echo", {"n": 1}, timeout=timeout),
            host["a"].notify("echo", timeout=timeout),
            host.hooks.run("before_tool_call", {}, timeout=timeout),
        ):
            with pytest.raises(errors.UsageError) as caught:
                await asyncio.wait_for(use, 120)
            assert caught.value.code == "X1318"
        with pytest.raises(errors.UsageError):
            host["a"].stream("echo", timeout=timeout)


async def test_arguments_that_are_not_json_are_reported_and_nothing_is_sent() -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:
        for arguments in (b"x", {"x"}):
            with pytest.raises(errors.UsageError) as caught:
                await host.call_tool("ext_a_shout", arguments)
            assert caught.value.code == "X1301"
        assert host["a"].stats.calls == 0


async def listen_async(progress: Any) -> None:
    raise AssertionError


@pytest.mark.parametrize("on_progress", [5, "print", listen_async])
async def test_an_invalid_progress_callback_is_reported(on_progress: Any) -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:
        for use in (host.call_tool, partial(host.call_tool, hooks=False)):
            with pytest.raises(errors.UsageError, match="on_progress must be a") as caught:
                await use("ext_a_echo", {"n": 1}, on_progress=on_progress)
            assert caught.value.code == "X1332"
        assert host["a"].stats.calls == 0


async def test_a_call_with_a_negative_timeout_starts_no_extension() -> None:
    async with exthost.Host.from_config(config(entry("a", start="lazy"))) as host:
        for use in (host.call_tool, partial(host.call_tool, hooks=False)):
            with pytest.raises(errors.CallTimeout, match="was not sent"):
                await use("ext_a_echo", {}, timeout=-0.5)
        assert host["a"].state == "admitted"


async def test_a_call_in_another_loop_is_an_error() -> None:
    async with exthost.Host.from_config(config(entry("a"))) as host:

        def code_of_error_in_other_loop(use: Callable[[], Any]) -> str:
            with pytest.raises(errors.UsageError) as caught:
                asyncio.run(use())
            return caught.value.code

        for use in (lambda: host["a"].call("echo", 1), lambda: host["a"].call_tool("echo", {})):
            thread = asyncio.to_thread(code_of_error_in_other_loop, use)
            assert await asyncio.wait_for(thread, 25) == "X1319"
        assert await host["a"].call("echo", 2) == 2


async def test_the_error_for_a_tool_of_a_failed_extension_has_the_reason() -> None:
    failing_entry = entry("a", FRAGILE, restart={"strategy": "never"})
    missing_program = {**entry("b"), "source": {"type": "process", "command": "no-such-program"}}
    async with exthost.Host.from_config(config(failing_entry, missing_program)) as host:
        with pytest.raises(errors.ExtensionGone):
            await host.call_tool("ext_a_divide", {"a": 1, "b": 0})
        await wait_until(lambda: host["a"].state == "failed")
        for name in ("ext_a_divide", "a:divide", "divide"):
            with pytest.raises(errors.ExtensionGone) as gone:
                await host.call_tool(name, {"a": 1, "b": 1})
            assert gone.value.extension == "a" and "exited with 1" in gone.value.message
        with pytest.raises(errors.SpawnFailed):
            await host.call_tool("ext_b_anything", {})
        with pytest.raises(errors.NotFound):
            await host.call_tool("ext_c_anything", {})


@shows("morphir-config-02")
async def test_an_entry_of_an_unsupported_type_is_refused_and_others_run() -> None:
    unsupported = {"name": "far", "source": {"type": "grpc", "url": "http://x"}}
    async with exthost.Host.from_config(config(unsupported, entry("near"))) as host:
        assert host["far"].state == "refused" and host["near"].state == "ready"
        assert [diagnostic.extension for diagnostic in host.diagnostics] == ["far"]
        assert "grpc" in host.diagnostics[0].message


async def test_the_log_line_of_a_failed_extension_has_the_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing_entry = {"name": "a", "source": {"type": "process", "command": "no-such-program-here"}}
    with caplog.at_level(logging.WARNING, "exthost.states"):
        async with exthost.Host.from_config({"extensions": [failing_entry]}):
            pass
    [line] = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert "there is no program 'no-such-program-here'" in line and "[X0401]" in line


@pytest.mark.parametrize(
    "make",
    [
        lambda: exthost.connect(["x"]),
        lambda: exthost.connect(["x"], dialect="mcp"),
        lambda: exthost.Host(),
        lambda: exthost.attach("x.toml"),
    ],
)
def test_a_plain_with_of_an_asynchronous_object_is_an_error_with_advice(make: Any) -> None:
    with pytest.raises(errors.UsageError) as caught, make():
        pass
    assert caught.value.code == "X1803" and "async with" in caught.value.help
