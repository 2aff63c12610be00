"""Parses and checks the reply to synaps' `initialize`, and makes the Offer from it: the tools,
hooks, providers and capabilities that the extension announces.

    {"protocol_version": 1, "capabilities": {"tools": [
     {"name": "add", "description": "Adds numbers", "input_schema": {"type": "object"}}]}}

synaps calls an extension a plugin; this module says extension, except where it quotes the protocol.

The checks, in this order; the first mistake raises HandshakeFailed:

1. the protocol version
2. the types of all fields of tools, providers and generic capabilities
3. the rules for tools, then those for providers
4. the permissions that tools and providers need
5. the generic capabilities and their permissions
6. the context providers, which this host does not use: their types and their permission
7. `deferred`: a manifest may declare the tools and providers in advance, for hosts that start the
   extension only at its first use. The reply must then announce the same.

A provider whose `config_schema` requires a value that the config lacks is left out at the end, with
a warning.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from exthost.dialects.synaps.manifest import (
    PERMISSIONS,
    PROTOCOL_VERSIONS,
    Deferred,
    SynapsManifest,
)
from exthost.errors import Evidence, HandshakeFailed
from exthost.model.offer import Offer, Tool
from exthost.model.shortened_text import shorten_to
from exthost.wire import jsontext
from exthost.wire.typed_values import WrongValue, convert

T = TypeVar("T")

# The longest id of a tool, provider or model, in UTF-8.
_MAX_ID_BYTES = 64
_PROVIDER_ID = re.compile(r"[a-z0-9_-]+")

# How much of an invalid reply an error quotes.
_MAX_EXCERPT_CHARS = 500

# Unsigned integers of the protocol are below these limits (u32 and u64).
_U32_LIMIT = 2**32
_U64_LIMIT = 2**64


@dataclass(frozen=True, slots=True)
class ProviderModel:
    """A model of a provider."""

    id: str
    display_name: str | None = None
    capabilities: Any = None
    context_window: int | None = None


@dataclass(frozen=True, slots=True)
class ProviderOffer:
    """A provider of models that complete conversations."""

    id: str
    display_name: str
    description: str
    models: tuple[ProviderModel, ...] = ()
    config_schema: Any = None


@dataclass(frozen=True, slots=True)
class Capability:
    """A generic capability of an extension. Only the extension and its user know what `kind`
    means."""

    kind: str
    name: str
    permissions: tuple[str, ...] = ()
    params: Any = None


def make_offer(
    reply: Any, granted: Collection[str], manifest: SynapsManifest | None, config: Any = None
) -> Offer:
    """Return the Offer: what the extension announces in this reply. Raises HandshakeFailed.

    `granted` are the permissions of the extension, `manifest` is None if it has none, and `config`
    is what the handshake sent.
    """
    fields = _read(reply, dict[str, Any], "the reply")
    _check_protocol_version(fields, manifest)
    manifest = manifest or SynapsManifest()
    announced = fields.get("capabilities", {})
    if announced == []:  # some extensions serialize an empty object as a list
        announced = {}
    announced = _read(announced, dict[str, Any], "capabilities")
    tools = tuple(map(_make_tool, _read_list(announced, "tools", _AnnouncedTool)))
    providers = tuple(map(_make_provider, _read_list(announced, "providers", ProviderOffer)))
    generic = _read_list(announced, "capabilities", Capability)
    _check_tools(tools)
    for provider in providers:
        _check_provider(provider)
    if tools and "tools.register" not in granted:
        raise _permission_error("it registers tools", "tools.register")
    if providers and "providers.register" not in granted:
        raise _permission_error("it registers providers", "providers.register")
    for capability in generic:
        _check_capability(capability, granted)
    warnings: list[str] = []
    context_providers = _read_context_providers(announced)
    if context_providers and "context_providers.register" not in granted:
        raise _permission_error("it registers context providers", "context_providers.register")
    if manifest.deferred is not None:
        _check_deferred(manifest.deferred, tools, providers, context_providers)
    if context_providers:
        names = ", ".join(context_providers)
        warnings.append(f"this host does not offer context providers: {names} is not used")
    providers = _drop_unconfigured(providers, config, warnings)
    models = [f"{provider.id}:{model.id}" for provider in providers for model in provider.models]
    return Offer(
        tools=tools,
        version=manifest.version,
        hooks=manifest.hooks,
        warnings=tuple(warnings),
        extra=MappingProxyType(_make_extra(providers, models)),
        capabilities=(
            *(f"provider:{provider.id}" for provider in providers),
            *(f"{capability.kind}:{capability.name}" for capability in generic),
        ),
        details=(*providers, *generic),
    )


# -- reading -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Versioned:
    protocol_version: int


@dataclass(frozen=True, slots=True)
class _AnnouncedTool:
    name: str
    description: str
    input_schema: Any  # of any type: `_check_tools` checks it, with an error that names the tool


def _read(value: Any, type_: type[T], place: str) -> T:
    """Return a part of the reply as this type. `place` is its name in errors, such as "tools[0]".
    Raises HandshakeFailed."""
    try:
        return convert(value, type_)
    except WrongValue as error:
        raise _invalid_reply_error(f"{place}: {error}", value) from None


def _read_list(announced: dict[str, Any], key: str, type_: type[T]) -> tuple[T, ...]:
    """Return a list of the reply; it is empty if the field is missing."""
    items = _read(announced.get(key, []), list[Any], key)
    return tuple(_read(item, type_, f"{key}[{index}]") for index, item in enumerate(items))


def _make_tool(announced: _AnnouncedTool) -> Tool:
    name = announced.name.strip()
    # Callers use the trimmed name, but `tool.call` must send the name that the extension announced.
    extra = MappingProxyType({"wire_name": announced.name} if announced.name != name else {})
    return Tool(name, announced.description, announced.input_schema, extra=extra)


def _make_provider(provider: ProviderOffer) -> ProviderOffer:
    """Return the provider with trimmed ids. Raises HandshakeFailed if a number in it is not valid,
    which `convert` does not check."""
    models = tuple(replace(model, id=model.id.strip()) for model in provider.models)
    for index, model in enumerate(models):
        if model.context_window is not None and not 0 <= model.context_window < _U64_LIMIT:
            raise _invalid_reply_error(
                f"models[{index}]: context_window is not a whole number below 2**64", asdict(model)
            )
    return replace(provider, id=provider.id.strip(), models=models)


def _invalid_reply_error(reason: str, value: Any) -> HandshakeFailed:
    """Return the error for a reply with a missing field or a field of the wrong type. `value` is
    the object with that field."""
    try:
        excerpt = jsontext.encode(value).decode("utf-8", "replace")[:_MAX_EXCERPT_CHARS]
    except Exception:  # nested too deep to be encoded again
        excerpt = ""
    return HandshakeFailed(
        "X0550",
        f"its reply to `initialize` cannot be used: {reason}",
        help="reply with {protocol_version: 1, capabilities?: {tools?, providers?, …}}",
        evidence=Evidence(bytes=excerpt),
    )


def _make_extra(providers: tuple[ProviderOffer, ...], models: list[str]) -> dict[str, Any]:
    """Return further lines for `exthost inspect`, by their titles: "providers" with the ids of the
    models, and "display names", of those providers and models whose names differ from their ids."""
    extra: dict[str, Any] = {"providers": models} if models else {}
    names = {
        f"provider:{provider.id}": provider.display_name.strip()
        for provider in providers
        if provider.display_name.strip() != provider.id
    }
    names |= {
        f"{provider.id}:{model.id}": model.display_name
        for provider in providers
        for model in provider.models
        if model.display_name and model.display_name != model.id
    }
    if names:
        extra["display names"] = names
    return extra


def _read_context_providers(announced: dict[str, Any]) -> list[str]:
    """Return the ids of the context providers, which this host does not offer."""
    if announced.get("context_providers") is None:
        return []
    items = _read(announced["context_providers"], list[Any], "context_providers")
    ids = [item.get("id") if type(item) is dict else item for item in items]
    return _read(ids, list[str], "the ids of context_providers")


# -- checking ----------------------------------------------------------------------------------


def _check_protocol_version(fields: dict[str, Any], manifest: SynapsManifest | None) -> None:
    """Raise HandshakeFailed unless the reply has the protocol version of the manifest, or, without
    a manifest, one that this host supports."""
    protocol = _read(fields, _Versioned, "the reply").protocol_version
    if not 0 <= protocol < _U32_LIMIT:
        raise _invalid_reply_error("protocol_version is not a 32-bit whole number", fields)
    # Without a manifest, only the reply says for which version the extension is written.
    accepted = PROTOCOL_VERSIONS if manifest is None else (manifest.protocol_version,)
    if protocol not in accepted:
        versions = " or ".join(map(str, accepted))
        source = "this host supports" if manifest is None else "its manifest declares"
        raise HandshakeFailed(
            "X0551",
            f"it uses protocol {protocol}, but {source} {versions}",
            help="use a version of the plugin for the protocol named",
        )


def find_id_problem(id: str) -> str:
    """Return why this text cannot be an id of a tool, provider or model; "" if it can."""
    if not id:
        return "it is empty"
    size = len(id.encode("utf-8", "surrogatepass"))
    if size > _MAX_ID_BYTES:
        return f"it has {size} bytes, and {_MAX_ID_BYTES} are allowed"
    for char in id:
        if unicodedata.category(char) == "Cc":
            return f"it has the control character U+{ord(char):04X}"
    if ":" in id:
        return "':' is reserved"
    if any(char.isspace() for char in id):
        return "it has whitespace"
    return ""


def _check_deferred(
    deferred: Deferred,
    tools: tuple[Tool, ...],
    providers: tuple[ProviderOffer, ...],
    context_providers: list[str],
) -> None:
    """Raise HandshakeFailed unless the extension announces exactly what its manifest has under
    `deferred`. A kind that the manifest does not list there is not compared."""
    by_name = {tool.name: tool for tool in tools}
    pairs = (
        ("tools", [tool.name for tool in deferred.tools], list(by_name)),
        ("providers", list(deferred.providers), [provider.id for provider in providers]),
        ("context_providers", list(deferred.context_providers), context_providers),
    )
    for key, declared, announced in pairs:
        if declared and sorted(declared) != sorted(announced):
            difference = f"{_join_names(declared)}, but it announces {_join_names(announced)}"
            raise _deferred_error(key, difference)
    for tool in deferred.tools:
        offered = by_name[tool.name]  # it is there: the names have been compared
        if tool.description not in (None, offered.description):
            raise _deferred_error("tools", f"another description of {tool.name}")
        if tool.input_schema is not None and tool.input_schema != offered.input_schema:
            raise _deferred_error("tools", f"another input_schema of {tool.name}")


def _join_names(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _deferred_error(key: str, difference: str) -> HandshakeFailed:
    return HandshakeFailed(
        "X0556",
        f"deferred.{key} in its manifest has {difference}",
        help="correct plugin.json, or the reply of the plugin to `initialize`",
    )


def _drop_unconfigured(
    providers: tuple[ProviderOffer, ...], config: Any, warnings: list[str]
) -> tuple[ProviderOffer, ...]:
    """Return the providers whose required config is there, and add a warning for each other one."""
    values = config if isinstance(config, Mapping) else {}
    kept = []
    for provider in providers:
        schema = provider.config_schema
        required = schema.get("required") if type(schema) is dict else None
        names = required if type(required) is list else []
        missing = [name for name in names if type(name) is str and values.get(name) is None]
        if missing:
            warnings.append(
                f"its provider {provider.id} is not registered: the config lacks "
                f"{', '.join(missing)}"
            )
        else:
            kept.append(provider)
    return tuple(kept)


def _check_tools(tools: tuple[Tool, ...]) -> None:
    names: set[str] = set()
    for tool in tools:
        name = tool.name
        if reason := find_id_problem(name):
            raise _refused_error(
                "X0552", f"the tool {_quote(name)} cannot have that name: {reason}"
            )
        if name in names:
            raise _refused_error("X0552", f"it registers the tool {name!r} twice")
        names.add(name)
        if not tool.description.strip():
            raise _refused_error("X0552", f"the tool {name!r} has no description")
        if type(tool.input_schema) is not dict:
            raise _refused_error("X0552", f"the input_schema of the tool {name!r} is not an object")


def _check_provider(provider: ProviderOffer) -> None:
    subject = f"the provider {_quote(provider.id)}"
    if reason := find_id_problem(provider.id):
        raise _refused_error("X0553", f"{subject} cannot have that id: {reason}")
    if not _PROVIDER_ID.fullmatch(provider.id):
        raise _refused_error(
            "X0553", f"{subject} cannot have that id: only a-z, 0-9, _ and - are allowed"
        )
    if not provider.display_name.strip():
        raise _refused_error("X0553", f"{subject} has no display_name")
    if not provider.description.strip():
        raise _refused_error("X0553", f"{subject} has no description")
    if not provider.models:
        raise _refused_error("X0553", f"{subject} has no models")
    ids: set[str] = set()
    for model in provider.models:
        if reason := find_id_problem(model.id):
            raise _refused_error("X0553", f"{subject} has a model {_quote(model.id)}: {reason}")
        if model.id in ids:
            raise _refused_error("X0553", f"{subject} has the model {model.id!r} twice")
        ids.add(model.id)
    if provider.config_schema is not None and type(provider.config_schema) is not dict:
        raise _refused_error("X0553", f"the config_schema of {subject} is not an object")


def _check_capability(capability: Capability, granted: Collection[str]) -> None:
    if not capability.kind.strip():
        raise _refused_error("X0554", "it has a capability without a kind")
    if not capability.name.strip():
        raise _refused_error(
            "X0554", f"its capability of the kind {_quote(capability.kind)} has no name"
        )
    subject = f"its capability {_quote(capability.kind)}"
    for permission in capability.permissions:
        if permission not in PERMISSIONS:
            raise _refused_error(
                "X0554", f"{subject} needs an unknown permission {_quote(permission)}"
            )
        if permission not in granted:
            raise _permission_error(f"{subject} needs a permission", permission)


def _refused_error(code: str, message: str) -> HandshakeFailed:
    """Return the error for a reply that the protocol's rules forbid."""
    return HandshakeFailed(
        code, message, help="nothing of it was registered; its author has to fix it"
    )


def _permission_error(reason: str, permission: str) -> HandshakeFailed:
    """Return the error for a missing permission. `reason` is a clause that says why the extension
    needs the permission."""
    return HandshakeFailed(
        "X0555",
        f"{reason}, but the permission {permission} is not granted",
        help="add it to `permissions` in its plugin.json, if you agree",
    )


def _quote(text: str) -> str:
    return repr(shorten_to(70, text))
