"""The cost of rules and chosen tools for a call: `python -m bench rules`. Measures the host's own
code, without a process.

The rules that may decide about a tool are found at its first call, so rules about other tools cost
nothing. Each row is the median of five measurements of one decision, as `Calls.call_tool` makes it.
A rule that fits the tool and not the arguments costs its comparison; the last row shows how much.
The tools of an extension are chosen when it reports them, so that a call of a renamed tool takes
the same steps as any other.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from statistics import median
from timeit import repeat
from typing import Any

from exthost.config import config_from_mapping, spec_from_mapping
from exthost.dialects.mcp.dialect import DIALECT
from exthost.events import Bus
from exthost.extension.call_factory import CallFactory
from exthost.extension.tool_interceptor import ToolOptions
from exthost.host.guarded_calls import GuardedCalls
from exthost.host.hooks import Hooks
from exthost.host.ruled_calls import RuledCalls
from exthost.launch.limits import resolve_limits
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.offer import Tool
from exthost.model.tool_choice import choose_tools

RULES = 100
TIMES = 20_000
ROUNDS = 5
MEASUREMENTS = 5
TARGET_MICROSECONDS = 1.0
ELEVEN = "eleven rules compare an argument"
OPTIONS = ToolOptions(None, EMPTY_MAPPING, True, None, True, True, None)


class OneTool:
    """The calls of an extension with one tool, whose calls do nothing."""

    extension = "fs"
    dialect_name = "mcp"

    def __init__(self) -> None:
        self.current = Tool("read")

    def registered_name(self, name: str) -> str:
        return f"ext_fs_{name}"

    def tool(self, name: str) -> Tool:
        return self.current

    def announced_tool(self, name: str) -> Tool:
        return self.current

    async def prepare_to_call(self, name: str, options: ToolOptions) -> None:
        pass

    async def call_directly(self, name: str, arguments: Any, options: ToolOptions) -> Any:
        return None

    def tool_error(self, result: Any, name: str) -> Any:
        raise AssertionError("no call fails")


def make_interceptor(*last: dict[str, Any]) -> GuardedCalls:
    """Return an interceptor with many rules about other tools, and these at the end."""
    others = [{"tools": f"ext_other{n}_*", "do": "deny"} for n in range(RULES - len(last))]
    rules = config_from_mapping({"rules": [*others, *last]}).rules
    bus = Bus()
    return GuardedCalls(Hooks(lambda: ()), RuledCalls(rules, None, bus), bus)


def measure_renamed_tool() -> float:
    """Return how many microseconds a call of a renamed tool takes more than one of another tool."""
    choice = {"allow": ["r*"], "deny": [f"deny{n}_*" for n in range(RULES)]}
    source = {"command": "fs", "args": []}
    times = []
    for rename in ({}, {"read": "fetch"}):
        entry = {"name": "fs", "source": source, "tools": choice | {"rename": rename}}
        spec = spec_from_mapping(entry)
        factory = CallFactory(spec, DIALECT, resolve_limits(spec, DIALECT))
        (tool,) = choose_tools([Tool("read")], spec.tools).tools.values()
        prepared = factory.prepare(tool)
        make_parts = partial(factory.for_tool, prepared, {"path": "/srv/data"}, None, EMPTY_MAPPING)
        rounds = repeat(make_parts, number=TIMES, repeat=ROUNDS, timer=time.process_time)
        times.append(min(rounds) / TIMES * 1e6)
    return times[1] - times[0]


async def measure(run: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    """Return the microseconds of processor time of one call, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(TIMES):
            await run()
        best = min(best, time.process_time() - began)
    return best / TIMES * 1e6


async def measure_all() -> dict[str, float]:
    """Return the cost of rules for a call, in microseconds, for each kind of last rules."""
    calls = OneTool()
    tool = calls.tool("read")
    arguments = {"path": "/srv/data"}

    async def call_plainly() -> None:
        await calls.call_directly("read", arguments, OPTIONS)

    plain = await measure(call_plainly)
    costs = {}
    about = {"argument": {"path": "/etc/*"}}
    comparison = {"tools": "ext_fs_*", "when": about, "do": "deny"}
    kinds: dict[str, list[dict[str, Any]]] = {
        "no rule is about the tool": [],
        "a rule allows the tool": [{"tools": "ext_fs_read", "do": "allow"}],
        "a rule compares an argument": [comparison],
        ELEVEN: [comparison] * 11,
    }
    for label, rules in kinds.items():
        interceptor = make_interceptor(*rules)
        await interceptor.run(calls, "read", arguments, OPTIONS)

        async def call(interceptor: GuardedCalls = interceptor) -> None:
            if interceptor.is_idle or interceptor.allows("fs", tool, arguments, EMPTY_MAPPING):
                await calls.call_directly("read", arguments, OPTIONS)
            else:
                await interceptor.run(calls, "read", arguments, OPTIONS)

        costs[label] = await measure(call) - plain
    costs["the tool is renamed"] = measure_renamed_tool()
    return costs


def main() -> int:
    """Print the costs. Return 1 if a rule costs a call more than the target."""
    measured = [asyncio.run(measure_all()) for _ in range(MEASUREMENTS)]
    costs = {label: median(one[label] for one in measured) for label in measured[0]}
    further = (costs.pop(ELEVEN) - costs["a rule compares an argument"]) / 10
    print(f"cost of {RULES} rules for one call, in µs (target {TARGET_MICROSECONDS:g})")
    for label, cost in costs.items():
        print(f"{label:30} {cost:.2f}")
    print(f"{'each further comparison':30} {further:.2f}")
    return 0 if max(costs.values()) <= TARGET_MICROSECONDS else 1
