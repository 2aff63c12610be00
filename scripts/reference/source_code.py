"""Signatures and docstrings as they are in the source.

Read from the syntax tree: what `inspect` returns differs between versions of Python.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple


class Member(NamedTuple):
    """A function, method, property or class attribute."""

    name: str
    signature: str
    doc: str


def docstring(value: Any) -> str:
    """Return the docstring, without its indentation."""
    return inspect.cleandoc(value.__doc__ or "")


def signature(function: Any) -> str:
    """Return a function as `name(parameters) -> result`."""
    return _signature(_function(function), is_method=False)


def members(kind: type) -> list[Member]:
    """Return the public methods and properties of a class, those of its bases in exthost too."""
    found: dict[str, Member] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("exthost"):
            found |= {member.name: member for member in _own_members(base)}
    return list(found.values())


def fields(kind: type) -> list[tuple[str, str, str]]:
    """Return the annotated fields of a class: name, type and default."""
    return [
        (
            node.target.id,
            ast.unparse(node.annotation),
            _default(node.value),
        )
        for node in _class(kind).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not node.target.id.startswith("_")
        and "Facet[" not in ast.unparse(node.annotation)  # these have a page of their own
    ]


def _default(value: ast.expr | None) -> str:
    """Return a default as it is written; that of a factory is a mapping."""
    if value is None:
        return ""
    text = ast.unparse(value)
    return "{}" if "mapping" in text.lower() else text


def _function(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def _class(kind: type) -> ast.ClassDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(node, ast.ClassDef)
    return node


def _own_members(kind: type) -> Iterator[Member]:
    for node in _class(kind).body:
        if isinstance(node, ast.Assign):
            yield from _forwarded(kind, node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        doc = inspect.cleandoc(ast.get_docstring(node) or "")
        if node.name == "__init__" and doc:  # without one, users do not make instances
            call = _signature(node, is_method=True).removesuffix(" -> None")
            yield Member(node.name, call.replace("__init__", kind.__name__, 1), doc)
            continue
        if node.name.startswith("_") or "overload" in decorators:
            continue
        if "property" in decorators or "cached_property" in decorators:
            result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            result = result.replace("'", "")  # the name of a class that is defined further below
            yield Member(node.name, f"{node.name}{result}", doc)
        elif not any(decorator.endswith(".setter") for decorator in decorators):
            if any(decorator.startswith("parameters_of(") for decorator in decorators):
                node.args = _function(inspect.unwrap(kind.__dict__[node.name])).args
            is_static = "staticmethod" in decorators
            yield Member(node.name, _signature(node, is_method=not is_static), doc)


def _forwarded(kind: type, node: ast.Assign) -> Iterator[Member]:
    """Yield the method that `name = forward(Original.method)` makes, if this is one."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Name(id=function), args=[ast.Attribute() as original]),
        ) if function.startswith("forward"):
            method = _function(inspect.unwrap(kind.__dict__[name]))
            call = _signature(method, is_method=True).removeprefix("async ")
            if function == "forward_stream":
                call = call.rpartition(" -> ")[0] + " -> SyncStream"
            yield Member(name, call, f"The blocking form of `{ast.unparse(original)}`.")


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool) -> str:
    parameters = node.args
    if is_method:
        first = parameters.posonlyargs or parameters.args
        del first[:1]
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}{node.name}({ast.unparse(parameters)}){result}"
