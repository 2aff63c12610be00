"""How `exthost check` checks extensions of a dialect: `Conformance`.

`exthost check` tests whether an extension follows its dialect, and reports each mistake to its
author.

The checks are the same for every dialect and are in `authoring.check`. A Conformance names the
dialect's requirement that each check tests, requests that have no effect, and the exact form of
messages. The host itself accepts messages with many mistakes, but `exthost check` reports them to
the author of the extension. For a dialect without a Conformance, `infer_conformance` makes one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from exthost.dialects.meanings import Meaning, Progress, Unusable
from exthost.model.empty_mapping import empty_mapping
from exthost.model.messages import Id, Request
from exthost.model.package_tables import read_tables
from exthost.wire import jsontext

# Names that no extension uses, for the checks of unknown methods and tools.
UNKNOWN_METHOD = "exthost/check-unknown"
UNKNOWN_TOOL = "exthost_check_unknown"


class Problem(NamedTuple):
    """A broken rule: its name, a description for the author, the offending bytes, and how to fix
    it; "" for the fix that the rule suggests."""

    rule: str
    message: str
    data: bytes = b""
    fix: str = ""


class OfferWarning(NamedTuple):
    """A kind of warning about an offer (the tools that an extension announced).

    text  a part of the warning, by which it is recognized
    rule  the rule that the extension breaks; "" if another check reports the same mistake
    fix   how to fix the extension
    """

    text: str
    rule: str
    fix: str = ""


# Takes the method of a request, the result in its reply, and the methods of the requests that were
# answered with a result before. Returns the problems of the result.
ResultAudit: TypeAlias = Callable[[str, Any, Collection[str]], Iterable[Problem]]

# Takes a notification, a JSON object with `method`, and the ids of all requests so far. Returns the
# problems of the notification.
NotificationAudit: TypeAlias = Callable[[Mapping[str, Any], Collection[Id]], Iterable[Problem]]


def audit_by_readers(readers: Mapping[str, Callable[[Any], Meaning]]) -> NotificationAudit:
    """Return an audit that reports the notifications which the host drops. `readers` are the
    functions that parse the dialect's notifications, by method."""

    def audit(message: Mapping[str, Any], request_ids: Collection[Id]) -> Iterator[Problem]:
        method = message["method"]
        read = readers.get(method)
        meaning = None if read is None else read(message.get("params"))
        if isinstance(meaning, Unusable):
            reason = f"the host drops {method}: its params cannot be read"
            yield Problem("notification-form", reason)
        elif isinstance(meaning, Progress):
            id = meaning.id
            # The type is checked first: a list has no hash, and True would equal the id 1.
            if type(id) not in (int, str) or id not in request_ids:
                reason = f"{method} has the id {id!r}, which no request had, and the host drops it"
                fix = "copy the id of the request whose progress it reports"
                yield Problem("notification-form", reason, fix=fix)

    return audit


def read_rules(package: str, table: str = "rules") -> dict[str, str]:
    """Return a table of `check_rules.toml` in a dialect's package, for `Conformance.rules`: name of
    a check → the id of the requirement that it tests."""
    rules: dict[str, str] = read_tables(package, "check_rules.toml")[table]
    return rules


@dataclass(frozen=True, kw_only=True)
class Conformance:
    """How the extensions of a dialect are checked.

    rules        name of a check → the id of the dialect's requirement that it tests
    pings        requests without an effect, in the order in which they are tried
    is_json      whether a message is a JSON object
    has_version  whether every message has the field `jsonrpc`
    error_form   the type of the field `error` of an error reply; "" for any type
    null_error   whether a reply with a result may have the field `error` with the value null
    audit_result checks the result of a reply; None if results of any form are accepted
    audit_notification
                 checks a notification; None if those of any form are accepted
    refused_calls
                 the checks of calls that an extension must refuse although this host never makes
                 them, because it knows the tools and their schemas: "unknown-tool" and
                 "bad-arguments". Only for a dialect that other hosts speak, or that states the rule
    warnings     the names of checks that only warn in this dialect
    offer_warnings
                 the warnings of an offer that break another rule than `tools`
    empty_fix    how to fix an extension that offers nothing; "" for the fix of the rule
    trial_call   a tool and arguments with which it has no effect, for a dialect whose extensions
                 all have this tool. It is called if no other call is requested; it may fail
    result_violations
                 the codes of protocol violations that are faults of a result, not of its frame
    """

    rules: Mapping[str, str] = field(default_factory=empty_mapping)
    pings: tuple[Request, ...] = (Request(UNKNOWN_METHOD, {}),)
    is_json: bool = True
    has_version: bool = True
    error_form: Literal["object", "text", ""] = "object"
    null_error: bool = True
    audit_result: ResultAudit | None = None
    audit_notification: NotificationAudit | None = None
    refused_calls: frozenset[str] = frozenset()
    warnings: frozenset[str] = frozenset()
    offer_warnings: tuple[OfferWarning, ...] = ()
    empty_fix: str = ""
    trial_call: tuple[str, Any] | None = None
    result_violations: frozenset[str] = frozenset()


def infer_conformance(encoded_request: bytes) -> Conformance:
    """Return a Conformance for a dialect that has none, given a request that it encoded. Only
    JSON-RPC says that an unknown method gets an error, so only then is one requested (`pings`)."""
    try:
        fields = jsontext.decode(encoded_request)
    except jsontext.NotJson:
        fields = None
    if not isinstance(fields, dict):
        return Conformance(pings=(), is_json=False, has_version=False, error_form="")
    if fields.get("jsonrpc") == "2.0":
        return Conformance()
    return Conformance(pings=(), has_version=False, error_form="")
