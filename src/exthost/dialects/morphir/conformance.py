"""How `exthost check` checks morphir extensions.

Names the requirement that each check tests, and requests without an effect.
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.conformance import Conformance, Problem
from exthost.model.messages import Id, Request


def _audit_notification(message: Mapping[str, Any], _: Collection[Id]) -> Iterator[Problem]:
    params = message.get("params")
    if message["method"] == "log" and (not isinstance(params, dict) or "message" not in params):
        why = "the host drops a log notification without a message"
        fix = '{"method": "log", "params": {"level": "info", "message": "…"}}'
        yield Problem("notification-form", why, fix=fix)


CONFORMANCE = Conformance(
    rules=MappingProxyType(
        {
            "start": "morphir-load-01",
            "handshake": "morphir-load-03",
            "stdout-noise": "morphir-wire-10",
            "json": "morphir-wire-01",
            "message-form": "morphir-wire-01",
            "one-line": "morphir-wire-01",
            "utf8": "morphir-wire-01",
            "number": "morphir-wire-01",
            "reply-id": "morphir-wire-03",
            "reply-id-type": "morphir-wire-03",
            "reply-once": "morphir-wire-15",
            "reply-form": "morphir-wire-13",
            "error-form": "morphir-wire-04",
            "message-size": "morphir-wire-16",
            "unknown-method": "morphir-call-06",
            "unknown-tool": "morphir-call-07",
            "end-of-input": "morphir-stop-01",
            "early-end": "morphir-stop-01",
            "signal": "morphir-stop-02",
            "restart": "morphir-restart-04",
            "tools": "morphir-load-09",
        }
    ),
    pings=(Request("capabilities", None), Request("health_check", None)),
    has_version=False,
    error_form="text",
    audit_notification=_audit_notification,
    # Some extensions omit a result that is null, and the host accepts such a reply.
    # Many small programs, as the first ones in Go, read lines of at most 64 KiB.
    warnings=frozenset({"reply-form", "large-message"}),
)
