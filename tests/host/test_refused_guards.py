"""While a guard is refused, the calls that it would decide about are blocked.

A guard is an extension with a `before_tool_call` hook: the host asks it before each tool call, and
it can block the call. A host refuses an extension that it must not start, for example because the
manifest is invalid or the program is not the one that `sha256` pins. Without this rule, a call
would pass unchecked whenever the guard is broken. `RefusedGuard` writes a config with such a guard
and with the tools that it guards. `write_plugin` writes an extension of the dialect synaps, and
`nexo_plugin` one of nexo; ALLOW and BEFORE make a guard that allows every call.
"""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

import exthost
from exthost.errors import Refused
from tests.extensions.harness import error_of
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.nexo_tree import write_plugin as nexo_plugin
from tests.extensions.synaps_tree import write_plugin
from tests.faces.cli.cli_process import run_inside
from tests.faces.gateway.gateway_process import (
    extension,
    http_client,
    http_gateway,
    stdio_client,
    write_config,
)
from tests.faces.web.page_process import page
from tests.host.refused_guard import (
    ALLOW,
    BEFORE,
    REASONS,
    TOOL,
    RefusedGuard,
    broken_json,
    manifest_path,
    rewrite,
    unknown_permission,
)

for_each_reason = pytest.mark.parametrize("reason", REASONS)

# The codes of the errors for calls that a guard would decide about.
GUARD_FAILED = "X0333"  # the guard is refused, or its hook failed
REQUIRED_GUARD_MISSING = "X0353"  # `[hooks] required` names it, and it is not there
UNCONFIRMED = "X0354"  # the guard demands that a person confirms, and nobody can be asked

# The code of the report on a manifest that is invalid and belongs to a guard.
BROKEN_GUARD_MANIFEST = "X0352"


# -- all interfaces that call tools -----------------------------------------------------------


@for_each_reason
async def test_no_call_of_a_program_passes_a_guard_that_is_refused(
    tmp_path: Path, reason: str
) -> None:
    refused = RefusedGuard(tmp_path, reason)
    config = write_config(tmp_path, refused.document)
    async with (
        exthost.Host.from_config(config, control=True) as host,
        exthost.attach(config) as attached,
    ):
        assert host["guard"].state == "refused"
        for call in (
            host.call_tool(TOOL, {"a": 1}),
            host.call_tool("tools:echo", {"a": 1}),
            host.call_tool("echo", {"a": 1}),
            host["tools"].call_tool("echo", {"a": 1}),
            attached.call_tool(TOOL, {"a": 1}),
            attached["tools"].call_tool("echo", {"a": 1}),
        ):
            error = await error_of(call)
            assert isinstance(error, Refused) and error.code == GUARD_FAILED, error
            assert error.extension == "guard"
        use = {"type": "tool_use", "id": "1", "name": TOOL, "input": {"a": 1}}
        [answer] = await host.run_calls([use])
        assert answer["content"][0]["is_error"]
        refused.check_no_call_passed()
        # The program can pass by the hooks: with a method of the protocol, or with hooks=False.
        assert (await host["tools"].call("tool.call", {"name": "echo", "input": {}})) is not None
        assert (await host.call_tool(TOOL, {"a": 1}, hooks=False)).data == {"a": 1}


@for_each_reason
def test_no_blocking_call_passes_a_guard_that_is_refused(tmp_path: Path, reason: str) -> None:
    refused = RefusedGuard(tmp_path, reason)
    with exthost.SyncHost.from_config(refused.document) as host:
        for call in (host.call_tool, host["tools"].call_tool):
            name = TOOL if call == host.call_tool else "echo"
            with pytest.raises(Refused) as caught:
                call(name, {"a": 1})
            assert caught.value.code == GUARD_FAILED
        refused.check_no_call_passed()
        assert host.call_tool(TOOL, {"a": 1}, hooks=False).data == {"a": 1}


@for_each_reason
@pytest.mark.more
def test_no_call_of_the_command_line_passes_a_guard_that_is_refused(
    tmp_path: Path, reason: str
) -> None:
    refused = RefusedGuard(tmp_path, reason)
    write_config(tmp_path, refused.document)
    for command in ((TOOL,), ("tools", "echo")):
        outcome = run_inside("call", *command, "a=1", "--json", cwd=tmp_path)
        assert outcome.returncode == 4, outcome
        assert json.loads(outcome.stdout)["error"]["code"] == GUARD_FAILED
    refused.check_no_call_passed()
    outcome = run_inside("call", TOOL, "a=1", "--no-hooks", "--json", cwd=tmp_path)
    assert json.loads(outcome.stdout) == {"a": 1}, outcome


@for_each_reason
@pytest.mark.more
async def test_no_call_of_the_gateway_passes_a_guard_that_is_refused(
    tmp_path: Path, reason: str
) -> None:
    refused = RefusedGuard(tmp_path, reason)
    config = write_config(tmp_path, refused.document)
    async with stdio_client(config, "handshake") as client:
        result = await client.call_tool(TOOL, {"a": 1})
        assert result.is_error and result.meta is not None
        assert result.meta["exthost/error"]["code"] == GUARD_FAILED
    with http_gateway(config) as running:
        async with http_client(running, "stateless") as client:
            result = await client.call_tool(TOOL, {"a": 1})
            assert result.is_error and result.meta is not None
            assert result.meta["exthost/error"]["code"] == GUARD_FAILED
    refused.check_no_call_passed()


@for_each_reason
@pytest.mark.more
def test_no_call_of_the_page_or_of_a_running_host_passes_a_guard_that_is_refused(
    tmp_path: Path, reason: str
) -> None:
    refused = RefusedGuard(tmp_path, reason)
    write_config(tmp_path, refused.document)
    with page(tmp_path) as served:
        call = {"extension": "tools", "tool": "echo", "arguments": {"a": 1}}
        response = httpx2.post(f"{served.url}api/call", json=call, headers=served.headers)
        assert GUARD_FAILED in response.text and '"result"' not in response.text
        outcome = run_inside("call", TOOL, "a=1", "--json", cwd=tmp_path)
        assert "through the running host" in outcome.stderr
        assert json.loads(outcome.stdout)["error"]["code"] == GUARD_FAILED
        refused.check_no_call_passed()
        outcome = run_inside("call", TOOL, "a=1", "--json", "--no-hooks", cwd=tmp_path)
        assert json.loads(outcome.stdout) == {"a": 1}


# -- the error, and what the operator can do --------------------------------------------------


async def test_the_error_has_the_cause_and_names_the_remedies(tmp_path: Path) -> None:
    refused = RefusedGuard(tmp_path, "unknown_permission")
    async with exthost.Host.from_config(refused.document) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert "tools.dream" in error.message and "guard" in error.message
        for remedy in ("exthost disable guard", "ignore_dirs", "remove", '[hooks] on_failure = "'):
            assert remedy in error.help, remedy
        [diagnostic] = [item for item in host.diagnostics if item.code == BROKEN_GUARD_MANIFEST]
        assert diagnostic.extension == "guard"


def _disable(refused: RefusedGuard) -> None:
    write_config(refused.folder, refused.document)
    outcome = run_inside("disable", "guard", cwd=refused.folder)
    assert outcome.returncode == 0, outcome


def _ignore(refused: RefusedGuard) -> None:
    refused.document["discovery"]["ignore_dirs"] = ["guard"]


def _remove(refused: RefusedGuard) -> None:
    manifest_path(refused.guard).unlink()


def _allow_only_tools(refused: RefusedGuard) -> None:
    refused.document["discovery"]["allowlist"] = ["tools"]


def _fail_open(refused: RefusedGuard) -> None:
    refused.document["hooks"] = {"on_failure": "open"}


def _override(refused: RefusedGuard) -> None:
    refused.document["overrides"] = {"guard": {"hooks": {"on_failure": "open"}}}


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize(
    "remedy", [_disable, _ignore, _remove, _allow_only_tools, _fail_open, _override]
)
@pytest.mark.parametrize("reason", ["unknown_permission", "broken_json"])
async def test_the_operator_can_make_a_refused_guard_block_nothing(
    tmp_path: Path, reason: str, remedy: Any
) -> None:
    # A host in which the guard is not refused records that it has a hook. Only the config of this
    # RefusedGuard would refuse it; its manifest is valid.
    valid_guard = RefusedGuard(tmp_path, "wrong_pin")
    async with exthost.Host.from_config({"discovery": valid_guard.document["discovery"]}):
        pass
    refused = RefusedGuard(tmp_path, reason)
    remedy(refused)
    config = tmp_path / "exthost.toml"
    if not config.exists():  # `exthost disable` edits the file, the others the document
        write_config(tmp_path, refused.document)
    async with exthost.Host.from_config(config) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


# -- only the calls that the guard would decide about -----------------------------------------


async def test_only_the_calls_that_match_the_hook_are_blocked(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tools")
    only_rm = {**BEFORE, "tool": "tools:echo", "match": {"input_contains": "rm"}}
    guard = write_plugin(tmp_path / "guard", ALLOW, hooks=[only_rm])
    document = {"discovery": {"search_paths": [str(tmp_path)]}}
    async with exthost.Host.from_config(document) as host:
        assert (await host.call_tool(TOOL, {"a": "rm"})).data == {"a": "rm"}
    for break_manifest in (unknown_permission, broken_json):
        break_manifest(guard)
        async with exthost.Host.from_config(document) as host:
            assert (await error_of(host.call_tool(TOOL, {"a": "rm"}))).code == GUARD_FAILED
            assert (await host.call_tool(TOOL, {"a": "ls"})).data == {"a": "ls"}


async def test_an_unreadable_manifest_that_is_new_blocks_like_a_guard(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "tools")
    broken_json(write_plugin(tmp_path / "new"))
    async with exthost.Host.from_config({"discovery": {"search_paths": [str(tmp_path)]}}) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == GUARD_FAILED and error.extension == "new"
        assert (await host.hooks.run("before_message", {"message": "hi"})).stopped is False


# An after_tool_call hook is informed of calls, and cannot block them.
@pytest.mark.parametrize("hooks", [[], [{"hook": "after_tool_call"}]])
async def test_an_extension_without_such_hooks_blocks_nothing_when_its_manifest_breaks(
    tmp_path: Path, hooks: list[Any]
) -> None:
    write_plugin(tmp_path / "tools")
    harmless = write_plugin(tmp_path / "harmless", hooks=hooks)
    document = {"discovery": {"search_paths": [str(tmp_path)]}}
    async with exthost.Host.from_config(document):
        pass  # the host records which hooks each extension has
    for break_manifest in (unknown_permission, broken_json):
        break_manifest(harmless)
        async with exthost.Host.from_config(document) as host:
            assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


async def test_a_broken_manifest_with_a_wrong_pin_blocks_like_a_guard(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tools")
    unknown_permission(write_plugin(tmp_path / "harmless"))
    document = {
        "discovery": {"search_paths": [str(tmp_path)]},
        "overrides": {"harmless": {"sha256": {"manifest": "0" * 64}}},
    }
    async with exthost.Host.from_config(document) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == GUARD_FAILED and error.extension == "harmless"


async def test_a_guard_blocks_even_if_its_broken_manifest_has_no_hooks(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tools")
    guard = write_plugin(tmp_path / "guard", ALLOW, hooks=[BEFORE])
    document = {"discovery": {"search_paths": [str(tmp_path)]}}
    async with exthost.Host.from_config(document):
        pass  # the host records that `guard` has a hook
    rewrite(guard, hooks=[], permissions=["tools.dream"])
    async with exthost.Host.from_config(document) as host:
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == GUARD_FAILED


@pytest.mark.parametrize("text", ["[plugin", '[plugin]\nid = "guard"\n', ""])
async def test_a_guard_of_nexo_whose_manifest_breaks_blocks(tmp_path: Path, text: str) -> None:
    write_plugin(tmp_path / "tools")
    behaviour = {"offer": {"hooks": ["before_tool_call"]}, "hooks": {"before_tool_call": {}}}
    nexo_plugin(tmp_path / "folder", "guard", behaviour=behaviour)
    document = {"discovery": {"search_paths": [str(tmp_path)]}}
    async with exthost.Host.from_config(document) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
    (tmp_path / "folder" / "plugin.toml").write_text(text)
    async with exthost.Host.from_config(document) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == GUARD_FAILED and error.extension == "guard"
    config = write_config(tmp_path, document)
    assert run_inside("disable", "guard", cwd=tmp_path).returncode == 0
    async with exthost.Host.from_config(config) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


# The tables of a plugin.toml in the flat shape of nexo, and in that of its second contract. Each is
# valid without the hooks that a test adds to it.
FLAT = """
[plugin]
id = "guard"
version = "1.0.0"
[transport]
kind = "stdio"
command = "./guard"
[capabilities]
tools = ["guard_look"]
"""
SECOND = """
manifest_version = 2
[plugin]
id = "guard"
version = "1.0.0"
name = "Guard"
description = "Judges calls"
min_nexo_version = ">=0.1.0"
[plugin.entrypoint]
command = "./guard"
[plugin.extends]
tools = ["guard_look"]
"""
INVALID_HOOKS = [
    'hook = ["before_tool_call"]',
    'hook = "before_tool_call"',
    'Hooks = ["before_tool_call"]',
    'hooks = "before_tool_call"',
    'hooks = "before tool call"',
    'hooks = ["Before-Tool-Call"]',
    "hooks = [1]",
    "hooks = true",
    "hooks = { before_tool_call = true }",
    'hooks = [{ name = "before_tool_call" }]',
    'guards = ["before_tool_call"]',
    'hooks = ["before_tool_call"]\ntool = []',
]


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("hooks", INVALID_HOOKS)
@pytest.mark.parametrize("manifest", [FLAT, SECOND], ids=["flat", "second"])
@pytest.mark.sampled
async def test_an_invalid_declaration_of_hooks_in_a_nexo_manifest_blocks(
    tmp_path: Path, manifest: str, hooks: str, is_known: bool
) -> None:
    write_plugin(tmp_path / "tools")
    (tmp_path / "guard").mkdir()
    path = tmp_path / "guard" / "plugin.toml"
    document = {"discovery": {"search_paths": [str(tmp_path)]}}
    if is_known:  # the host records that the extension declares no hooks
        path.write_text(manifest)
        async with exthost.Host.from_config(document) as host:
            assert "guard" in host
    path.write_text(f"{manifest}{hooks}\n")
    async with exthost.Host.from_config(document) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == GUARD_FAILED and error.extension == "guard"


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    "declaration",
    [
        {"hook": [BEFORE]},
        {"Hooks": BEFORE},
        {"hooks": BEFORE},
        {"hooks": {"before_tool_call": {}}},
        {"hooks": ["before_tool_call"]},
        {"hooks": [["before_tool_call"]]},
        {"hooks": "before_tool_call"},
        {"hooks": False},
    ],
)
@pytest.mark.sampled
async def test_an_invalid_declaration_of_hooks_in_a_synaps_manifest_blocks(
    tmp_path: Path, declaration: dict[str, Any], is_known: bool
) -> None:
    write_plugin(tmp_path / "tools")
    guard = write_plugin(tmp_path / "guard", ALLOW)
    document = {"discovery": {"search_paths": [str(tmp_path)]}}
    if is_known:  # the host records that the extension declares no hooks
        async with exthost.Host.from_config(document) as host:
            assert "guard" in host
    # Without a valid hook, the permission is not enough for a plugin.
    rewrite(guard, **{"hooks": None, **declaration}, permissions=["tools.intercept"])
    async with exthost.Host.from_config(document) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == GUARD_FAILED and error.extension == "guard"


@pytest.mark.parametrize("hooks", ['hooks = ["after_tool_call"]', "hooks = []", ""])
@pytest.mark.parametrize("manifest", [FLAT, SECOND], ids=["flat", "second"])
async def test_another_mistake_in_a_nexo_manifest_blocks_nothing(
    tmp_path: Path, manifest: str, hooks: str
) -> None:
    write_plugin(tmp_path / "tools")
    (tmp_path / "guard").mkdir()
    path = tmp_path / "guard" / "plugin.toml"
    path.write_text(f'{manifest}{hooks}\nprovider = ["x"]\n')
    async with exthost.Host.from_config({"discovery": {"search_paths": [str(tmp_path)]}}) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


@pytest.mark.parametrize(
    # is_known: an earlier host has read the valid manifest, and recorded its id and its hooks
    ("allowlist", "is_known", "is_blocked"),
    [
        (["tools", "guard"], True, True),
        (["tools"], True, False),
        (["tools", "guard"], False, True),
        (["tools"], False, False),
    ],
)
async def test_a_manifest_without_an_id_blocks_if_the_allowlist_may_include_it(
    tmp_path: Path, allowlist: list[str], is_known: bool, is_blocked: bool
) -> None:
    write_plugin(tmp_path / "tools")
    behaviour = {"offer": {"hooks": ["before_tool_call"]}, "hooks": {"before_tool_call": {}}}
    nexo_plugin(tmp_path / "folder", "guard", behaviour=behaviour)
    document: dict[str, Any] = {"discovery": {"search_paths": [str(tmp_path)]}}
    if is_known:
        async with exthost.Host.from_config(document):
            pass
    (tmp_path / "folder" / "plugin.toml").write_text("[plugin")
    document["discovery"]["allowlist"] = allowlist
    async with exthost.Host.from_config(document) as host:
        if is_blocked:
            assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == GUARD_FAILED
        else:
            assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


async def test_hooks_announced_in_a_handshake_are_known_to_the_next_host(
    tmp_path: Path,
) -> None:
    """An extension of a config entry has no manifest: it announces its hooks when it starts."""
    write_plugin(tmp_path / "plugins" / "tools")
    behaviour = {"offer": {"hooks": ["before_tool_call"]}, "hooks": {"before_tool_call": {}}}
    guard = extension("guard", "nexo", "-S", "-E", str(NEXO), json.dumps(behaviour))
    document = {
        "discovery": {"search_paths": [str(tmp_path / "plugins")]},
        "extensions": [guard],
    }
    config = write_config(tmp_path, document)
    async with exthost.Host.from_config(config) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
    guard["sha256"] = {"program": "0" * 64}  # the program does not have this hash
    write_config(tmp_path, document)
    async with exthost.Host.from_config(config) as host:
        assert host["guard"].state == "refused"
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == GUARD_FAILED
    guard["enabled"] = False
    write_config(tmp_path, document)
    async with exthost.Host.from_config(config) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


async def test_a_guard_in_the_config_whose_manifest_breaks_blocks(tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins" / "tools")
    guard = write_plugin(tmp_path / "guard", ALLOW, hooks=[BEFORE])
    entry = extension("guard", "synaps", "-c", "", manifest=str(manifest_path(guard)))
    document = {
        "discovery": {"search_paths": [str(tmp_path / "plugins")]},
        "extensions": [entry],
    }
    broken_json(guard)
    async with exthost.Host.from_config(document) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == GUARD_FAILED and error.extension == "guard"
    entry["enabled"] = False
    async with exthost.Host.from_config(document) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


# -- reload ----------------------------------------------------------------------------------------


async def test_a_reload_adds_and_removes_a_refused_guard(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    write_plugin(plugins / "tools")
    document = {"discovery": {"search_paths": [str(plugins)]}}
    config = write_config(tmp_path, document)
    async with exthost.Host.from_config(config) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
        guard = write_plugin(plugins / "guard", ALLOW, hooks=[BEFORE])
        valid_manifest = manifest_path(guard).read_text()
        unknown_permission(guard)
        outcome = await host.reload()
        assert [error.code for error in outcome.failed] == [BROKEN_GUARD_MANIFEST]
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == GUARD_FAILED
        manifest_path(guard).write_text(valid_manifest)
        await host.reload()
        assert host["guard"].state == "ready"
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
        broken_json(guard)  # the running guard continues
        await host.reload()
        assert host["guard"].state == "ready" and len(host) == 2
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
        document["discovery"]["disabled"] = ["guard"]
        write_config(tmp_path, document)
        await host.reload()
        assert "guard" not in host
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


async def test_a_reload_removes_a_refused_guard_whose_manifest_is_gone(tmp_path: Path) -> None:
    refused = RefusedGuard(tmp_path, "broken_json")
    config = write_config(tmp_path, refused.document)
    async with exthost.Host.from_config(config) as host:
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == GUARD_FAILED
        await host.reload()
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == GUARD_FAILED
        manifest_path(refused.guard).unlink()
        await host.reload()
        assert "guard" not in host
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}


# -- required guards -------------------------------------------------------------------------------


async def test_without_a_required_guard_no_tool_is_called(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    write_plugin(plugins / "tools")
    document: dict[str, Any] = {
        "discovery": {"search_paths": [str(plugins)]},
        "hooks": {"required": ["guard"]},
        "audit": {"path": str(tmp_path / "audit.jsonl")},
    }
    config = write_config(tmp_path, document)
    async with exthost.Host.from_config(config) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert isinstance(error, Refused) and error.code == REQUIRED_GUARD_MISSING
        assert "not found" in error.message and "required" in error.help
        assert REQUIRED_GUARD_MISSING in {diagnostic.code for diagnostic in host.diagnostics}
        assert (await host.call_tool(TOOL, {"a": 1}, hooks=False)).data == {"a": 1}
        write_plugin(plugins / "guard", ALLOW, hooks=[BEFORE])
        await host.reload()
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
        document["discovery"]["disabled"] = ["guard"]
        write_config(tmp_path, document)
        await host.reload()
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == REQUIRED_GUARD_MISSING
        document["hooks"] = {}
        write_config(tmp_path, document)
        await host.reload()
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert REQUIRED_GUARD_MISSING in {record.get("code") for record in records}


async def test_a_required_guard_without_a_hook_that_blocks_is_missing(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tools")
    write_plugin(tmp_path / "guard", hooks=[{"hook": "after_tool_call"}])
    document = {
        "discovery": {"search_paths": [str(tmp_path)]},
        "hooks": {"required": ["guard"], "on_failure": "open"},
    }
    async with exthost.Host.from_config(document) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == REQUIRED_GUARD_MISSING and "before_tool_call" in error.message


@pytest.mark.parametrize("verb", ["validate", "doctor", "list"])
def test_the_command_line_reports_a_required_guard_that_is_missing(
    tmp_path: Path, verb: str
) -> None:
    write_plugin(tmp_path / "plugins" / "tools")
    document = {
        "discovery": {"search_paths": [str(tmp_path / "plugins")]},
        "hooks": {"required": ["guard"]},
    }
    write_config(tmp_path, document)
    outcome = run_inside(verb, cwd=tmp_path)
    assert "[hooks] requires the guard guard" in outcome.stdout + outcome.stderr
    assert outcome.returncode == (0 if verb == "list" else 3)


# -- match -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("validate",), ("doctor",), ("check", "plugins/guard")])
def test_the_error_for_an_unknown_match_key_names_the_key_with_the_nearest_name(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    hook = {**BEFORE, "match": {"input_contain": "rm"}}
    write_plugin(tmp_path / "plugins" / "guard", ALLOW, hooks=[hook])
    write_config(tmp_path, {"discovery": {"search_paths": [str(tmp_path / "plugins")]}})
    outcome = run_inside(*command, cwd=tmp_path)
    text = outcome.stdout + outcome.stderr
    assert "'input_contain'" in text and "did you mean 'input_contains'?" in text
    assert outcome.returncode == (1 if command[0] == "check" else 3)


# -- confirmation in the gateway -----------------------------------------------------------------


@pytest.mark.more
async def test_a_call_that_a_person_has_to_confirm_is_refused_by_the_gateway(
    tmp_path: Path,
) -> None:
    received = tmp_path / "received"
    write_plugin(tmp_path / "plugins" / "tools", {"heard": str(received)})
    confirm = {"hooks": {"before_tool_call": {"action": "confirm", "message": "really?"}}}
    write_plugin(tmp_path / "plugins" / "guard", confirm, hooks=[BEFORE])
    config = write_config(tmp_path, {"discovery": {"search_paths": [str(tmp_path / "plugins")]}})
    async with stdio_client(config, "handshake") as client:
        result = await client.call_tool(TOOL, {"a": 1})
    assert result.is_error and result.meta is not None
    report = result.meta["exthost/error"]
    assert report["code"] == UNCONFIRMED
    assert "really?" in report["message"] and "gateway" in report["help"]
    assert "tool.call" not in received.read_text()
