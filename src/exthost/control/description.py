"""What is known about extensions, as data: for `inspect` and `tools`, here or over the socket."""

from typing import Any

from exthost.control.served_host import ServedHost
from exthost.extension.extension import Extension
from exthost.names import prefixed_description, registered_name


def describe_extension(
    extension: Extension, digests: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return everything there is to know about a started extension. `digests` are its digests, if
    the caller has computed them: that reads every file of its package."""
    offer, environment = extension.offer, extension.environment
    return {
        "id": extension.id,
        "dialect": extension.dialect.name,
        "version": offer.version,
        "name": offer.name,
        "capabilities": list(offer.capabilities),
        "state": str(extension.state),
        "tools": [
            {
                "name": registered_name(extension.id, tool.name),
                "tool": tool.name,
                "description": prefixed_description(extension.id, tool.description),
                "input_schema": tool.input_schema,
            }
            for tool in offer.tools
        ],
        "hooks": list(offer.hooks),
        "extra": dict(offer.extra),
        "warnings": list(offer.warnings),
        "timings_ms": dict(extension.stats.timings_ms),
        "environment": {
            "passed": list(environment.passed),
            "held_back": list(environment.held_back),
            "configured": list(environment.configured),
        },
        "sandbox": dict(extension.enforced),
        "sha256": extension.digests if digests is None else digests,
        "argv": list(extension.argv),
        "noise": dict(extension.stats.dropped),
    }


def describe_tools(host: ServedHost, name: str = "") -> dict[str, Any]:
    """Return the tools that can be called, of one extension or of all; who was not asked for its
    tools, and who failed."""
    extensions = [host[name]] if name else host.extensions
    return {
        "tools": [
            {
                "name": tool.name,
                "tool": tool.tool,
                "extension": tool.extension,
                "description": tool.description,
                "input_schema": tool.input_schema,
            }
            for tool in host.tools.values()
            if not name or tool.extension == name
        ],
        "not_asked": [extension.id for extension in extensions if extension.is_silent],
        "failed": [
            extension.cause.as_dict() for extension in extensions if extension.cause is not None
        ],
    }
