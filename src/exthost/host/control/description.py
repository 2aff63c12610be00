"""Describes extensions, their settings and tools, and the rules about calls of a tool, as data.

`exthost inspect`, `tools`, `rules` and `status` show the data. A running host sends it over the
control socket. If no host is running, `inspect` and `tools` start the extension in their own
process, and describe it in the same way.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from exthost.extension.extension import Extension
from exthost.extension.policy import effective_restart_policy
from exthost.host.control.as_data import as_data
from exthost.host.control.lock_state import describe_quarantine, lock_state
from exthost.host.control.served_host import ServedHost
from exthost.launch.limits import resolve_limits
from exthost.launch.network_grant import find_overridden_variables, override_warning
from exthost.model.names import prefixed_description
from exthost.model.offer import RegisteredTool
from exthost.model.rules import CallRule, find_rule
from exthost.model.schema import Checker
from exthost.model.spec import Limits, Restart, Spec


def describe_extension(
    extension: Extension, digests: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return everything that is known about a started extension.

    `digests` are the SHA-256 digests of the extension, if the caller has already computed them. If
    they are None, this function computes them, which reads every file of the package.
    """
    # The offer is the tools, hooks and capabilities that the extension announced.
    offer, environment, spec = extension.offer, extension.environment, extension.spec
    return {
        "id": extension.id,
        "dialect": extension.dialect.name,
        "version": offer.version,
        "name": offer.name,
        "capabilities": list(offer.capabilities),
        "state": str(extension.state),
        "tools": [
            {
                "name": extension.internals.registered_name(tool.name),
                "tool": tool.name,
                "description": prefixed_description(extension.id, tool.description),
                "input_schema": tool.input_schema,
            }
            for tool in extension.tools.values()
        ],
        "hooks": list(offer.hooks),
        "extra": dict(offer.extra),
        "warnings": [*offer.warnings, *schema_warnings(extension), *_override_warnings(spec)],
        "lock": lock_state(extension),
        "quarantined": describe_quarantine(extension),
        "timings_ms": dict(extension.stats.timings_ms),
        "environment": {
            "passed": list(environment.passed),
            "held_back": list(environment.held_back),
            "configured": list(environment.configured),
        },
        "sandbox": dict(extension.enforced),
        "sha256": extension.digests if digests is None else digests,
        "argv": list(extension.argv),
        "noise": dict(extension.stats.dropped),  # output that could not be used, by reason
    }


def _override_warnings(spec: Spec) -> list[str]:
    """Return a warning if variables of the config are overridden by those for the proxy of the
    extension."""
    names = find_overridden_variables(spec)
    return [override_warning(names)] if names else []


def schema_warnings(extension: Extension) -> list[str]:
    """Return a warning for each tool whose input schema is invalid or not used, without the
    secrets of the extension."""
    hide_secrets = extension.internals.calls.factory.hide_secrets
    checkers = {tool.name: Checker.of(tool.input_schema) for tool in extension.tools.values()}
    return [
        hide_secrets(f"{name}: {checker.warning}")
        for name, checker in checkers.items()
        if checker is not None and checker.warning
    ]


# The settings of an extension that change in a running host only when it reloads its config.
_RELOADED_SETTINGS = (
    "argv", "cwd", "env", "inject", "config", "options", "limits", "restart", "breaker", "pool",
    "permissions", "sandbox", "retry", "start", "start_method", "isolation",
    "lifetime", "dialect", "tools",
)  # fmt: skip


def settings_digests(spec: Spec) -> dict[str, str]:
    """Return a digest of each setting, so that two processes can compare their settings without
    sending the values, which may be secrets."""
    return {
        name: hashlib.sha256(repr(_comparable(getattr(spec, name))).encode()).hexdigest()[:16]
        for name in _RELOADED_SETTINGS
    }


def _comparable(value: Any) -> Any:
    """Return a value whose `repr` does not depend on the order of a mapping's keys."""
    return sorted(value.items(), key=str) if isinstance(value, Mapping) else value


def describe_settings(extension: Extension) -> dict[str, Any]:
    """Return the settings that an extension runs with: some as values, and all as digests. The
    command line compares the digests with those of the config, to report what a reload would
    change (`unapplied_settings`)."""
    spec, dialect = extension.spec, extension.dialect
    return {
        "argv": list(spec.argv),
        "limits": _without_none(resolve_limits(spec, dialect)),
        "restart": _without_none(effective_restart_policy(spec, dialect)),
        "digests": settings_digests(spec),
    }


def _without_none(settings: Limits | Restart) -> dict[str, Any]:
    return {name: value for name, value in asdict(settings).items() if value is not None}


async def describe_rule(
    host: ServedHost, name: str, arguments: Any, client: str | None
) -> dict[str, Any]:
    """Return the rule of the config that decides about a call of the tool `name`. Raises
    NotFound."""
    tool = await host.find_tool(name, ask_all=True)
    rule = find_rule(_rules_for(host, tool), arguments, client)
    about = {"tool": tool.name, "extension": tool.extension}
    if rule is None:
        return {**about, "rule": None, "tools": "", "do": "allow", "reason": ""}
    decision = {"rule": rule.number, "tools": rule.tools, "do": rule.action, "reason": rule.reason}
    return {**about, **decision}


def _rules_for(host: ServedHost, tool: RegisteredTool) -> tuple[CallRule, ...]:
    """Return the rules that may decide about calls of a tool, in order."""
    calls = host[tool.extension].internals.calls
    return host.rules.for_tool(calls, calls.tool(tool.tool))


def _describe_denied_tool(host: ServedHost, tool: RegisteredTool) -> dict[str, str] | None:
    """Return a row about a tool of which a rule denies every call; None for any other tool."""
    rules = _rules_for(host, tool)
    # The first rule that fits a call decides, so only the first one can decide about every call.
    if not rules or rules[0].action != "deny" or not rules[0].is_unconditional:
        return None
    reason = f": {rules[0].reason}" if rules[0].reason else ""
    return {
        "tool": tool.tool,
        "extension": tool.extension,
        "description": tool.description,
        "reason": f"rule {rules[0].number} denies it{reason}",
    }


def describe_tools(
    host: ServedHost, name: str = "", *, with_hidden: bool = False
) -> dict[str, Any]:
    """Return the tools of the extension `name`, or of all extensions if it is "". With
    `with_hidden`, `hidden` in the result lists the tools that do not exist for the host, and why.

    A tool is `remembered` if its extension offered it when it ran last, and has not started since.
    `not_asked` in the result lists the extensions whose tools are unknown, because they were not
    started yet. `quarantined` lists the tools that differ from the lock, and `failed` the errors of
    the extensions that are not ready because of an error.
    """
    extensions = [host[name]] if name else host.extensions
    hidden = [
        {
            "tool": tool.name,
            "extension": extension.id,
            "description": prefixed_description(extension.id, tool.description),
            "reason": reason,
        }
        for extension in extensions
        for tool, reason in extension.internals.hidden_tools
    ]
    tools = [tool for tool in host.tools.values() if not name or tool.extension == name]
    hidden += [row for tool in tools if (row := _describe_denied_tool(host, tool)) is not None]
    return {
        "tools": [
            {
                "name": tool.name,
                "tool": tool.tool,
                "extension": tool.extension,
                "description": tool.description,
                "input_schema": tool.input_schema,
                "output_schema": tool.output_schema,
                "provider": tool.provider,
                "capabilities": list(tool.capabilities),
                "extra": as_data(tool.extra),
                "remembered": host[tool.extension].internals.is_offer_remembered,
            }
            for tool in tools
        ],
        "quarantined": [row for extension in extensions for row in describe_quarantine(extension)],
        "not_asked": [
            extension.id for extension in extensions if extension.internals.is_offer_unknown
        ],
        "failed": [
            extension.cause.as_dict() for extension in extensions if extension.cause is not None
        ],
        **({"hidden": hidden} if with_hidden else {}),
    }
