"""The comparison of the handshake with the manifest: an extension must repeat what it provides.

The order is that of docs/dialects/roder.md: protocol, id, services, checksum. Each refusal has its
own code. A message names the place that differs and never shows the value that the child sent.
"""

from typing import Any

from exthost.dialects.roder.manifest import Manifest
from exthost.errors import HandshakeFailed


def judge_echo(manifest: Manifest, echo: Any, protocol: str) -> None:
    """Raise HandshakeFailed if the reply differs from the manifest."""
    if type(echo) is not dict:
        raise _bad_echo("X0545", "its answer is not an object", "an object")
    spoken_version = echo.get("protocolVersion")
    if spoken_version != protocol:
        raise _bad_echo("X0541", f"it speaks protocol {_cut(spoken_version)}", f"{protocol!r}")
    if echo.get("extensionId") != manifest.id:
        message = f"it calls itself {_cut(echo.get('extensionId'))}"
        raise _bad_echo("X0542", message, f"{manifest.id!r}, as its manifest says")
    services = echo.get("services")
    wanted = [dict(service) for service in manifest.services]
    repeated = [_counted(service) for service in services] if type(services) is list else None
    if where := difference(repeated, wanted, "services"):
        message = f"the services it provides are not those of its manifest, at {where}"
        raise _bad_echo("X0543", message, "the same, in the same order, with the same tools")
    if echo.get("manifestChecksum") != manifest.checksum:
        message = f"it runs with another manifest: checksum {_cut(echo.get('manifestChecksum'))}"
        raise _bad_echo("X0544", message, f"{manifest.checksum!r}, the FNV-1a of the file's bytes")


def _counted(service: Any) -> Any:
    """Return the members of a repeated service that are compared."""
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


def difference(actual: Any, expected: Any, place: str = "value") -> str:
    """Return the first place where the two values differ, in value or type, or "" if they are
    equal: 1, 1.0 and true are different. Never returns what is at that place."""
    if type(actual) is not type(expected):
        return f"{place} ({_kind(actual)} for {_kind(expected)})"
    if isinstance(actual, dict):
        for key, value in expected.items():
            if key not in actual:
                return f"{place}.{key} (missing)"
            if where := difference(actual[key], value, f"{place}.{key}"):
                return where
        return "" if len(actual) == len(expected) else f"{place} (members that are not there)"
    if isinstance(actual, list):
        for number, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=False)):
            if where := difference(actual_item, expected_item, f"{place}[{number}]"):
                return where
        return (
            "" if len(actual) == len(expected) else f"{place} ({len(actual)} for {len(expected)})"
        )
    return "" if actual == expected else place


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


def _bad_echo(code: str, message: str, expected: str) -> HandshakeFailed:
    return HandshakeFailed(
        code,
        f"its echo of the manifest does not fit: {message}",
        help=f"it must answer extension/initialize with {expected}",
    )


def _cut(value: Any) -> str:
    """Return a value for a message: text in quotes, shortened; anything else as the name of its
    kind."""
    if type(value) is not str:
        return "none" if value is None else f"a {type(value).__name__}"
    return repr(value) if len(value) <= 60 else f"{value[:60]!r}…"
