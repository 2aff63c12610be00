"""Parses and checks the reply to synaps' `initialize`, and makes the Offer from it.

First the whole reply is parsed; a field of the wrong type rejects it. Then the tools, the
providers, the permissions that both need, and the generic capabilities are checked, in this order.
The first mistake raises HandshakeFailed.
"""

import re
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from exthost.dialects.synaps.manifest import PERMISSIONS, PROTOCOL_VERSION
from exthost.errors import Evidence, HandshakeFailed
from exthost.offer import Offer, Tool
from exthost.wire import jsontext

_ID_BYTES = 64
_PROVIDER_ID = re.compile(r"[a-z0-9_-]+")
_U32 = 2**32
_U64 = 2**64


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a provider."""

    id: str
    display_name: str | None = None
    capabilities: Any = None
    context_window: int | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models that complete conversations."""

    id: str
    display_name: str
    description: str
    models: tuple[Model, ...]
    config_schema: Any = None


@dataclass(frozen=True, slots=True)
class Capability:
    """A generic capability of a plugin. Only the plugin and its user know what `kind` means."""

    kind: str
    name: str
    permissions: tuple[str, ...] = ()
    params: Any = None


def make_offer(
    answer: Any, granted: Collection[str], hooks: tuple[str, ...], version: str
) -> Offer:
    """Return the Offer: what the plugin announces in this reply. Raises HandshakeFailed.

    `granted` are the permissions of the plugin. `hooks` and `version` are those of its manifest.
    """
    members = _Members(answer, "the answer")
    protocol = members.get("protocol_version", _is_whole(_U32), "a whole number")
    if protocol != PROTOCOL_VERSION:
        raise HandshakeFailed(
            "X0551",
            f"it speaks protocol {protocol}, and this host speaks {PROTOCOL_VERSION}",
            help="use a version of the plugin for the protocol named",
        )
    capabilities = members.values.get("capabilities", {})
    if capabilities == []:  # some plugins serialize an empty object as a list
        capabilities = {}
    lists = _Members(capabilities, "capabilities")
    tools = tuple(_parse_tool(tool) for tool in lists.each("tools"))
    providers = tuple(_parse_provider(provider) for provider in lists.each("providers"))
    others = tuple(_parse_capability(capability) for capability in lists.each("capabilities"))
    _check_tools(tools)
    for provider in providers:
        _check_provider(provider)
    if tools and "tools.register" not in granted:
        raise _permission_error("it registers tools", "tools.register")
    if providers and "providers.register" not in granted:
        raise _permission_error("it registers providers", "providers.register")
    for capability in others:
        _check_capability(capability, granted)
    models = [f"{provider.id}:{model.id}" for provider in providers for model in provider.models]
    return Offer(
        tools=tools,
        version=version,
        hooks=hooks,
        extra=MappingProxyType({"providers": models} if models else {}),
        capabilities=(
            *(f"provider:{provider.id}" for provider in providers),
            *(f"{capability.kind}:{capability.name}" for capability in others),
        ),
        details=(*providers, *others),
    )


# -- reading -----------------------------------------------------------------------------------


class _Members:
    """Reads and checks the fields of one object of the reply. `place` names it in errors."""

    def __init__(self, values: Any, place: str) -> None:
        if type(values) is not dict:
            raise _invalid_reply_error(f"{place} is not an object", values)
        self.values: dict[str, Any] = values
        self._place = place

    def get(self, key: str, fits: Callable[[Any], bool], expected: str) -> Any:
        if key not in self.values:
            raise _invalid_reply_error(f"{key!r} is missing in {self._place}", self.values)
        if not fits(self.values[key]):
            raise _invalid_reply_error(f"{key!r} in {self._place} is not {expected}", self.values)
        return self.values[key]

    def text(self, key: str) -> str:
        return str(self.get(key, _is_text, "text"))

    def optional(self, key: str, fits: Callable[[Any], bool], expected: str) -> Any:
        return self.get(key, fits, expected) if self.values.get(key) is not None else None

    def each(self, key: str) -> list["_Members"]:
        if key not in self.values:
            return []
        listed = self.get(key, lambda value: type(value) is list, "a list")
        return [_Members(item, f"{key}[{n}]") for n, item in enumerate(listed)]


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_text_list(value: Any) -> bool:
    return type(value) is list and all(type(item) is str for item in value)


def _is_whole(limit: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value < limit


def _parse_tool(members: _Members) -> Tool:
    raw = members.text("name")
    name = raw.strip()
    schema = members.get("input_schema", lambda _: True, "anything")
    # Callers use the trimmed name; the messages have the original one.
    extra = MappingProxyType({"wire_name": raw} if raw != name else {})
    return Tool(name, members.text("description"), schema, extra=extra)


def _parse_provider(members: _Members) -> Provider:
    return Provider(
        members.text("id").strip(),
        members.text("display_name"),
        members.text("description"),
        tuple(
            Model(
                model.text("id").strip(),
                model.optional("display_name", _is_text, "text"),
                model.values.get("capabilities"),
                model.optional("context_window", _is_whole(_U64), "a whole number"),
            )
            for model in members.each("models")
        ),
        members.values.get("config_schema"),
    )


def _parse_capability(members: _Members) -> Capability:
    permissions = ()
    if "permissions" in members.values:
        permissions = members.get("permissions", _is_text_list, "a list of text")
    return Capability(
        members.text("kind"), members.text("name"), tuple(permissions), members.values.get("params")
    )


def _invalid_reply_error(why: str, value: Any) -> HandshakeFailed:
    try:
        shown = jsontext.encode(value).decode("utf-8", "replace")[:500]
    except Exception:  # nested too deep to be encoded again
        shown = ""
    return HandshakeFailed(
        "X0550",
        f"its answer to `initialize` cannot be used: {why}",
        help="answer with {protocol_version: 1, capabilities?: {tools?, providers?, …}}",
        evidence=Evidence(bytes=shown),
    )


# -- checking ----------------------------------------------------------------------------------


def find_id_problem(id: str) -> str:
    """Return why this text cannot be an id of a tool, provider or model; "" if it can."""
    if not id:
        return "it is empty"
    size = len(id.encode("utf-8", "surrogatepass"))
    if size > _ID_BYTES:
        return f"it has {size} bytes, and {_ID_BYTES} are allowed"
    for char in id:
        if unicodedata.category(char) == "Cc":
            return f"it has the control character U+{ord(char):04X}"
    if ":" in id:
        return "':' is reserved"
    if any(char.isspace() for char in id):
        return "it has whitespace"
    return ""


def _check_tools(tools: tuple[Tool, ...]) -> None:
    names: set[str] = set()
    for tool in tools:
        name = tool.name
        if why := find_id_problem(name):
            raise _refused_error("X0552", f"the tool {_quote(name)} cannot have that name: {why}")
        if name in names:
            raise _refused_error("X0552", f"it registers the tool {name!r} twice")
        names.add(name)
        if not tool.description.strip():
            raise _refused_error("X0552", f"the tool {name!r} has no description")
        if type(tool.input_schema) is not dict:
            raise _refused_error("X0552", f"the input_schema of the tool {name!r} is not an object")


def _check_provider(provider: Provider) -> None:
    about = f"the provider {_quote(provider.id)}"
    if why := find_id_problem(provider.id):
        raise _refused_error("X0553", f"{about} cannot have that id: {why}")
    if not _PROVIDER_ID.fullmatch(provider.id):
        raise _refused_error(
            "X0553", f"{about} cannot have that id: only a-z, 0-9, _ and - are allowed"
        )
    if not provider.display_name.strip():
        raise _refused_error("X0553", f"{about} has no display_name")
    if not provider.description.strip():
        raise _refused_error("X0553", f"{about} has no description")
    if not provider.models:
        raise _refused_error("X0553", f"{about} has no models")
    ids: set[str] = set()
    for model in provider.models:
        if why := find_id_problem(model.id):
            raise _refused_error("X0553", f"{about} has a model {_quote(model.id)}: {why}")
        if model.id in ids:
            raise _refused_error("X0553", f"{about} has the model {model.id!r} twice")
        ids.add(model.id)
    if provider.config_schema is not None and type(provider.config_schema) is not dict:
        raise _refused_error("X0553", f"the config_schema of {about} is not an object")


def _check_capability(capability: Capability, granted: Collection[str]) -> None:
    if not capability.kind.strip():
        raise _refused_error("X0554", "it has a capability without a kind")
    if not capability.name.strip():
        raise _refused_error(
            "X0554", f"its capability of the kind {_quote(capability.kind)} has no name"
        )
    about = f"its capability {_quote(capability.kind)}"
    for permission in capability.permissions:
        if permission not in PERMISSIONS:
            raise _refused_error(
                "X0554", f"{about} needs an unknown permission {_quote(permission)}"
            )
        if permission not in granted:
            raise _permission_error(f"{about} needs it", permission)


def _refused_error(code: str, message: str) -> HandshakeFailed:
    return HandshakeFailed(
        code, message, help="nothing of it was registered; its author has to mend it"
    )


def _permission_error(why: str, permission: str) -> HandshakeFailed:
    return HandshakeFailed(
        "X0555",
        f"{why}, and the permission {permission} is not granted",
        help="add it to `permissions` in its plugin.json, if you agree",
    )


def _quote(text: str) -> str:
    return repr(text) if len(text) <= 70 else f"{text[:70]!r}…"
