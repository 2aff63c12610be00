"""Chooses which tools of an extension exist for its host, by the setting `tools`. No I/O.

    [[extensions]]
    tools = { allow = ["get_*", "search"], rename = { search = "search_wiki" } }

This is the one place where the tools that an extension announced become the tools that a host has.
A tool that is not chosen is not listed and cannot be called by name. Patterns and names are those
of the extension itself, before any renaming. `deny` takes precedence over `allow`.

If the extension itself has a tool `search_wiki`, too, that tool is hidden, because an extension
must not be able to take a name that the operator gave to another tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from exthost.model.documents.setting_keys import ToolSettings
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.patterns import compile_pattern, fits_any

if TYPE_CHECKING:
    from exthost.model.offer import Tool

_NO_CHOICE = ToolSettings()


class HiddenTool(NamedTuple):
    """A tool that does not exist for the host, and why."""

    tool: Tool
    reason: str


class ChosenTools(NamedTuple):
    """The tools of an extension: those that exist for the host, by name, and the hidden ones."""

    tools: Mapping[str, Tool]
    hidden: tuple[HiddenTool, ...] = ()


def choose_tools(offered: Iterable[Tool], settings: ToolSettings) -> ChosenTools:
    """Return the tools that an operator chose of those that an extension offers."""
    if settings == _NO_CHOICE:
        return ChosenTools({tool.name: tool for tool in offered} or EMPTY_MAPPING)
    # An extension may announce a name twice; the last one counts, as without a choice.
    by_name = {tool.name: tool for tool in offered}
    new_names, new_descriptions = dict(settings.rename or ()), dict(settings.describe or ())
    old_names = {new_names[name]: name for name in by_name if name in new_names}
    tools: dict[str, Tool] = {}
    hidden: list[HiddenTool] = []
    for name, tool in by_name.items():
        new_name = new_names.get(name, name)
        reason = _reason_to_hide(name, settings)
        if not reason and old_names.get(new_name, name) != name:
            reason = f"{old_names[new_name]!r} has its name, by tools.rename"
        if reason:
            hidden.append(HiddenTool(tool, reason))
            continue
        if new_name != name:
            tool = replace(tool, name=new_name, original_name=name)
        if name in new_descriptions:
            tool = replace(tool, description=new_descriptions[name])
        tools[new_name] = tool
    return ChosenTools(tools, tuple(hidden))


def _reason_to_hide(name: str, settings: ToolSettings) -> str:
    """Return why a tool of this name is hidden, or ""."""
    for pattern in settings.deny or ():
        if compile_pattern(pattern)(name):
            return f"tools.deny has {pattern!r}"
    if settings.allow is not None and not fits_any(name, settings.allow):
        return "tools.allow has no pattern for it"
    return ""


def find_unused(offered: Iterable[Tool], settings: ToolSettings) -> list[str]:
    """Return a sentence for each pattern or name of the setting that fits none of the tools."""
    names = [tool.name for tool in offered]
    unused = [
        f"tools.{key} has {pattern!r}, which fits none of its tools"
        for key, patterns in (("allow", settings.allow), ("deny", settings.deny))
        for pattern in patterns or ()
        if not any(map(compile_pattern(pattern), names))
    ]
    unused += [
        f"tools.{key} has {name!r}, which is not one of its tools"
        for key, pairs in (("rename", settings.rename), ("describe", settings.describe))
        for name, _ in pairs or ()
        if name not in names
    ]
    return unused
