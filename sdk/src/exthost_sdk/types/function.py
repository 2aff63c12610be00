"""A registered handler (`Function`): its schema, the check of its arguments, and where it runs.

A plain function runs in the thread that reads messages, one call at a time: that is the fastest,
and needs no locks. A function that takes a `Context`, a generator, and a function that was
registered with `thread=True` run in a worker thread, so that they can be cancelled and can call the
host. An `async def` runs on the event loop.
"""

import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from exthost_sdk.errors import InvalidArguments, UnsupportedType
from exthost_sdk.types import conversion
from exthost_sdk.types.docstring import read_docstring
from exthost_sdk.types.json_text import decode, encode
from exthost_sdk.types.schema import (
    Schema,
    SchemaBuilder,
    build_schema,
    type_hints,
    with_default,
)

# Types whose JSON values need no conversion.
_PLAIN = (str, int, bool)

_EMPTY = inspect.Parameter.empty


class Execution(enum.Enum):
    """Where a handler runs."""

    INLINE = "inline"
    THREAD = "thread"
    ASYNC = "async"


class Function:
    """A handler, with the name, the description and the schema from its signature and docstring."""

    def __init__(
        self,
        handler: Callable[..., Any],
        context_type: type,
        *,
        name: str = "",
        description: str = "",
        thread: bool | None = None,
        payload: bool = False,
        hints: Mapping[str, bool] | None = None,
    ) -> None:
        """Read the signature and the docstring of `handler`. Raises UnsupportedType.

        context_type  the class of the parameter that gets the context of the call
        thread        whether the handler runs in a worker thread; None decides by its signature
        payload       whether the handler takes one object that the dialect makes (such as a
                      HookEvent), and not arguments by name
        hints         what the author promises about the effects of a tool, such as `read_only`
        """
        docstring = read_docstring(handler.__doc__)
        self.handler = handler
        self.name = name or getattr(handler, "__name__", "")
        self.description = description or docstring.description or self.name.replace("_", " ")
        self.hints = dict(hints or {})
        self.context_name = ""
        self.is_generator = inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(
            handler
        )
        self._converters: dict[str, conversion.Converter] = {}
        self._plain: dict[str, type] = {}  # the parameters whose values need no conversion
        self._required: list[str] = []
        self._rest: conversion.Converter | None = None  # for the values of **kwargs
        self._payload_name = ""
        self._takes_payload = payload
        if payload:
            self.input_schema: Schema = {}
            self._read_payload(context_type)
        else:
            self.input_schema = self._read_parameters(context_type, docstring.parameters)
        self.returns = type_hints(handler).get("return", _EMPTY)
        self._required_names = frozenset(self._required)
        # Whether no argument needs a conversion, so that `call` can take its fast path.
        self._is_plain = (
            not payload and self._rest is None and len(self._plain) == len(self._converters)
        )
        self.execution = self._choose_execution(thread)

    def _choose_execution(self, thread: bool | None) -> Execution:
        handler = self.handler
        if inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler):
            if thread:
                raise TypeError(f"{self.name} is asynchronous and cannot run in a thread")
            return Execution.ASYNC
        wants_thread = bool(self.context_name) or self.is_generator if thread is None else thread
        return Execution.THREAD if wants_thread else Execution.INLINE

    def _read_parameters(self, context_type: type, descriptions: dict[str, str]) -> Schema:
        """Return the schema of the arguments, and store the converters. `descriptions` are those
        of the docstring, by parameter."""
        builder = SchemaBuilder()
        hints = type_hints(self.handler)
        properties: dict[str, Schema] = {}
        schema: Schema = {"type": "object", "properties": properties}
        additional: Schema | bool = False
        for name, parameter in inspect.signature(self.handler).parameters.items():
            annotation = hints.get(name, _EMPTY)
            self._check_kind(parameter)
            self._check_receiver(name, is_first=not properties)  # `self` of a method
            if _is_context(annotation, context_type):
                self._set_context_name(name)
                continue
            try:
                member, convert = builder.build(annotation), conversion.build_converter(annotation)
            except UnsupportedType as error:
                raise UnsupportedType(f"{self.name}: the parameter {name}: {error}") from None
            if parameter.kind is parameter.VAR_KEYWORD:  # **kwargs: any further arguments
                additional, self._rest = member or True, convert
                continue
            if name in descriptions and "description" not in member:
                member["description"] = descriptions[name]
            self._check_default(name, parameter.default, annotation, convert)
            properties[name] = with_default(member, parameter.default)
            self._converters[name] = convert
            if annotation in _PLAIN:
                self._plain[name] = annotation
            if parameter.default is _EMPTY:
                self._required.append(name)
        if self._required:
            schema["required"] = self._required
        if additional is not True:  # True is the default of JSON Schema
            schema["additionalProperties"] = additional
        return builder.complete(schema)

    def _read_payload(self, context_type: type) -> None:
        hints = type_hints(self.handler)
        for name, parameter in inspect.signature(self.handler).parameters.items():
            self._check_kind(parameter)
            if _is_context(hints.get(name, _EMPTY), context_type):
                self._set_context_name(name)
            elif not self._payload_name:
                self._payload_name = name
            else:
                raise TypeError(f"{self.name} takes one object, and a Context")

    def _check_kind(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise UnsupportedType(
                f"{self.name}: the parameter {parameter.name} cannot be given by name: "
                "declare it without `/` or `*`"
            )

    def _check_receiver(self, name: str, *, is_first: bool) -> None:
        """Raise UnsupportedType if the handler is a method that is not bound to an object."""
        # The qualified name of a method is `Class.method`, and that of a function inside another
        # function is `outer.<locals>.inner`.
        class_name = getattr(self.handler, "__qualname__", "").rpartition(".")[0]
        if is_first and name in ("self", "cls") and not class_name.endswith("<locals>"):
            raise UnsupportedType(
                f"{self.name} is a method, and its parameter {name} would be an argument of the "
                f"tool: register it with an object, as in ext.tool(thing.{self.name})"
            )

    def _check_default(
        self, name: str, default: Any, annotation: Any, convert: conversion.Converter
    ) -> None:
        """Raise UnsupportedType if a default is not of the type of its parameter."""
        if default is _EMPTY or annotation is _EMPTY or _is_instance(default, annotation):
            return
        try:
            convert(decode(encode(default)), name)
        except (conversion.Mismatch, TypeError, ValueError):
            kind = getattr(annotation, "__name__", str(annotation))
            hint = f": write {kind} | None" if default is None else ""
            raise UnsupportedType(
                f"{self.name}: the default of the parameter {name} is {default!r}, and its type "
                f"is {kind}{hint}"
            ) from None

    def _set_context_name(self, name: str) -> None:
        if self.context_name:
            raise UnsupportedType(
                f"{self.name}: the parameters {self.context_name} and {name} both get the context "
                "of the call: keep one of them"
            )
        self.context_name = name

    @property
    def output_schema(self) -> Schema | None:
        """The schema of the result; None if the return type is not annotated or has no schema."""
        if self.returns is _EMPTY:
            return None
        try:
            return build_schema(self.returns)
        except UnsupportedType:
            return None

    def call(self, arguments: Any) -> Any:
        """Call the handler with arguments as the host sent them. Raises InvalidArguments."""
        # The fast path: every argument has a type that needs no conversion.
        if self._is_plain and type(arguments) is dict:
            plain = self._plain
            for name, value in arguments.items():
                if plain.get(name) is not type(value):
                    break
            else:  # every argument is known and needs no conversion
                if len(arguments) == len(plain) or self._required_names <= arguments.keys():
                    return self.handler(**arguments)
        return self.handler(**self.bind(arguments))

    def bind(self, arguments: Any) -> dict[str, Any]:
        """Return the keyword arguments for the handler. Raises InvalidArguments."""
        if self._takes_payload:
            return {self._payload_name: arguments} if self._payload_name else {}
        if arguments is None:
            arguments = {}
        if type(arguments) is not dict:
            raise InvalidArguments(self.name, ["expected an object"])
        problems: list[str] = []
        bound: dict[str, Any] = {}
        for name, value in arguments.items():
            convert = self._converters.get(name, self._rest)
            if convert is None or name == self.context_name:
                if name != "_meta":  # data about the call, which hosts may add to the arguments
                    problems.append(
                        f"{name}: {conversion.describe_unknown_name(name, self._converters)}"
                    )
                continue
            try:
                bound[name] = value if convert is conversion.keep else convert(value, name)
            except conversion.Mismatch as mismatch:
                problems.append(str(mismatch))
        problems += [
            f"{name}: is missing"
            for name in self._required
            if name not in bound and name not in arguments
        ]
        if problems:
            raise InvalidArguments(self.name, problems)
        return bound

    def bind_command_line(self, argv: list[str]) -> dict[str, Any]:
        """Return the keyword arguments for the arguments of a command line: `name=value`, or values
        in the order of the parameters, as `bind_texts` does. Raises InvalidArguments."""
        names = list(self._converters)
        arguments: dict[str, Any] = {}
        for argument in argv:
            name, equals, text = argument.partition("=")
            if not equals or name not in self._converters:
                unset = [name for name in names if name not in arguments]
                if not unset:
                    raise InvalidArguments(self.name, [f"too many arguments: {argument}"])
                name, text = unset[0], argument
            arguments[name] = text
        return self.bind_texts(arguments)

    def bind_texts(self, texts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for arguments that are given as texts. A text is decoded as
        JSON if its parameter does not accept text. Raises InvalidArguments."""
        arguments: dict[str, Any] = dict(texts)
        for name, text in texts.items():
            if name not in self._converters or not isinstance(text, str):
                continue  # `bind` below reports it
            try:
                self._converters[name](text, name)
            except conversion.Mismatch:
                try:
                    arguments[name] = decode(text.encode())
                except (ValueError, RecursionError):
                    pass  # `bind` below reports it
        return self.bind(arguments)


def _is_instance(value: Any, annotation: Any) -> bool:
    """Return whether a value is of a type that is a class."""
    return isinstance(annotation, type) and isinstance(value, annotation)


def _is_context(annotation: Any, context_type: type) -> bool:
    """Return whether a parameter with this annotation gets the context: `Context`, also with
    metadata or as `Context | None`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _is_context(arguments[0], context_type)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        return len(members) == 1 and _is_context(members[0], context_type)
    return isinstance(annotation, type) and issubclass(annotation, context_type)
