"""Checks the reply to roder's handshake against the manifest of the extension.

The reply to `extension/initialize` must repeat the protocol version, and the id, the services and
the checksum of the manifest. They are compared in this order, as docs/dialects/roder.md specifies,
and each mismatch has a separate error code.

An error shows the version, the id or the checksum that the extension sent, shortened. For services
it names only the place that differs, because messages of this dialect may contain private text.
"""

from typing import Any

from exthost.dialects.roder.manifest import RoderManifest
from exthost.errors import HandshakeFailed
from exthost.model.shortened_text import shorten_to

_MAX_SHOWN_CHARS = 60


def check_reply(manifest: RoderManifest, reply: Any, protocol: str) -> None:
    """Raise HandshakeFailed if the reply does not repeat the manifest and this protocol version."""
    if type(reply) is not dict:
        raise _mismatch_error("X0545", f"it is {_type_name(reply)}", "an object")
    version = reply.get("protocolVersion")
    if version != protocol:
        message = f"protocolVersion is {_describe(version)}"
        raise _mismatch_error("X0541", message, f"protocolVersion {protocol!r}")
    extension_id = reply.get("extensionId")
    if extension_id != manifest.id:
        message = f"extensionId is {_describe(extension_id)}"
        expected = f"extensionId {manifest.id!r}, as in its manifest"
        raise _mismatch_error("X0542", message, expected)
    services = reply.get("services")
    if type(services) is list:
        services = [_compared_fields(service) for service in services]
    declared = [dict(service) for service in manifest.services]
    if place := find_difference(services, declared, "services"):
        message = f"the services are not those of its manifest, at {place}"
        expected = (
            "the services of its manifest, in the same order, with the same tools; "
            "exthost inspect NAME --trace - shows its reply"
        )
        raise _mismatch_error("X0543", message, expected)
    checksum = reply.get("manifestChecksum")
    if checksum != manifest.checksum:
        message = f"manifestChecksum is {_describe(checksum)}, not that of its manifest"
        expected = f"manifestChecksum {manifest.checksum!r}, the FNV-1a of the manifest's bytes"
        raise _mismatch_error("X0544", message, expected)


def _compared_fields(service: Any) -> Any:
    """Return a service of the reply with only the fields that are compared."""
    if type(service) is not dict:
        return service
    compared = {name: service[name] for name in ("type", "id") if name in service}
    if service.get("type") == "tool_provider" and "tools" in service:
        tools = service["tools"]
        compared["tools"] = (
            [_compared_tool_fields(tool) for tool in tools] if type(tools) is list else tools
        )
    return compared


def _compared_tool_fields(tool: Any) -> Any:
    if type(tool) is not dict:
        return tool
    return {name: tool[name] for name in ("name", "description", "parameters") if name in tool}


def find_difference(actual: Any, expected: Any, place: str = "value") -> str:
    """Return the first place where two JSON values differ, or "" if they are equal.

    Types are compared as well: 1, 1.0 and true are different. The returned text names the place
    and, if the types or lengths differ, both types or lengths. It never contains the values.
    """
    if type(actual) is not type(expected):
        return f"{place} ({_type_name(actual)} for {_type_name(expected)})"
    if isinstance(actual, dict):
        for key, value in expected.items():
            if key not in actual:
                return f"{place}.{key} (missing)"
            if difference := find_difference(actual[key], value, f"{place}.{key}"):
                return difference
        return "" if len(actual) == len(expected) else f"{place} (unexpected members)"
    if isinstance(actual, list):
        for number, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=False)):
            if difference := find_difference(actual_item, expected_item, f"{place}[{number}]"):
                return difference
        return (
            "" if len(actual) == len(expected) else f"{place} ({len(actual)} for {len(expected)})"
        )
    return "" if actual == expected else place


def _mismatch_error(code: str, message: str, expected: str) -> HandshakeFailed:
    return HandshakeFailed(
        code,
        f"its reply to extension/initialize is wrong: {message}",
        help=f"it must answer extension/initialize with {expected}",
    )


def _describe(value: Any) -> str:
    """Return a value of the reply for an error: text in quotes, shortened; else its type."""
    if type(value) is not str:
        return _type_name(value)
    return repr(shorten_to(_MAX_SHOWN_CHARS, value))


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)


# The types of decoded JSON values. A missing field is read as None.
_TYPE_NAMES = {
    type(None): "missing or null",
    bool: "true or false",
    int: "a whole number",
    float: "a decimal number",
    str: "text",
    list: "a list",
    dict: "an object",
}
