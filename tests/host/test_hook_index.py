"""The index of hooks is built once, and again after an extension changes.

A hook is a function of an extension that the host calls at an event, such as `before_tool_call`.
The index says which extensions have which hooks, so that a call need not ask each extension.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import exthost
from exthost.dialects import find
from exthost.errors import Refused
from exthost.host.hook_index import HookIndex
from exthost.model.offer import Offer
from exthost.model.spec import Pins, Spec
from tests.extensions.harness import error_of
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.synaps_tree import write_plugin

TOOL = "ext_tools_echo"


class FakeExtension:
    """The attributes of an extension that the index uses. Counts how often its offer is read.

    `may_have_hooks`: the extension has not started yet, so its hooks are unknown.
    """

    def __init__(self, *hooks: str, priority: int = 0, may_have_hooks: bool = False) -> None:
        self.spec = Spec(id="x", argv=(), priority=priority)
        self.state = "ready"
        self.dialect = find.find_dialect("nexo")
        self.may_have_hooks = may_have_hooks
        self.internals = self
        self.hooks = hooks
        self.times_read = 0

    @property
    def offer(self) -> Offer:
        self.times_read += 1
        return Offer(hooks=self.hooks)


def test_extensions_are_read_once_until_they_change() -> None:
    extensions = [FakeExtension("before"), FakeExtension()]
    index = HookIndex(lambda: extensions)
    for _ in range(3):
        assert index.extensions_with("before") == (extensions[0],)
        assert index.extensions_with("after") == ()
        assert not index.is_empty and index.with_unknown_hooks == ()
    assert [extension.times_read for extension in extensions] == [1, 1]
    extensions[1].hooks = ("after",)
    index.mark_stale()
    assert index.extensions_with("after") == (extensions[1],)


def test_an_extension_that_offers_a_hook_twice_is_listed_once() -> None:
    extension = FakeExtension("before", "before")
    assert HookIndex(lambda: [extension]).extensions_with("before") == (extension,)


def test_an_extension_whose_hooks_are_unknown_is_in_the_index() -> None:
    extension = FakeExtension(may_have_hooks=True)
    index = HookIndex(lambda: [extension])
    assert index.with_unknown_hooks == (extension,) and not index.is_empty
    assert HookIndex[FakeExtension](list).is_empty


def test_a_refused_extension_with_a_pinned_manifest_counts_as_having_every_blocking_hook() -> None:
    """If the manifest is not the pinned one, nobody knows which calls the real one would block. A
    pinned program does not say which hooks the extension has."""
    extension, other = FakeExtension(), FakeExtension("before_tool_call")
    index = HookIndex(lambda: [extension, other])
    for pins in (Pins(manifest="0" * 64), Pins(package="0" * 64)):
        extension.spec, extension.state = replace(extension.spec, sha256=pins), "refused"
        index.mark_stale()
        assert index.extensions_with("before_tool_call") == (other, extension)
        assert index.extensions_with("before_message") == (extension,) and not index.is_empty
        assert index.extensions_with("after_tool_call") == ()
        extension.state = "ready"
        index.mark_stale()
        assert index.extensions_with("before_message") == ()
    extension.spec = replace(extension.spec, sha256=Pins(program="0" * 64))
    extension.state = "refused"
    index.mark_stale()
    assert index.extensions_with("before_message") == ()


async def test_a_hook_blocks_calls_from_load_until_unload(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tools")
    behaviour = {
        "offer": {"hooks": ["before_tool_call"]},
        "hooks": {"before_tool_call": {"abort": True, "reason": "no"}},
    }
    command = {
        "type": "process",
        "command": sys.executable,
        "args": [str(NEXO), json.dumps(behaviour)],
    }
    document: dict[str, Any] = {"discovery": {"search_paths": [str(tmp_path)]}}
    async with exthost.Host.from_config(document) as host:
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
        await host.load({"name": "guard", "dialect": "nexo", "source": command})
        assert isinstance(await error_of(host.call_tool(TOOL, {"a": 1})), Refused)
        await host["guard"].restart()
        assert isinstance(await error_of(host.call_tool(TOOL, {"a": 1})), Refused)
        await host.unload("guard")
        assert (await host.call_tool(TOOL, {"a": 1})).data == {"a": 1}
