"""One run of an extension for `exthost learn`: a start, some calls, and how each of them ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from exthost.errors import CallFailed, ExthostError
from exthost.faces.cli.started_extension import abridged_log
from exthost.host.connection import Connection
from exthost.host.control.call_requests import own_tool_name
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Spec
from exthost.process.child import Child


class WireCall(NamedTuple):
    """A call to make: of a tool, or with `is_method` of a method of the dialect (the protocol that
    the extension speaks)."""

    name: str
    arguments: Any
    is_method: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run went.

    tools  the names of the tools that were offered
    calls  for each call "" if it succeeded, otherwise the error
    error  why the extension did not start, or ended; None if it ran
    """

    tools: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    error: ExthostError | None = field(default=None, compare=False)


async def run_calls(
    spec: Spec,
    calls: Sequence[WireCall],
    spawn: Callable[[LaunchPlan, str], Child] = Child,
) -> RunOutcome:
    """Start an extension, make the calls one after the other, and stop it. `spawn` executes the
    launch plan."""
    tools: tuple[str, ...] = ()
    outcomes: list[str] = []
    try:
        with abridged_log() as bus:
            async with Connection(spec, events=bus, spawn=spawn) as extension:
                tools = tuple(sorted(extension.tools))
                for call in calls:
                    try:
                        if call.is_method:
                            await extension.call(call.name, call.arguments)
                        else:
                            name = own_tool_name(extension, call.name)
                            await extension.call_tool(name, call.arguments, hooks=False)
                        outcomes.append("")
                    except CallFailed as error:  # the extension replied with an error
                        outcomes.append(f"{call.name}: {error.message}")
    except ExthostError as error:
        return RunOutcome(tools=tools, calls=tuple(outcomes), error=error)
    return RunOutcome(tools=tools, calls=tuple(outcomes))


def describe_difference(first: RunOutcome, second: RunOutcome) -> str:
    """Return how the second run was worse than the first; "" if it worked as well."""
    if second.error is not None:
        return second.error.message
    if missing := [tool for tool in first.tools if tool not in second.tools]:
        return f"it did not offer {', '.join(missing[:3])}"
    for first_error, second_error in zip(first.calls, second.calls, strict=True):
        if second_error and not first_error:
            return f"the call failed, and succeeded in the first run: {second_error}"
    return ""
