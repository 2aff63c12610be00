"""cigen: length-prefixed protobuf messages without ids, methods or type tags.

    Hello → PluginInfo, then any number of (PlanRequest → PlanResult, GenerateRequest →
    GenerateResult); DetectRequest, ValidateRequest and PreflightRequest if a plugin has them

Only the order of messages says what they are, and a message of the wrong type usually decodes
without an error. So the order must never break: one call at a time with all of its exchanges; a
codec that remembers its requests; and a process is ended if a reply was abandoned, or if a plan was
not followed by its Generate.

Callers use JSON (protobuf's own mapping, with the names of the .proto, enum names, base64 and
defaults), so that methods are called as in any other dialect. `ext.typed` takes and returns the
generated messages. `generate` is two exchanges, because plugins return an empty result to a
Generate without a Plan before it.

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
from exthost.dialects.cigen.proto.mapping import fields, to_message, unfit
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
from exthost.messages import Request
from exthost.names import capability_fits
from exthost.offer import Offer, Tool
from exthost.shutdown_steps import CloseStdin
from exthost.spec import Limits, Restart
from exthost.wire.prefixed import Prefixed

__all__ = ["DIALECT", "Typed"]

PROTOCOL = 1

# The protocol's 10 MB, taken as MiB. Both ends check it.
_MOST_BYTES = 10 * 2**20

# The methods by name, with descriptions. The wire has no names for them.
_ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "plan": "The resources it would generate",
        "generate": "Plan, then the files as fragments",
        "detect": "What it recognises in a repository",
        "validate": "What is wrong with fragments",
        "preflight": "Whether a job need run",
    }
)

_CAPABILITY = re.compile(r"[^\s:]+:\S+")


# -- the handshake ---------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    options = context.options
    response = yield Request(
        "hello",
        {
            "core_protocol": PROTOCOL,
            "core_version": context.host_version,
            "env": {k: v for k, v in context.env.items() if _is_text(k) and _is_text(v)},
        },
    )
    info = result_of(response, "hello")
    if info["protocol"] != PROTOCOL:
        raise HandshakeFailed(
            "X0520",
            f"it speaks protocol {info['protocol']}, and this host speaks {PROTOCOL}",
            help="use a version of the plugin for protocol 1; 0 means that it did not say",
        )
    if not info["name"].strip():
        raise HandshakeFailed(
            "X0521", "it did not tell its name", help="a plugin must fill in PluginInfo.name"
        )
    capabilities = tuple(info["capabilities"])
    _check_capabilities(capabilities, options.get("capability"))
    # A provider lists all providers including itself, and several are used together.
    warnings = [
        f"it says that it conflicts with {conflict}"
        for conflict in info["conflicts_with"]
        if not any(capability_fits(conflict, own) for own in capabilities)
    ]
    request = options.get("methods", ())
    planning = options.get("plan") is not False
    known = {"plan", "generate"} if planning else {"generate"}
    methods = [
        name
        for name in _METHODS
        if name in known or name in request or _announced(name, capabilities)
    ]
    return Offer(
        tools=tuple(Tool(name, _ABOUT[name]) for name in methods),
        version=info["version"],
        name=info["name"],
        warnings=tuple(warnings),
        capabilities=capabilities,
        extra=MappingProxyType(
            {
                "protocol": info["protocol"],
                "plan": planning,
                "requires": info["requires"],
                "conflicts_with": info["conflicts_with"],
                "metadata": info["metadata"],
            }
        ),
    )


def _is_text(value: str) -> bool:
    """Return whether this is UTF-8, as protobuf requires. A variable may have any bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_capabilities(offered: tuple[str, ...], wanted: Any) -> None:
    for capability in offered:
        if _CAPABILITY.fullmatch(capability) is None:
            raise HandshakeFailed(
                "X0522",
                f"its capability {capability!r} is not of the form namespace:value",
                help="such as provider:github; mend PluginInfo.capabilities",
            )
    if wanted and not any(capability_fits(str(wanted), capability) for capability in offered):
        raise HandshakeFailed(
            "X0523",
            f"it does not have the capability {wanted}",
            help=f"it has: {', '.join(offered) or 'none'}",
        )


def _announced(method: str, capabilities: tuple[str, ...]) -> bool:
    """Return whether the capabilities name this method: `detect:node` and `hook:detect` both do."""
    return any(method in capability.split(":") for capability in capabilities)


# -- the methods -----------------------------------------------------------------------------


def _ask(method: str) -> Callable[[Any], Exchanges]:
    """Return the operation of one exchange."""

    def steps(params: Any) -> Exchanges:
        offer = yield GetOffer()
        assert isinstance(offer, Offer)
        if all(tool.name != method for tool in offer.tools):
            raise UsageError(
                "X1321",
                f"{offer.name} does not say that it can {method}, and might answer anything",
                help=f'if it can: options = {{ methods = ["{method}"] }} in its entry',
            )
        response = yield Request(method, params)
        if method == "plan" and offer.extra["plan"]:
            yield RetireProcess()  # it now expects a Generate, and would read the next Plan as one
        return _checked(method, response)

    return steps


def _generate(params: Any) -> Exchanges:
    """Plan, then generate from the plan. The member `plan` of the params is ours: it has the fields
    that only the PlanRequest gets (capabilities, flags, repo)."""
    offer = yield GetOffer()
    assert isinstance(offer, Offer)
    request_fields = fields(messages.GenerateRequest, params)
    request = {
        name: value for name, value in request_fields.items() if value is not None
    }  # null: not set
    for_plan = fields(messages.PlanRequest, request.pop("plan", None))
    earlier: list[Any] = []
    if offer.extra["plan"]:
        shared = {name: request[name] for name in ("facts", "schema") if name in request}
        # Check before the plan is sent: a call with bad params must send nothing. The members that
        # the plan has as well, nearly all of the data, are checked when the plan is encoded.
        checked = {name: request[name] for name in request if for_plan or name not in shared}
        to_message(messages.GenerateRequest, checked)
        response = yield Request("plan", shared | for_plan)
        try:
            plan = _checked("plan", response)
        except CallFailed:
            yield RetireProcess()
            raise
        earlier = plan["diagnostics"]
        request.setdefault("graph", plan["resources"])
    request.setdefault("target", offer.name.rpartition("/")[2])
    response = yield Request("generate", request)
    return _checked("generate", response, earlier)


def _checked(method: str, response: Received, earlier: Sequence[Any] = ()) -> Any:
    """Return the result. Raises CallFailed if its diagnostics have an error. Diagnostics of
    `earlier` exchanges of the call are put before its own."""
    result = result_of(response, method)
    if "diagnostics" in result:
        result["diagnostics"] = [*earlier, *result["diagnostics"]]
        errors = [
            diagnostic
            for diagnostic in result["diagnostics"]
            if diagnostic["level"] == "LEVEL_ERROR"
        ]
        if errors:
            raise _failed(method, errors, result["diagnostics"])
    return result


def _failed(method: str, errors: list[dict[str, Any]], diagnostics: list[Any]) -> CallFailed:
    first = errors[0]
    text = ": ".join(part for part in (first["title"], first["message"]) if part)
    loc = first.get("loc") or {}
    place = f" ({loc['file']}:{loc['line']})" if loc.get("file") else ""
    code = f" [{first['code']}]" if first["code"] else ""
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return CallFailed(
        "X0720",
        f"{method} failed: {text or 'an error without words'}{code}{place}{more}",
        error_code=first["code"] or None,
        error_message=text,
        data={"diagnostics": diagnostics},
        help=first["fix_hint"] or "the extension's own diagnostics tell why",
    )


_METHODS: Mapping[str, Callable[[Any], Exchanges]] = MappingProxyType(
    {
        "plan": _ask("plan"),
        "generate": _generate,
        "detect": _ask("detect"),
        "validate": _ask("validate"),
        "preflight": _ask("preflight"),
    }
)


def _call_tool(call: ToolCall) -> Exchanges:
    """Call a method: a plugin's methods are its tools."""
    return (yield from _METHODS[call.name](call.arguments))


_STRATEGIES = {"MERGE_STRATEGY_MERGE": "merge", "MERGE_STRATEGY_APPEND": "append"}


def _files(result: Any) -> tuple[FileFragment, ...]:
    fragments = result.get("fragments", ()) if isinstance(result, Mapping) else ()
    return tuple(
        FileFragment(
            path=fragment["path"],
            content=fragment["content"],
            # A strategy of a later schema counts as not set.
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
        raise unfit("request", f"no method takes a {type(request).__name__}")


DIALECT = Dialect(
    name="cigen",
    framing=Prefixed,
    codec=codec,
    handshake=_handshake,
    operations=MappingProxyType({"call_tool": _call_tool}),
    methods=_METHODS,
    closed=True,
    files=_files,
    facets=MappingProxyType({"typed": Typed}),
    options=MappingProxyType(
        {
            "plan": FLAG.described("Whether it expects a plan before it generates."),
            "capability": TEXT.described("A capability that it must have, such as `provider:ci`."),
            "methods": some_of(*_METHODS).described(
                "Methods that it has, although its capabilities do not say so."
            ),
        }
    ),
    traits=Traits(
        # The protocol gives a reply 30 s.
        limits=Limits(start=60, handshake=30, call=30, write=30, stop=10, max_message=_MOST_BYTES),
        largest_message=_MOST_BYTES,
        positional=True,
        unique_name=True,
        restart=Restart(strategy="on-demand"),
        # Close stdin, wait 5 s, kill: a plugin gets no signal that it could catch.
        shutdown_steps=(CloseStdin(wait=5),),
    ),
)
