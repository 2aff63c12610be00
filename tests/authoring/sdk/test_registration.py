"""Handlers that no host could call are refused by the SDK when they are registered.

A handler is a function that an author registers with `@ext.tool`, `@ext.hook` and others. A host
calls it with JSON values by name, so its parameters need a JSON schema and names.
"""

import dataclasses
import enum
import re
from collections.abc import Callable
from dataclasses import InitVar
from typing import Annotated, Any, Optional

import pytest
from pydantic import Field

from exthost.sdk import Context, Extension, HookEvent, Param, UnsupportedType, testing


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class IntAccess(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Scaled:
    a: int
    b: InitVar[int]


@dataclasses.dataclass
class ScaledByDefault:
    a: int
    b: InitVar[int] = 2

    def __post_init__(self, b: int) -> None:
        self.a *= b


def take_init_var(value: list[Scaled]) -> None: ...
def take_flag(value: Access) -> None: ...
def take_int_flag(value: IntAccess | None = None) -> None: ...
def take_two(one: Context, other: Context) -> None: ...
def take_by_position(ctx: Context, /) -> None: ...
def take_all(*ctx: Context) -> None: ...
def take_pattern(value: Annotated[str, Param(pattern="^(")]) -> None: ...
def take_pydantic_pattern(value: Annotated[str, Field(pattern="^(")]) -> None: ...


NO_PATTERN = "the parameter value: the pattern '^(' is not a regular expression"

REFUSED_HANDLERS: list[tuple[Callable[..., Any], str]] = [
    (take_init_var, "the parameter value: Scaled has no JSON schema: its InitVar b has no default"),
    (take_flag, "the parameter value: Access has no JSON schema: the values of a Flag combine"),
    (take_int_flag, "the parameter value: IntAccess has no JSON schema: the values of a Flag"),
    (take_two, "one and other both get the context of the call: keep one of them"),
    (take_by_position, "the parameter ctx cannot be given by name"),
    (take_all, "the parameter ctx cannot be given by name"),
    (take_pattern, NO_PATTERN),
    (take_pydantic_pattern, NO_PATTERN),
]


@pytest.mark.parametrize(("handler", "message"), REFUSED_HANDLERS)
def test_a_handler_that_no_host_could_call_is_refused(
    handler: Callable[..., Any], message: str
) -> None:
    ext = Extension("refused")
    with pytest.raises(UnsupportedType) as caught:
        ext.tool(handler)
    assert str(caught.value).startswith(f"{handler.__name__}: "), str(caught.value)
    assert message in str(caught.value)
    assert not ext.registry.tools


@pytest.mark.parametrize("handler", [take_two, take_by_position, take_all])
def test_a_hook_that_no_host_could_call_is_refused(handler: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedType):
        Extension("refused").hook("before_tool_call")(handler)


def test_a_hook_with_a_positional_only_event_is_refused() -> None:
    def guard(event: HookEvent, /) -> None: ...

    with pytest.raises(UnsupportedType, match="the parameter event cannot be given by name"):
        Extension("refused").hook("before_tool_call")(guard)


async def test_a_context_can_be_annotated_as_optional() -> None:
    ext = Extension("optional")

    @ext.tool
    def old(text: str, ctx: Optional[Context] = None) -> str:  # noqa: UP045
        return text if ctx is None else ctx.dialect

    @ext.tool
    async def new(ctx: Annotated[Context | None, "the call"] = None) -> str:
        return "" if ctx is None else ctx.dialect

    assert list(ext.registry.tools["old"].input_schema["properties"]) == ["text"]
    async with testing.connect(ext, dialect="nexo") as client:
        assert (await client.call_tool("old", {"text": "a"})).text == "nexo"
        assert (await client.call_tool("new")).text == "nexo"


async def test_flags_and_init_variables_with_a_default_can_be_returned() -> None:
    ext = Extension("returned")

    @ext.tool
    def access() -> Access:
        return Access.READ | Access.WRITE

    @ext.tool
    def scale(value: ScaledByDefault) -> ScaledByDefault:
        return value

    async with testing.connect(ext, dialect="mcp") as client:
        assert (await client.call_tool("access")).text == "3"
        assert (await client.call_tool("scale", {"value": {"a": 3}})).data == {"a": 6}


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("today", "'today' is not a URI: write a scheme, as in notes://today"),
        ("notes://today", "the same parameters: name"),
        ("notes://{title}", "the same parameters: name, title"),
        ("notes://{name}/{page}", "the same parameters: page"),
        ("notes://{name}/{name}", "the parameter name is there twice"),
        ("notes://{name}/{2nd}", "the parameter 2nd is not a name"),
    ],
)
def test_a_resource_that_could_never_be_read_is_refused(uri: str, message: str) -> None:
    def note(name: str, lines: int = 3) -> str:
        return name

    ext = Extension("refused")
    with pytest.raises(UnsupportedType, match=re.escape(message)):
        ext.resource(uri)(note)
    assert not ext.registry.resources
    ext.resource("notes://{name}")(note)
    ext.resource("files://{name}/{page}")(lambda **names: str(names))


@pytest.mark.parametrize("name", ["a b/c", "a\n", "größe", "x" * 129])
def test_a_tool_with_a_name_that_hosts_refuse_is_refused(name: str) -> None:
    ext = Extension("refused")
    for decorate in (ext.tool, ext.stream, ext.command):
        with pytest.raises(ValueError, match="is not a name for a tool") as caught:
            decorate(name=name)(lambda: None)
        assert str(caught.value).startswith(repr(name))
    assert not ext.registry.callables
    ext.tool(name="files/read.v2:fast_one-1")(lambda: None)
