"""What an author can write with the SDK: tools, hooks, commands, providers, resources, generators.

`testing.connect(extension, dialect=…)` runs an extension in this process, as an author would test
it, and yields the host's client. A dialect is the protocol that both speak. Some handlers exist
only in some dialects, and a handler must have the same result in each of them.
"""

import dataclasses
import datetime
import enum
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exthost_sdk.connection import report_unsupported
from exthost_sdk.dialects.nexo import NexoEndpoint
from exthost_sdk.dialects.synaps import SYNAPS_HOOKS, SynapsEndpoint
from exthost_sdk.endpoints.endpoint import Endpoint, Identity

import exthost
from exthost import sdk
from exthost.dialects.nexo import hooks
from exthost.errors import CallFailed
from exthost.sdk import Extension, HookEvent, Turn, testing
from tests.authoring.sdk import sample
from tests.authoring.sdk.programs import JSON_DIALECTS


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_an_extension_is_tested_in_the_process_of_its_tests(dialect: str) -> None:
    async with testing.connect(sample.ext, dialect=dialect) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert (await client.call_tool("count", {"to": 2})).text == "[1,2]"
        with pytest.raises(exthost.errors.UsageError):
            await client.call_tool("add", {"a": "x", "b": 2})


class Colour(enum.Enum):
    RED = "red"


class Size(enum.StrEnum):
    LARGE = "large"


class Shape(enum.Enum):
    """An enum with a value that is not a scalar, so its members are sent by name."""

    LINE = (1, 2)
    POINT = "p"


class Weight(float, enum.Enum):
    HEAVY = (2.5,)


@dataclasses.dataclass
class Order:
    price: int
    total: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = 2 * self.price


class Name(str):
    """A subclass of str."""


# The annotation of a result, its value, and its text, which is the same in every dialect.
RESULTS: list[tuple[Any, Any, str]] = [
    (str, "red", "red"),
    (str, '"red"', '"red"'),
    (str, Name("red"), "red"),
    (Colour, Colour.RED, "red"),
    (Any, Colour.RED, "red"),
    (Size, Size.LARGE, "large"),
    (datetime.datetime, datetime.datetime(2026, 7, 28, 10), "2026-07-28T10:00:00"),
    (bytes, b"hi", "aGk="),
    (uuid.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Path, Path("/a b"), "/a b"),
    (None, None, "null"),
    (Any, None, "null"),
    (int | None, None, "null"),
    (bool, True, "true"),
    (float, 1.0, "1.0"),
    (list[Colour], [Colour.RED], '["red"]'),
    (Shape, Shape.LINE, "LINE"),
    (list[Shape], [Shape.LINE, Shape.POINT], '["LINE","POINT"]'),
    (Weight, Weight.HEAVY, "2.5"),
    (dict[Shape, int], {Shape.LINE: 1}, '{"LINE":1}'),
    (list[dict[Colour, int]], [{Colour.RED: 1}], '[{"red":1}]'),
    (Order, Order(2), '{"price":2,"total":4}'),
    (dict[str, Colour], {"ä": Colour.RED}, '{"ä":"red"}'),
]


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_the_text_of_a_result_is_the_same_in_every_dialect(dialect: str) -> None:
    ext = Extension("results")

    def register(number: int, annotation: Any, value: Any) -> None:
        def return_value() -> Any:
            return value

        return_value.__annotations__["return"] = annotation
        ext.tool(name=f"result_{number}")(return_value)

    for number, (annotation, value, _) in enumerate(RESULTS):
        register(number, annotation, value)  # in a function, so that each tool has its own value
    async with testing.connect(ext, dialect=dialect) as client:
        texts = [(await client.call_tool(f"result_{n}")).text for n in range(len(RESULTS))]
    assert texts == [text for _, _, text in RESULTS]


@pytest.mark.parametrize("dialect", ["nexo", "synaps"])
async def test_a_hook_can_block_or_modify_a_call(dialect: str) -> None:
    ext = Extension("guard")
    events: list[HookEvent] = []

    @ext.hook("before_tool_call")
    def guard(event: HookEvent) -> Any:
        events.append(event)
        if event.arguments == {"city": "Atlantis"}:
            return sdk.Block("it has sunk")
        if event.arguments == {"city": "Byzantium"}:
            return sdk.Modify({"city": "Istanbul"})
        return None

    async with testing.connect(ext, dialect=dialect) as client:

        async def run(city: str) -> Any:
            event = {"tool_name": "weather", "arguments": {"city": city}}
            return await client.run_hook("before_tool_call", event)

        assert not (await run("Paris")).abort
        blocked = await run("Atlantis")
        assert blocked.abort and blocked.reason == "it has sunk"
        assert (await run("Byzantium")).override == {"arguments": {"city": "Istanbul"}}
    assert [event.tool for event in events] == ["weather"] * 3


@pytest.mark.parametrize("dialect", ["nexo", "synaps"])
async def test_a_hook_that_returns_an_invalid_value_fails(dialect: str) -> None:
    ext = Extension("guard")

    @ext.hook("before_tool_call")
    def guard(event: HookEvent) -> Any:
        return event.arguments["answer"]

    async with testing.connect(ext, dialect=dialect) as client:
        for answer in (True, "no", ["no"]):
            with pytest.raises(CallFailed, match="a hook returns None, Block, "):
                await client.run_hook("before_tool_call", {"arguments": {"answer": answer}})


@pytest.mark.parametrize("endpoint", [NexoEndpoint, SynapsEndpoint])
def test_a_hook_that_the_dialect_lacks_is_reported_on_stderr(
    endpoint: type[Endpoint], capsys: pytest.CaptureFixture[str]
) -> None:
    ext = Extension("guard")
    for name in ("before_tool_call", "before_tool"):
        ext.hook(name)(lambda event: None)
    identity = Identity("guard", "1", "", ext.registry)
    report_unsupported(identity, endpoint)
    [line] = capsys.readouterr().err.splitlines()
    assert "before_tool_call, " in line and line.endswith(", so not offered: before_tool")


def test_the_hooks_of_a_dialect_are_those_of_its_manifests() -> None:
    assert NexoEndpoint.supported_hooks == hooks.HOOKS
    assert SynapsEndpoint.supported_hooks == tuple(SYNAPS_HOOKS)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_provider_streams_in_synaps_and_roder(is_async: bool) -> None:
    ext = Extension("parrot")

    def events_of(turn: Turn) -> list[Any]:
        return [sdk.Thinking("hm"), *turn.prompt.split(), sdk.Usage(3, 4)]

    if is_async:

        @ext.provider("parrot", models=["p-1"], description="Repeats")
        async def repeat(turn: Turn) -> Any:
            for event in events_of(turn):
                yield event
    else:

        @ext.provider("parrot", models=["p-1"], description="Repeats")
        def repeat_synchronously(turn: Turn) -> Iterator[Any]:
            yield from events_of(turn)

    messages = [{"role": "user", "content": "polly wants"}]
    async with testing.connect(ext, dialect="synaps") as client:
        completion = await client.providers.complete("p-1", messages)
        assert completion.content[0]["text"] == "pollywants"
        async with client.providers.stream("p-1", messages) as stream:
            event_types = [type(event).__name__ async for event in stream]
        assert len(event_types) == 4 and stream.result.content == completion.content
    async with testing.connect(ext, dialect="roder") as client:
        [model] = await client.inference.list_models()
        assert model.id == "p-1"
        request = {"transcript": [{"UserMessage": {"text": "polly wants"}}]}
        async with client.inference.stream_turn(request) as stream:
            event_types = [type(event).__name__ async for event in stream]
        assert len(event_types) == 5, event_types


async def test_a_command_is_a_tool_in_other_dialects_than_synaps() -> None:
    ext = Extension("shop")

    @ext.command
    def order(item: str, count: int = 1) -> dict[str, Any]:
        """Order something."""
        return {"item": item, "count": count}

    async with testing.connect(ext, dialect="synaps") as client:
        async with client.commands.invoke("order", ["tea", "count=2"]) as stream:
            _ = [event async for event in stream]
        assert stream.result == {"item": "tea", "count": 2}
        with pytest.raises(CallFailed, match="count: expected a whole number"):
            async with client.commands.invoke("order", ["tea", "often"]) as stream:
                _ = [event async for event in stream]
    async with testing.connect(ext, dialect="nexo") as client:
        result = await client.call_tool("order", {"item": "tea"})
        assert result.data == {"item": "tea", "count": 1}


async def test_resources_are_listed_and_read_in_mcp() -> None:
    ext = Extension("library")

    @ext.resource("book://index", mime_type="application/json")
    def index() -> list[str]:
        """All books."""
        return ["a", "b"]

    @ext.resource("book://{title}/text")
    async def text(title: str) -> bytes:
        return title.encode()

    async with testing.connect(ext, dialect="mcp") as client:
        [resource] = await client.resources.list()
        assert resource["uri"] == "book://index" and resource["description"] == "All books."
        [template] = await client.resources.templates()
        assert template["uriTemplate"] == "book://{title}/text"
        result = await client.call("resources/read", {"uri": "book://index"})
        assert result["contents"][0]["text"] == '["a","b"]'
        result = await client.call("resources/read", {"uri": "book://moby/text"})
        assert result["contents"][0]["blob"] == "bW9ieQ=="
        with pytest.raises(CallFailed, match="unknown resource"):
            await client.call("resources/read", {"uri": "book://x"})


async def test_a_generator_plans_and_generates_in_cigen() -> None:
    ext = Extension("provider/demo", capabilities=["provider:demo"])

    @ext.generate
    def generate(request: Any) -> dict[str, str]:
        if not request.graph:
            raise sdk.ToolError("there is nothing to generate")
        return {f"{item.id}.yml": f"target: {request.target}\n" for item in request.graph}

    async with testing.connect(ext, dialect="cigen") as client:
        schema = {"version": "1", "jobs": [{"id": "build"}]}
        result = await client.call("generate", {"schema": schema})
        [fragment] = result["fragments"]
        assert fragment["path"] == "build.yml" and fragment["content"] == "target: demo\n"
        with pytest.raises(CallFailed, match="nothing to generate"):
            await client.call("generate", {})


async def test_the_configuration_of_the_host_is_in_the_context() -> None:
    ext = Extension("configured")

    @ext.tool
    def greeting(ctx: sdk.Context) -> str:
        return str(ctx.config["greeting"])

    for dialect in ("morphir", "synaps", "roder"):
        async with testing.connect(ext, dialect=dialect, config={"greeting": "hi"}) as client:
            assert (await client.call_tool("greeting")).text == "hi"


async def test_the_caller_is_in_the_context() -> None:
    ext = Extension("asked")

    @ext.tool
    async def who(ctx: sdk.Context) -> Any:
        return ctx.meta.get("agent_id")

    options = {"context_passthrough": True}
    for dialect in ("nexo", "mcp"):
        async with testing.connect(ext, dialect=dialect, options=options) as client:
            result = await client.call_tool("who", {}, context={"agent_id": "a-7"})
            assert result.text == "a-7"


def test_registering_a_name_twice_is_an_error() -> None:
    ext = Extension("twice")

    @ext.tool
    def one() -> None: ...

    with pytest.raises(ValueError, match="twice"):
        ext.stream(name="one")(one)


async def test_process_limits_do_not_apply_to_an_extension_in_the_test_process() -> None:
    ext = Extension("limited")

    @ext.tool
    def shout(text: str) -> str:
        return text.upper()

    limits = {"nproc": 1, "cpu": 1}
    async with testing.connect(ext, dialect="nexo", limits=limits) as client:
        assert (await client.call_tool("shout", {"text": "hi"})).text == "HI"
