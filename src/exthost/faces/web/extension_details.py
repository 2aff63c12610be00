"""Describes one extension for the web page of a host: its tools, permissions, process and history.

The extension is not started. Before its first start, the description contains only the tools and
hooks that its manifest declares.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.faces.web.history import History, as_rows
from exthost.faces.web.page_values import error_as_data
from exthost.host.control.description import describe_settings
from exthost.host.control.lock_state import describe_quarantine
from exthost.host.control.status_report import StatusReport

# Attributes of manifests, in the various dialects, that declare what an extension needs.
_DECLARED_ATTRIBUTES = ("permissions", "capabilities", "requires")


def describe(extension: Extension, report: StatusReport, history: History) -> dict[str, Any]:
    """Return everything that the page displays about an extension."""
    offer, spec, cause = extension.offer, extension.spec, extension.cause
    extension_history = history.find(extension.id)
    return {
        **report.row(extension),
        "version": offer.version or spec.version,
        "origin": spec.origin,
        "argv": list(extension.argv),
        "cwd": spec.cwd,
        "is_offer_unknown": extension.internals.is_offer_unknown,
        "capabilities": list(offer.capabilities),
        "hooks": list(offer.hooks or spec.declared_hooks),
        "warnings": list(offer.warnings),
        "streams": sorted(extension.dialect.streams),
        "extra": _to_data(offer.extra),
        "settings": describe_settings(extension) | {"digests": None},
        "tools": [
            {
                "name": tool.name,
                "registered": extension.internals.registered_name(tool.name),
                "description": tool.description,
                "schema": tool.input_schema,
            }
            for tool in extension.tools.values()
        ],
        "quarantined": describe_quarantine(extension),
        "permissions": describe_permissions(extension),
        "cause": error_as_data(cause) if cause is not None else None,
        "moves": as_rows(extension_history.moves),
        "calls": as_rows(extension_history.calls),
        "failed": as_rows(extension_history.failed),
    }


def describe_permissions(extension: Extension) -> dict[str, Any]:
    """Return the permissions that the extension declares, those that its config grants, and how its
    process is sandboxed."""
    spec = extension.spec
    declared_permissions = {
        name: _to_data(value)
        for name in _DECLARED_ATTRIBUTES
        if (value := getattr(spec.manifest, name, None))
    }
    if any(dataclasses.astuple(spec.requires)):
        declared_permissions["requires"] = _to_data(spec.requires)
    granted = _to_data(spec.permissions) if spec.permissions is not None else None
    in_force: Any
    # Both properties prepare the launch, which fails if the extension cannot be started. The error
    # is an IndexError if it has no command.
    try:
        environment = extension.environment
        in_force = _to_data(extension.enforced)
        variables = {
            "passed": list(environment.passed),
            "held_back": list(environment.held_back),
            "configured": list(environment.configured),
        }
    except (ExthostError, IndexError) as error:
        in_force = {"unknown": str(error)}
        variables = {"passed": [], "held_back": [], "configured": []}
    return {
        "declared": declared_permissions or None,
        "granted": granted,
        "sandbox": spec.sandbox,
        "in_force": in_force,
        "variables": variables,
    }


def _to_data(value: Any) -> Any:
    """Return a value as JSON data; values of unknown types become strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _to_data(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _to_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [_to_data(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
