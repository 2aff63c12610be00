"""What `exthost check` needs to know of a dialect: `Conformance`.

The checks are the same for every dialect and are in `exthost.check`. A Conformance names the rule
of the dialect that each check tests, requests that have no effect, and the form of a message beyond
what the host needs: the host accepts many mistakes, and an author wants to know of them. A dialect
without one is checked by the defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from exthost.empty_mapping import empty_mapping
from exthost.messages import Request

# No extension has a method or a tool of this name.
UNKNOWN_METHOD = "exthost/check-unknown"
UNKNOWN_TOOL = "exthost_check_unknown"


@dataclass(frozen=True, kw_only=True)
class Conformance:
    """How the extensions of a dialect are checked.

    rules        the id of the dialect's rule that a check tests, by the name of the check
    pings        requests without an effect; the first is the most likely to be answered
    is_json      whether a message is a JSON object
    has_version  whether every message has the member `jsonrpc`
    error_form   what the member `error` of an error reply is; "" if anything may be
    host_results what the host answers, by method, to a request of the extension; others are refused
    warnings     checks that only warn in this dialect
    """

    rules: Mapping[str, str] = field(default_factory=empty_mapping)
    pings: tuple[Request, ...] = (Request(UNKNOWN_METHOD, {}),)
    is_json: bool = True
    has_version: bool = True
    error_form: Literal["object", "text", ""] = "object"
    host_results: Mapping[str, Any] = field(default_factory=empty_mapping)
    warnings: frozenset[str] = frozenset()
