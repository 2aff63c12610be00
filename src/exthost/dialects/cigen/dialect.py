"""cigen: length-prefixed protobuf without ids, methods or type tags; position is everything.

    Hello → PluginInfo, then any number of (PlanRequest → PlanResult, GenerateRequest →
    GenerateResult); DetectRequest, ValidateRequest and PreflightRequest where a plugin says so

Since a message of the wrong type usually decodes without an error, the order is kept by
construction: one call at a time with all of its exchanges, a codec that remembers what it asked,
and a process that is ended as soon as an answer was given up, or a plan was not followed by its
Generate.

Messages are JSON on the neutral side (protobuf's own mapping: the .proto's names, enum names,
base64, defaults included), so that methods are called as in any other dialect; `ext.typed` takes
and gives the generated messages themselves. The one surprise: `generate` is two exchanges,
because plugins answer an empty result to a Generate that no Plan went before.

Only this module and what it needs imports protobuf: the package's own facts do not.
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
from exthost.dialects.steps import Exchanges, GetOffer, Handshake, Received, RetireProcess, expect
from exthost.errors import CallFailed, HandshakeFailed, UsageError
from exthost.messages import Request
from exthost.names import capability_fits
from exthost.offer import Offer, Tool
from exthost.shutdown_steps import CloseStdin
from exthost.spec import Limits, Restart
from exthost.wire.prefixed import Prefixed

__all__ = ["DIALECT", "Typed"]

PROTOCOL = 1

# The methods that a caller can ask for, and what each does. The wire has no names for them.
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
    heard = yield Request(
        "hello",
        {
            "core_protocol": PROTOCOL,
            "core_version": context.host_version,
            "env": {k: v for k, v in context.env.items() if _is_text(k) and _is_text(v)},
        },
    )
    info = expect(heard, "hello")
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
    # Providers name all providers, themselves included, and are used beside one another.
    warnings = [
        f"it says that it conflicts with {one}"
        for one in info["conflicts_with"]
        if not any(capability_fits(one, own) for own in capabilities)
    ]
    asked = options.get("methods", ())
    planning = options.get("plan") is not False
    known = {"plan", "generate"} if planning else {"generate"}
    methods = [
        name
        for name in _METHODS
        if name in known or name in asked or _announced(name, capabilities)
    ]
    return Offer(
        tools=tuple(Tool(name, _ABOUT[name]) for name in methods),
        version=info["version"],
        name=info["name"],
        warnings=tuple(warnings),
        capabilities=capabilities,
        extra=MappingProxyType(
            {
                "plan": planning,
                "requires": info["requires"],
                "conflicts_with": info["conflicts_with"],
                "metadata": info["metadata"],
            }
        ),
    )


def _is_text(value: str) -> bool:
    """The environment may hold any bytes; protobuf's strings are UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_capabilities(offered: tuple[str, ...], wanted: Any) -> None:
    for one in offered:
        if _CAPABILITY.fullmatch(one) is None:
            raise HandshakeFailed(
                "X0522",
                f"its capability {one!r} is not of the form namespace:value",
                help="such as provider:github; mend PluginInfo.capabilities",
            )
    if wanted and not any(capability_fits(str(wanted), one) for one in offered):
        raise HandshakeFailed(
            "X0523",
            f"it does not have the capability {wanted}",
            help=f"it has: {', '.join(offered) or 'none'}",
        )


def _announced(method: str, capabilities: tuple[str, ...]) -> bool:
    """`detect:node` and `hook:detect` both say that it can detect."""
    return any(method in one.split(":") for one in capabilities)


# -- the methods -----------------------------------------------------------------------------


def _ask(method: str) -> Callable[[Any], Exchanges]:
    """An operation of one exchange."""

    def steps(params: Any) -> Exchanges:
        offer = yield GetOffer()
        assert isinstance(offer, Offer)
        if all(tool.name != method for tool in offer.tools):
            raise UsageError(
                "X1321",
                f"{offer.name} does not say that it can {method}, and might answer anything",
                help=f'if it can: options = {{ methods = ["{method}"] }} in its entry',
            )
        heard = yield Request(method, params)
        if method == "plan" and offer.extra["plan"]:
            yield RetireProcess()  # it now expects a Generate, and would take the next Plan for one
        return _checked(method, heard)

    return steps


def _generate(params: Any) -> Exchanges:
    """Plan, then generate what was planned. The member `plan`, which is ours, holds what the
    PlanRequest alone is to have: capabilities, flags, repo."""
    offer = yield GetOffer()
    assert isinstance(offer, Offer)
    given = fields(messages.GenerateRequest, params)
    asked = {name: value for name, value in given.items() if value is not None}  # null: not said
    for_plan = fields(messages.PlanRequest, asked.pop("plan", None))
    said: list[Any] = []
    if offer.extra["plan"]:
        shared = {name: asked[name] for name in ("facts", "schema") if name in asked}
        # Now, and not after the plan was asked for: of a call that cannot be made nothing is sent.
        # What the plan has as well is checked when that is written; it is nearly all there is.
        checked = {name: asked[name] for name in asked if for_plan or name not in shared}
        to_message(messages.GenerateRequest, checked)
        heard = yield Request("plan", shared | for_plan)
        try:
            plan = _checked("plan", heard)
        except CallFailed:
            yield RetireProcess()
            raise
        said = plan["diagnostics"]
        asked.setdefault("graph", plan["resources"])
    asked.setdefault("target", offer.name.rpartition("/")[2])
    heard = yield Request("generate", asked)
    return _checked("generate", heard, said)


def _checked(method: str, heard: Received, said: Sequence[Any] = ()) -> Any:
    """The answer, if it holds no error. Diagnostics that were `said` before in the same call go
    before its own."""
    result = expect(heard, method)
    if "diagnostics" in result:
        result["diagnostics"] = [*said, *result["diagnostics"]]
        errors = [one for one in result["diagnostics"] if one["level"] == "LEVEL_ERROR"]
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
    """Its methods are its tools."""
    return (yield from _METHODS[call.name](call.arguments))


_STRATEGIES = {"MERGE_STRATEGY_MERGE": "merge", "MERGE_STRATEGY_APPEND": "append"}


def _files(result: Any) -> tuple[FileFragment, ...]:
    found = result.get("fragments", ()) if isinstance(result, Mapping) else ()
    return tuple(
        FileFragment(
            path=one["path"],
            content=one["content"],
            # One that a later schema knows is not for us to guess at: as if it were not said.
            strategy=_STRATEGIES.get(one["strategy"], "replace"),  # type: ignore[arg-type]
            order=one["order"],
            format=one["format"],
        )
        for one in found
    )


class Typed:
    """The same methods with the generated messages: `await ext.typed.ask(PlanRequest(…))`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def ask(self, request: Proto, *, timeout: float | None = None) -> Any:
        """Call the method that takes this message; returns the message that answers it."""
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
        # The seed's figures: 30 s a receive, and 10 MB read as MiB.
        limits=Limits(start=60, handshake=30, call=30, write=30, stop=10, max_message=10 * 2**20),
        positional=True,
        unique_name=True,
        restart=Restart(strategy="on-demand"),
        # Close stdin, 5 s, kill: a plugin is never sent a signal that it could catch.
        shutdown_steps=(CloseStdin(wait=5),),
    ),
)
