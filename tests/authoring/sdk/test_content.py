"""Extensions of the SDK with images, audio, resources and prompts, and with questions to a person
and to a model; and what only the dialects roder and synaps have.

A dialect is the protocol of an extension. `testing.connect(extension, dialect=…)` runs an extension
in this process, and yields the host's client. Most of this exists only in MCP; the other dialects
get a text in its place, or report that it is not offered.
"""

import asyncio
import base64
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal
from uuid import UUID

import pytest
from exthost_sdk.types.form import Form

from exthost.events import Bus, ExtensionEvent
from exthost.sdk import (
    Assignment,
    Audio,
    Close,
    Commit,
    Context,
    EditorEvent,
    EmbeddedResource,
    Extension,
    HostError,
    Image,
    PromptMessage,
    Render,
    ResourceLink,
    SinkEvent,
    UnsupportedType,
    testing,
)
from tests.extensions.harness import wait_until

PIXEL = b"\x89PNG\r\n"
ONLY_BLOCKS = "only a content block of MCP can hold"
DIALECTS_WITHOUT_CONTENT = ["morphir", "nexo", "roder", "synaps"]


def make_extension() -> Extension:
    ext = Extension("media")

    @ext.tool(read_only=True, idempotent=True, destructive=False)
    def plot() -> Image:
        """Draw a plot."""
        return Image(PIXEL)

    @ext.tool
    def report() -> list[Any]:
        """Return content of every kind."""
        return [
            "see:",
            Audio(b"beep", "audio/wav"),
            ResourceLink("file:///tmp/a.txt", description="a file", media_type="text/plain"),
            EmbeddedResource("note://1", "hello", media_type="text/plain"),
            EmbeddedResource("note://2", b"\0"),
        ]

    return ext


async def test_mcp_gets_content_blocks() -> None:
    async with testing.connect(make_extension(), dialect="mcp") as client:
        [block] = (await client.call_tool("plot", {})).raw["content"]
        assert (block["type"], block["mimeType"]) == ("image", "image/png")
        assert base64.b64decode(block["data"]) == PIXEL
        text, audio, link, note, binary = (await client.call_tool("report", {})).raw["content"]
        assert text == {"type": "text", "text": "see:"}
        assert audio == {"type": "audio", "data": "YmVlcA==", "mimeType": "audio/wav"}
        assert link == {
            "type": "resource_link",
            "uri": "file:///tmp/a.txt",
            "name": "a.txt",
            "description": "a file",
            "mimeType": "text/plain",
        }
        assert note["resource"]["text"] == "hello"
        assert binary["resource"] == {"uri": "note://2", "blob": "AA=="}


@pytest.mark.parametrize("dialect", DIALECTS_WITHOUT_CONTENT)
async def test_a_dialect_without_images_gets_a_text_that_says_so(dialect: str) -> None:
    async with testing.connect(make_extension(), dialect=dialect) as client:
        result = await client.call_tool("plot", {})
        assert f"[image/png, 6 bytes: {ONLY_BLOCKS} an image]" in str(result.data or result.text)


async def test_an_image_within_another_value_is_a_text_in_mcp_too() -> None:
    ext = Extension("charts")

    @ext.tool
    def charts() -> dict[str, Any]:
        return {"first": Image(PIXEL)}

    async with testing.connect(ext, dialect="mcp") as client:
        result = await client.call_tool("charts", {})
        assert result.data == {"first": f"[image/png, 6 bytes: {ONLY_BLOCKS} an image]"}


async def test_a_resource_can_return_an_image_or_audio() -> None:
    ext = Extension("media")
    ext.resource("images://dot")(lambda: Image(PIXEL))
    ext.resource("sounds://beep", mime_type="audio/x-beep")(lambda: Audio(b"beep"))
    async with testing.connect(ext, dialect="mcp") as client:
        [dot] = (await client.resources.read("images://dot"))["contents"]
        assert dot["mimeType"] == "image/png" and base64.b64decode(dot["blob"]) == PIXEL
        [beep] = (await client.resources.read("sounds://beep"))["contents"]
        assert beep["mimeType"] == "audio/x-beep" and base64.b64decode(beep["blob"]) == b"beep"


async def test_the_promises_of_a_tool_are_annotations_of_mcp() -> None:
    async with testing.connect(make_extension(), dialect="mcp") as client:
        assert client.tools["plot"].extra["annotations"] == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
        }
        assert "annotations" not in client.tools["report"].extra
        assert client.tools["plot"].output_schema is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Image("text"), "bytes"),  # type: ignore[arg-type]
        (lambda: Image(b"", "text/plain"), "not the media type of an image"),
        (lambda: Audio(b"", "image/png"), "not the media type of an audio"),
    ],
)
def test_wrong_content_is_an_error(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


async def test_prompts_are_listed_and_filled_in() -> None:
    ext = Extension("prompts")

    @ext.prompt
    def review(code: str, strictness: int = 1) -> list[Any]:
        """Review a piece of code.

        Args:
            code: the code
        """
        return [
            f"Review with strictness {strictness + 1}: {code}",
            PromptMessage("assistant", "OK"),
        ]

    async with testing.connect(ext, dialect="mcp") as client:
        [prompt] = await client.prompts.list()
        assert [item["name"] for item in prompt["arguments"]] == ["code", "strictness"]
        assert [item["required"] for item in prompt["arguments"]] == [True, False]
        result = await client.prompts.get("review", {"code": "x = 1", "strictness": "4"})
        first, second = result["messages"]
        assert first["content"]["text"] == "Review with strictness 5: x = 1"
        assert second["role"] == "assistant"
        with pytest.raises(Exception, match="code: is missing"):
            await client.prompts.get("review", {})


@dataclass
class Trip:
    city: str
    days: int = 1


def make_asking_extension() -> Extension:
    ext = Extension("asking")

    @ext.tool
    def book(context: Context) -> str:
        answer = context.elicit("Where to?", Trip)
        return f"{answer.action} {answer.content}"

    @ext.tool
    async def confirm(context: Context) -> str:
        answer = await context.elicit_async("Sure?", bool)
        return f"{answer.action} {answer.content}"

    @ext.tool
    async def summarise(context: Context) -> str:
        answer = await context.sample_async("Sum up", system="Be brief", max_tokens=9)
        return f"{answer.model}: {answer.text}"

    return ext


async def test_a_tool_asks_a_person_and_a_model() -> None:
    received: list[Any] = []

    async def elicit(params: Any) -> Any:
        received.append(params)
        content = (
            {"city": "Lima", "days": 2} if params["message"] == "Where to?" else {"value": True}
        )
        return {"action": "accept", "content": content}

    async def sample(params: Any) -> Any:
        received.append(params)
        return {"role": "assistant", "model": "m1", "content": {"type": "text", "text": "short"}}

    handlers = {"elicitation/create": elicit, "sampling/createMessage": sample}
    async with testing.connect(make_asking_extension(), dialect="mcp", handlers=handlers) as client:
        result = await client.call_tool("book", {})
        assert result.text == "accept Trip(city='Lima', days=2)"
        assert received[0]["requestedSchema"]["required"] == ["city"]
        assert (await client.call_tool("confirm", {})).text == "accept True"
        assert (await client.call_tool("summarise", {})).text == "m1: short"
        assert received[2]["systemPrompt"] == "Be brief" and received[2]["maxTokens"] == 9


@pytest.mark.parametrize(
    ("dialect", "message"),
    [("mcp", "it does not announce `elicitation`"), ("roder", "does not support elicitation")],
)
async def test_a_question_that_cannot_be_asked_is_an_error(dialect: str, message: str) -> None:
    async with testing.connect(make_asking_extension(), dialect=dialect) as client:
        result = await client.call_tool("book", {}, check=False)
        assert message in result.text


@dataclass
class Stay:
    """Fields of every type that a form can have."""

    city: str
    until: date | None = None
    nights: float | None = 2.5
    meal: Literal["breakfast", "dinner"] | None = None
    extras: list[Literal["sauna", "boat"]] = field(default_factory=list)
    key: UUID | None = None


def test_a_form_has_only_fields_that_clients_can_show() -> None:
    form = Form(Stay)
    assert form.schema["properties"] == {
        "city": {"type": "string"},
        "until": {"type": "string", "format": "date"},
        "nights": {"type": "number", "default": 2.5},
        "meal": {"type": "string", "enum": ["breakfast", "dinner"]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["sauna", "boat"]}},
        "key": {"type": "string"},
    }
    assert form.schema["required"] == ["city"]
    assert form.read({"city": "Lima"}) == Stay("Lima")
    assert Form(bool | None).schema["properties"] == {"value": {"type": "boolean"}}
    schema = {"type": "object", "properties": {"trip": {"type": "object"}}}
    assert Form(schema).schema == schema  # a schema of the author's own is sent as it is


@dataclass
class Booking:
    name: str
    trip: Trip


@pytest.mark.parametrize(
    ("form", "field"),
    [(Booking, "trip"), (list[Trip], "value"), (list[str], "value"), (int | str, "value")],
)
def test_a_form_with_a_field_that_no_client_can_show_is_an_error(form: Any, field: str) -> None:
    with pytest.raises(UnsupportedType, match=f"^the field {field} of the form"):
        Form(form)


def test_a_mapping_is_not_a_form() -> None:
    with pytest.raises(UnsupportedType, match="the form has no fields"):
        Form(dict[str, int])


async def test_roder_dispatches_to_subagents_and_sends_events() -> None:
    ext = Extension("helpers")
    received_events: list[SinkEvent] = []

    @ext.subagent("shouter", description="Says it louder", max_turns=3)
    def shout(assignment: Assignment) -> Any:
        yield "thinking"
        return assignment.prompt.upper()

    @ext.subagent("failing")
    def fail(assignment: Assignment) -> str:
        raise ValueError("no idea")

    @ext.sink("turn.")
    def note(event: SinkEvent) -> None:
        received_events.append(event)

    async with testing.connect(ext, dialect="roder") as client:
        definitions = await client.subagents.definitions()
        assert [item.agent_type for item in definitions] == ["shouter", "failing"]
        assert definitions[0].max_turns == 3
        request = {"subagent_type": "shouter", "prompt": "hi", "description": "d"}
        async with client.subagents.dispatch(request) as stream:
            events = [event async for event in stream]
        assert [type(event).__name__ for event in events] == ["SubagentStatus", "Finished"]
        assert events[-1].result["final_message"] == "HI"
        await client.notify("events/handle", {"envelope": {"kind": "turn.started", "n": 1}})
        await client.notify("events/handle", {"envelope": {"kind": "other"}})
        await wait_until(lambda: bool(received_events))
        assert [event.kind for event in received_events] == ["turn.started"]


async def test_several_events_at_one_sink_are_all_cancelled_at_the_end() -> None:
    ext = Extension("recorder")
    started: list[int] = []
    cancelled: list[int] = []

    @ext.sink("turn.")
    async def record(event: SinkEvent) -> None:
        number = event.raw["n"]
        started.append(number)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async with testing.connect(ext, dialect="roder") as client:
        for number in (1, 2):
            await client.notify("events/handle", {"envelope": {"kind": "turn.end", "n": number}})
        await wait_until(lambda: len(started) == 2)
    assert sorted(cancelled) == [1, 2]


async def test_synaps_has_widgets_editors_and_a_sidecar() -> None:
    ext = Extension("panel")
    bus = Bus()
    events: list[ExtensionEvent] = []

    @ext.tool
    def show(context: Context) -> str:
        context.show_widget("w", ["one"], title="T", seconds=5)
        context.dismiss_widget("w")
        return "ok"

    @ext.settings_editor("look", "colour")
    def edit(event: EditorEvent) -> Any:
        if event.action == "open":
            return Render(["red", "blue"], cursor=0)
        return Commit(event.value) if event.action == "commit" else Close("done")

    @ext.sidecar
    def sidecar() -> list[str]:
        return ["--fast"]

    bus.subscribe(ExtensionEvent, events.append)
    async with testing.connect(ext, dialect="synaps", events=bus) as client:
        await client.call_tool("show", {})
        await client.settings.open("look", "colour")
        await client.settings.commit("look", "colour", "red")
        await client.settings.key("look", "colour", "esc")
        assert (await client.sidecar.spawn_args()).args == ("--fast",)
        names = ["widget.upsert", "widget.dismiss"]
        names += [f"settings.editor.{name}" for name in ("render", "commit", "close")]
        await wait_until(lambda: len(events) >= 5)
        assert [event.kind for event in events] == names


def test_a_handler_that_no_dialect_can_call_is_an_error_with_its_name() -> None:
    ext = Extension("wrong")

    class Tools:
        def shout(self, text: str) -> str:
            return text.upper()

    with pytest.raises(UnsupportedType, match="shout is a method, and its parameter self"):
        ext.tool(Tools.shout)
    ext.tool(Tools().shout)

    def count(limit: int = "ten") -> int:  # type: ignore[assignment]
        return limit

    with pytest.raises(UnsupportedType, match="the default of the parameter limit is 'ten'"):
        ext.tool(count)

    def find(name: str = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
        return name

    with pytest.raises(UnsupportedType, match=r"is None, and its type is str: write str \| None"):
        ext.tool(find)
    for capabilities in (["toolz"], "provider:make", ["provider:"]):
        with pytest.raises(ValueError, match="not a capability of cigen"):
            Extension("wrong", capabilities=capabilities)


def test_other_dialects_report_what_they_do_not_offer(capsys: pytest.CaptureFixture[str]) -> None:
    from exthost_sdk.connection import report_unsupported
    from exthost_sdk.dialects import load_dialect

    ext = Extension("prompts")

    @ext.prompt
    def hello() -> str:
        return "hello"

    @ext.resource("a://b")
    def resource() -> str:
        return "text"

    report_unsupported(ext.identity("nexo"), load_dialect("nexo").endpoint)
    assert capsys.readouterr().err.splitlines() == [
        "exthost.sdk: nexo has no resources, so not offered: a://b",
        "exthost.sdk: nexo has no prompts, so not offered: hello",
    ]


def test_a_host_error_is_raised_for_an_answer_that_does_not_fit() -> None:
    from exthost_sdk.context import _read_elicitation, _read_sample

    for answer in (None, {"action": "maybe"}, {"action": "accept", "content": {"city": 1}}):
        with pytest.raises(HostError):
            _read_elicitation(answer, Form(Trip))
    with pytest.raises(HostError):
        _read_sample("text")
    assert _read_elicitation({"action": "decline"}, Form(Trip)).content is None
