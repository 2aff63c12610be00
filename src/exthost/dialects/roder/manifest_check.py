"""The comparison of the handshake with the manifest: an extension must repeat what it provides.

In the order of docs/dialects/roder.md: protocol, id, services, checksum. Each refusal has a code of
its own. A message names the place that differs and never shows what the child sent there.
"""

from typing import Any

from exthost.dialects.roder.manifest import Manifest
from exthost.errors import HandshakeFailed


def judge_echo(manifest: Manifest, echo: Any, protocol: str) -> None:
    """Fails closed: one that disagrees about what it is serves nothing."""
    if type(echo) is not dict:
        raise _bad_echo("X0545", "its answer is no object", "with an object")
    said = echo.get("protocolVersion")
    if said != protocol:
        raise _bad_echo("X0541", f"it speaks protocol {_cut(said)}", f"{protocol!r}")
    if echo.get("extensionId") != manifest.id:
        told = f"it calls itself {_cut(echo.get('extensionId'))}"
        raise _bad_echo("X0542", told, f"{manifest.id!r}, as its manifest says")
    services = echo.get("services")
    wanted = [dict(one) for one in manifest.services]
    heard = [_counted(one) for one in services] if type(services) is list else None
    if where := difference(heard, wanted, "services"):
        told = f"the services it provides are not those of its manifest, at {where}"
        raise _bad_echo("X0543", told, "the same, in the same order, with the same tools")
    if echo.get("manifestChecksum") != manifest.checksum:
        told = f"it runs with another manifest: checksum {_cut(echo.get('manifestChecksum'))}"
        raise _bad_echo("X0544", told, f"{manifest.checksum!r}, of the file's bytes")


def _counted(service: Any) -> Any:
    """The members of an echoed service that count."""
    if type(service) is not dict:
        return service
    counted = {name: service[name] for name in ("type", "id") if name in service}
    if service.get("type") == "tool_provider" and "tools" in service:
        tools = service["tools"]
        counted["tools"] = [_counted_tool(tool) for tool in tools] if type(tools) is list else None
    return counted


def _counted_tool(tool: Any) -> Any:
    if type(tool) is not dict:
        return tool
    return {name: tool[name] for name in ("name", "description", "parameters") if name in tool}


def difference(one: Any, other: Any, place: str = "value") -> str:
    """Where the first differs from the second, in value or type: 1, 1.0 and true are three
    different things. "" if they are equal. Says the place, and never what is there."""
    if type(one) is not type(other):
        return f"{place} ({_kind(one)} for {_kind(other)})"
    if isinstance(one, dict):
        for key, value in other.items():
            if key not in one:
                return f"{place}.{key} (missing)"
            if where := difference(one[key], value, f"{place}.{key}"):
                return where
        return "" if len(one) == len(other) else f"{place} (members that are not there)"
    if isinstance(one, list):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            if where := difference(mine, theirs, f"{place}[{number}]"):
                return where
        return "" if len(one) == len(other) else f"{place} ({len(one)} for {len(other)})"
    return "" if one == other else place


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {
    type(None): "nothing",
    bool: "true or false",
    int: "a whole number",
    float: "a fraction",
    str: "text",
    list: "a list",
    dict: "an object",
}


def _bad_echo(code: str, told: str, expected: str) -> HandshakeFailed:
    return HandshakeFailed(
        code,
        f"its echo of the manifest does not fit: {told}",
        help=f"it must answer extension/initialize with {expected}",
    )


def _cut(value: Any) -> str:
    """For a message: text in quotes and not too long; anything else by its kind alone."""
    if type(value) is not str:
        return "none" if value is None else f"a {type(value).__name__}"
    return repr(value) if len(value) <= 60 else f"{value[:60]!r}…"
