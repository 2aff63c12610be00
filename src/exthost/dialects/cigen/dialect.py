"""cigen: length-prefixed protobuf messages without ids, methods or type tags.

    Hello → PluginInfo, then any number of (PlanRequest → PlanResult, GenerateRequest →
    GenerateResult); DetectRequest, ValidateRequest and PreflightRequest if a plugin has them

A plugin is cigen's name for an extension. The type of a message follows only from the order of
messages, and a message of the wrong type usually decodes without an error. Therefore the order must
never be broken: one call with all of its exchanges runs at a time; the codec remembers its
requests; and the process is ended if a reply was abandoned, or if no Generate followed a Plan.

Callers pass JSON, as in any other dialect (`proto.mapping` converts it). The facet `ext.typed`
takes and returns the generated messages. The method `generate` consists of two exchanges, because
plugins return an empty result to a Generate that no Plan preceded.

The handshake and the methods are generators: they yield a message and are resumed with its reply
(`dialects.steps`).

Only this module and the modules that it imports import protobuf; the package's `__init__` does not.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from google.protobuf.message import Message as Proto

from exthost.dialects.base import Dialect, Traits
from exthost.dialects.caller import Caller
from exthost.dialects.calls import FileFragment, ToolCall
from exthost.dialects.cigen import messages
from exthost.dialects.cigen.codec import EXCHANGES, codec
from exthost.dialects.cigen.proto.mapping import fields, invalid_params_error, to_message
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.options import FLAG, TEXT, some_of
from exthost.dialects.steps import (
    Exchanges,
    GetOffer,
    Handshake,
    Received,
    RetireProcess,
    result_of,
)
from exthost.errors import CallFailed, HandshakeFailed, UsageError
from exthost.model.messages import Request
from exthost.model.names import capability_fits, matches_stars
from exthost.model.offer import Offer, OfferWarnings, Tool
from exthost.model.shutdown_steps import CloseStdin
from exthost.model.spec import Limits, Restart
from exthost.wire.prefixed import Prefixed

PROTOCOL = 1

# The protocol's limit of 10 MB, read as MiB. Both ends check it.
_MAX_MESSAGE_BYTES = 10 * 2**20

# Method → description. The messages do not contain these names.
_DESCRIPTIONS: Mapping[str, str] = {
    "plan": "The resources it would generate",
    "generate": "Plan, then the files as fragments",
    "detect": "The technologies that it finds in a repository",
    "validate": "The mistakes in fragments",
    "preflight": "Whether a job needs to run",
}

# How many capabilities and conflicts with `*` are compared with all others. Real plugins have few.
_MAX_PATTERNS = 20

_CAPABILITY = re.compile(r"[^\s:]+:\S+")


# -- the handshake ---------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    """Send Hello, check the PluginInfo, and return the Offer: the methods as tools."""
    options = context.options
    response = yield Request(
        "hello",
        {
            "core_protocol": PROTOCOL,
            "core_version": context.host_version,
            "env": {
                name: value
                for name, value in context.env.items()
                if _is_text(name) and _is_text(value)
            },
        },
    )
    info = result_of(response, "hello")
    if info["protocol"] != PROTOCOL:
        raise HandshakeFailed(
            "X0520",
            f"it uses protocol {info['protocol']}, and this host uses {PROTOCOL}",
            help="use a version of the plugin for protocol 1; 0 means that it names none",
        )
    if not info["name"].strip():
        raise HandshakeFailed(
            "X0521", "it did not report its name", help="a plugin must fill in PluginInfo.name"
        )
    capabilities = tuple(info["capabilities"])
    _check_capabilities(capabilities, options.get("capability"))
    warnings = OfferWarnings(
        f"it reports a conflict with {conflict}"
        for conflict in _find_conflicts(info["conflicts_with"], capabilities)
    )
    configured_methods = options.get("methods", ())
    has_plan = options.get("plan") is not False
    required_methods = {"plan", "generate"} if has_plan else {"generate"}
    methods = [
        name
        for name in _METHODS
        if name in required_methods
        or name in configured_methods
        or _is_announced(name, capabilities)
    ]
    return Offer(
        tools=tuple(Tool(name, _DESCRIPTIONS[name]) for name in methods),
        version=info["version"],
        name=info["name"],
        warnings=warnings.report(),
        capabilities=capabilities,
        extra=MappingProxyType(
            {
                "protocol": info["protocol"],
                "plan": has_plan,
                "requires": info["requires"],
                "conflicts_with": info["conflicts_with"],
                "metadata": info["metadata"],
            }
        ),
    )


def _is_text(value: str) -> bool:
    """Return whether a text can be encoded as UTF-8, as protobuf requires. An environment variable
    may contain any bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_capabilities(announced: tuple[str, ...], required: Any) -> None:
    """Raise HandshakeFailed if a capability is malformed, or if `required`, the value of the option
    `capability`, is not among them."""
    for capability in announced:
        if _CAPABILITY.fullmatch(capability) is None:
            raise HandshakeFailed(
                "X0522",
                f"its capability {capability!r} is not of the form namespace:value",
                help="such as provider:github; fix PluginInfo.capabilities",
            )
    if required and not any(capability_fits(str(required), capability) for capability in announced):
        raise HandshakeFailed(
            "X0523",
            f"it does not have the capability {required}",
            help=f"it has: {', '.join(announced) or 'none'}",
        )


def _find_conflicts(conflicts: Sequence[str], capabilities: Sequence[str]) -> list[str]:
    """Return the conflicts of a plugin with others. A plugin may list all providers in
    `conflicts_with`, itself included; that is not a conflict."""
    # Names are looked up, because the time to compare them all is quadratic. Only so many patterns
    # are compared.
    known = {*capabilities}
    for pattern in _find_patterns(conflicts):
        if any(matches_stars(capability, pattern) for capability in capabilities):
            known.add(pattern)
    patterns = _find_patterns(capabilities)
    return [
        conflict
        for conflict in conflicts
        if conflict not in known
        and not any(matches_stars(conflict, pattern) for pattern in patterns)
    ]


def _find_patterns(names: Sequence[str]) -> list[str]:
    """Return the first names with `*`."""
    return list(dict.fromkeys(name for name in names if "*" in name))[:_MAX_PATTERNS]


def _is_announced(method: str, capabilities: tuple[str, ...]) -> bool:
    """Return whether the capabilities name this method: `detect:node` and `hook:detect` both do."""
    return any(method in capability.split(":") for capability in capabilities)


# -- the methods -----------------------------------------------------------------------------


def _single_exchange(method: str) -> Callable[[Any], Exchanges]:
    """Return the operation of a method that is one request and one reply."""

    def steps(params: Any) -> Exchanges:
        offer = yield GetOffer()
        assert isinstance(offer, Offer)
        if all(tool.name != method for tool in offer.tools):
            raise UsageError(
                "X1321",
                f"{offer.name} does not announce {method}, and might misread it",
                help=f'if it can: options = {{ methods = ["{method}"] }} in its entry',
            )
        response = yield Request(method, params)
        if method == "plan" and offer.extra["plan"]:
            yield RetireProcess()  # it would decode the next message as a GenerateRequest
        return _check_diagnostics(method, response)

    return steps


def _generate(params: Any) -> Exchanges:
    """Send a Plan, then a Generate with the resources of the plan.

    The field `plan` of the params is not part of the protocol: it contains the fields of the
    PlanRequest that a GenerateRequest does not have (capabilities, flags, repo).
    """
    offer = yield GetOffer()
    assert isinstance(offer, Offer)
    request_fields = fields(messages.GenerateRequest, params)
    # In JSON a field that is null counts as not set.
    request = {name: value for name, value in request_fields.items() if value is not None}
    plan_fields = fields(messages.PlanRequest, request.pop("plan", None))
    plan_diagnostics: list[Any] = []
    if offer.extra["plan"]:
        shared = {name: request[name] for name in ("facts", "schema") if name in request}
        # Check the params before the plan is sent, because a call with invalid params must send
        # nothing. The shared fields are nearly all of the data, and encoding the plan checks them,
        # so they are checked here only if `plan_fields` may replace them in the plan.
        checked = {name: request[name] for name in request if plan_fields or name not in shared}
        to_message(messages.GenerateRequest, checked)
        response = yield Request("plan", shared | plan_fields)
        try:
            plan = _check_diagnostics("plan", response)
        except CallFailed:
            yield RetireProcess()  # it would decode the next message as a GenerateRequest
            raise
        plan_diagnostics = plan["diagnostics"]
        request.setdefault("graph", plan["resources"])
    # The default target of the plugin `provider/github` is `github`.
    request.setdefault("target", offer.name.rpartition("/")[2])
    try:
        response = yield Request("generate", request)
    except UsageError:  # too large, often with the resources of the plan
        if offer.extra["plan"]:
            yield RetireProcess()  # it would decode the next message as a GenerateRequest
        raise
    return _check_diagnostics("generate", response, plan_diagnostics)


def _check_diagnostics(method: str, response: Received, earlier: Sequence[Any] = ()) -> Any:
    """Return the result of a reply. Raises CallFailed if its diagnostics contain an error.
    `earlier` are the diagnostics of previous exchanges of the call; they are put first."""
    result = result_of(response, method)
    if "diagnostics" in result:
        result["diagnostics"] = [*earlier, *result["diagnostics"]]
        errors = [
            diagnostic
            for diagnostic in result["diagnostics"]
            if diagnostic["level"] == "LEVEL_ERROR"
        ]
        if errors:
            raise _diagnostics_error(method, errors, result["diagnostics"])
    return result


def _diagnostics_error(
    method: str, errors: list[dict[str, Any]], diagnostics: list[Any]
) -> CallFailed:
    """Return the error for diagnostics that contain at least one error."""
    first = errors[0]
    text = ": ".join(part for part in (first["title"], first["message"]) if part)
    loc = first.get("loc") or {}
    place = f" ({loc['file']}:{loc['line']})" if loc.get("file") else ""
    code = f" [{first['code']}]" if first["code"] else ""
    remaining = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return CallFailed(
        "X0720",
        f"{method} failed: {text or 'an error without a message'}{code}{place}{remaining}",
        error_code=first["code"] or None,
        error_message=text,
        data={"diagnostics": diagnostics},
        help=first["fix_hint"] or "see the diagnostics of the extension",
    )


_METHODS: Mapping[str, Callable[[Any], Exchanges]] = {
    "plan": _single_exchange("plan"),
    "generate": _generate,
    "detect": _single_exchange("detect"),
    "validate": _single_exchange("validate"),
    "preflight": _single_exchange("preflight"),
}


def _call_tool(call: ToolCall) -> Exchanges:
    """Call a method: a plugin's methods are its tools."""
    return (yield from _METHODS[call.name](call.arguments))


_STRATEGIES = {"MERGE_STRATEGY_MERGE": "merge", "MERGE_STRATEGY_APPEND": "append"}


def _files(result: Any) -> tuple[FileFragment, ...]:
    """Return the files that the result of `generate` contains."""
    fragments = result.get("fragments", ()) if isinstance(result, Mapping) else ()
    return tuple(
        FileFragment(
            path=fragment["path"],
            content=fragment["content"],
            # An unknown strategy, of a later version of the schema, counts as not set.
            strategy=_STRATEGIES.get(fragment["strategy"], "replace"),  # type: ignore[arg-type]
            order=fragment["order"],
            format=fragment["format"],
        )
        for fragment in fragments
    )


class Typed:
    """`ext.typed`: the methods with the generated messages, as in `await
    ext.typed.ask(PlanRequest(…))`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def ask(self, request: Proto, *, timeout: float | None = None) -> Any:
        """Call the method that takes this message, and return the message of its result."""
        for method in _METHODS:
            if isinstance(request, EXCHANGES[method].request):
                result = await self._caller.call(method, request, timeout=timeout)
                return to_message(EXCHANGES[method].result, result)
        raise invalid_params_error("request", f"no method takes a {type(request).__name__}")


DIALECT = Dialect(
    name="cigen",
    framing=Prefixed,
    codec=codec,
    handshake=_handshake,
    operations={"call_tool": _call_tool},
    methods=_METHODS,
    has_fixed_methods=True,
    files=_files,
    facets={"typed": Typed},
    options={
        "plan": FLAG.described("Whether it expects a plan before it generates."),
        "capability": TEXT.described("A capability that it must have, such as `provider:ci`."),
        "methods": some_of(*_METHODS).described(
            "Methods that it has, but does not announce in its capabilities."
        ),
    },
    traits=Traits(
        # The protocol gives a reply 30 s.
        limits=Limits(handshake=30, call=30, max_message=_MAX_MESSAGE_BYTES),
        largest_message=_MAX_MESSAGE_BYTES,
        positional=True,
        unique="name",
        restart=Restart(strategy="on-demand"),
        # After 5 s the process is killed, without a SIGTERM first.
        shutdown_steps=(CloseStdin(wait=5),),
    ),
)
