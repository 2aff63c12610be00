"""The page of the public names, from their signatures and docstrings."""

import inspect
from types import ModuleType
from typing import Any

import exthost
import exthost.sdk
from exthost.host.control.attached_host import AttachedExtension, AttachedHost
from exthost.host.host_settings import HostSettings
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.model.offer import RegisteredTool
from scripts.reference.markdown import code, page, prose, table
from scripts.reference.source_code import docstring, fields, members, signature

_INTRODUCTION = """\
These are the names of `exthost` that programs may rely on ([versioning](../versioning.md)).
Everything else may change between any two versions. Settings of `connect` are those of
[an entry of a config](config.md#settings-of-an-extension). Facets, which only some dialects have, are
on [a page of their own](facets.md).

A `Host` is a mapping of its extensions: `host["name"]`, `"name" in host`, `len(host)` and iteration.
`host.events` is its [event bus](events.md), `host.config` what it was made with, `host.diagnostics`
the mistakes in manifests.
"""

# What public functions and properties return, and users then call.
RETURNED = (RegisteredTools, RegisteredTool, AttachedHost, AttachedExtension)


def api_page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for name in sorted(exthost.__all__, key=str.lower):
        parts += [f"## exthost.{name}", *_described(getattr(exthost, name))]
    parts += ["## HostSettings", *_class(HostSettings)]
    for kind in RETURNED:
        parts += [f"## {kind.__name__}", *_class(kind)]
    parts += ["## exthost.sdk", prose(docstring(exthost.sdk))]
    for name in exthost.sdk.__all__:
        parts += [f"### exthost.sdk.{name}", *_described(getattr(exthost.sdk, name))]
    return page("Python API", *parts)


def _described(value: Any) -> list[str]:
    if isinstance(value, ModuleType):
        linked = value.__name__.rpartition(".")[2]
        return [f"The module of the [{linked}]({linked}.md)."]
    if isinstance(value, type):
        return _class(value)
    if inspect.isfunction(value):
        return [f"```python\n{signature(value)}\n```", prose(docstring(value))]
    return ["The version of the package, as text."]


def _class(kind: type) -> list[str]:
    rows = [(code(name), code(type_), code(default)) for name, type_, default in fields(kind)]
    parts = [prose(docstring(kind)), table(("Field", "Type", "Default"), rows)]
    for member in members(kind):
        parts += [f"```python\n{member.signature}\n```", prose(member.doc)]
    return parts
