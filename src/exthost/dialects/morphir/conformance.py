"""How `exthost check`, which tests whether an extension follows its dialect, checks morphir
extensions.

The fields are explained at `Conformance`. `rules` comes from `check_rules.toml` beside this file.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from exthost.dialects.conformance import Conformance, Problem, read_rules
from exthost.model.messages import Id, Request


def _audit_notification(message: Mapping[str, Any], _: Collection[Id]) -> Iterator[Problem]:
    params = message.get("params")
    if message["method"] == "log" and (not isinstance(params, dict) or "message" not in params):
        reason = "the host drops a log notification without a message"
        fix = '{"method": "log", "params": {"level": "info", "message": "…"}}'
        yield Problem("notification-form", reason, fix=fix)


CONFORMANCE = Conformance(
    # An extension must check these itself, although this host checks them before a call, too.
    refused_calls=frozenset({"unknown-tool", "bad-arguments"}),
    rules=read_rules("exthost.dialects.morphir"),
    pings=(Request("capabilities", None), Request("health_check", None)),
    has_version=False,
    error_form="text",
    audit_notification=_audit_notification,
    # These checks only warn. "reply-form": some extensions omit a result that is null, and the host
    # accepts such a reply. "large-message": many small programs read lines of at most 64 KiB, which
    # is the default of Go's line reader.
    warnings=frozenset({"reply-form", "large-message"}),
)
