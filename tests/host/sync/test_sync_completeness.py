"""The blocking API has every public name of the asynchronous one, with the same parameters.

`SyncHost.call_tool` is `Host.call_tool` for programs without an event loop, and so on. The tests
compare the classes in PAIRS. A facet is an attribute of an extension with the methods of one kind
of extension: `ext.inference` exists for extensions of the dialect roder.
"""

import ast
import inspect
import sys
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest

import exthost
from exthost.dialects import find
from exthost.dialects.blocking_methods import SyncStream
from exthost.dialects.facet_attributes import FACET_DIALECTS, FacetAttributes
from exthost.extension.extension import Extension
from exthost.extension.toolbox import Toolbox
from exthost.host.connect_function import connect
from exthost.host.control.attached_host import AttachedExtension, AttachedHost, attach
from exthost.host.hooks import Hooks
from exthost.host.host import Host
from exthost.host.sync.sync_attached_host import (
    SyncAttachedExtension,
    SyncAttachedHost,
    sync_attach,
)
from exthost.host.sync.sync_connection import sync_connect
from exthost.host.sync.sync_extension import SyncExtension, SyncToolbox, blocking_facet
from exthost.host.sync.sync_facet_attributes import SyncFacetAttributes
from exthost.host.sync.sync_host import SyncHooks, SyncHost
from exthost.session.stream import EventStream

PAIRS = [
    (Extension, SyncExtension),
    (Host, SyncHost),
    (Toolbox, SyncToolbox),
    (Hooks, SyncHooks),
    (AttachedHost, SyncAttachedHost),
    (AttachedExtension, SyncAttachedExtension),
]
# The type in the blocking API for each type of the asynchronous API.
BLOCKING_TYPES: dict[Any, Any] = dict(PAIRS) | {EventStream: SyncStream}


def return_type(function: Any) -> Any:
    """Return the annotated type of a function's result. Names that its module imports only for type
    checkers, under `if TYPE_CHECKING`, are imported here."""
    names: dict[str, Any] = {}
    source = inspect.getsource(sys.modules[function.__module__])
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            imports = ast.Module(
                [line for line in block.body if isinstance(line, ast.ImportFrom)], []
            )
            exec(compile(imports, function.__module__, "exec"), names)
    return get_type_hints(function, localns=names).get("return")


def public_methods(kind: type) -> list[str]:
    return [
        name
        for name in dir(kind)
        if not name.startswith("_") and inspect.isfunction(inspect.getattr_static(kind, name))
    ]


METHODS = [
    (blocking_class, async_class, name)
    for async_class, blocking_class in PAIRS
    for name in public_methods(async_class)
]


@pytest.mark.parametrize(
    ("blocking_class", "async_class", "name"),
    METHODS,
    ids=[f"{blocking_class.__name__}.{name}" for blocking_class, _, name in METHODS],
)
def test_a_blocking_method_has_the_same_parameters(
    blocking_class: type, async_class: type, name: str
) -> None:
    blocking = inspect.signature(getattr(blocking_class, name))
    original = inspect.signature(getattr(async_class, name))
    assert list(blocking.parameters) == list(original.parameters)
    for parameter in original.parameters.values():
        other = blocking.parameters[parameter.name]
        assert (other.kind, other.default) == (parameter.kind, parameter.default), parameter.name


@pytest.mark.parametrize(("async_class", "blocking_class"), PAIRS)
def test_the_blocking_class_has_every_public_name(async_class: type, blocking_class: type) -> None:
    public = {name for name in dir(async_class) if not name.startswith("_")}
    assert public - set(dir(blocking_class)) == set()


@pytest.mark.parametrize(("async_class", "blocking_class"), PAIRS)
def test_a_blocking_property_has_the_corresponding_type(
    async_class: type, blocking_class: type
) -> None:
    for name, member in inspect.getmembers_static(
        async_class, lambda member: isinstance(member, property)
    ):
        blocking = inspect.getattr_static(blocking_class, name)
        assert isinstance(blocking, property), name
        assert blocking.fget is not None and member.fget is not None
        expected = return_type(member.fget)
        if get_args(expected) and get_args(expected)[0] in BLOCKING_TYPES:
            # Such as tuple[Extension, ...], which becomes tuple[SyncExtension, ...].
            first, *rest = get_args(expected)
            expected = get_origin(expected)[BLOCKING_TYPES[first], *rest]
        assert return_type(blocking.fget) == BLOCKING_TYPES.get(expected, expected), name


def test_sync_connect_has_the_parameters_of_connect() -> None:
    blocking, original = inspect.signature(sync_connect), inspect.signature(connect)
    assert dict(blocking.parameters) == dict(original.parameters)
    assert exthost.sync_connect is sync_connect


def test_sync_attach_has_the_parameters_of_attach() -> None:
    blocking, original = inspect.signature(sync_attach), inspect.signature(attach)
    assert dict(blocking.parameters) == dict(original.parameters)
    assert exthost.sync_attach is sync_attach


def list_facets() -> list[tuple[str, str, Any]]:
    """Return the dialect, the name and the class of each facet."""
    return [
        (dialect, name, facet_class)
        for dialect in find.BUILT_IN
        for name, facet_class in find.find_dialect(dialect).facets.items()
    ]


@pytest.mark.parametrize(
    ("dialect", "name", "kind"), list_facets(), ids=[name for _, name, _ in list_facets()]
)
def test_a_facet_of_a_built_in_dialect_is_typed_and_has_a_blocking_form(
    dialect: str, name: str, kind: type
) -> None:
    assert FACET_DIALECTS[name] == dialect
    assert FacetAttributes.__annotations__[name] == kind.__name__
    blocking = type(blocking_facet(find.find_dialect(dialect), name, None, cast(Any, None)))
    assert SyncFacetAttributes.__annotations__[name] == blocking.__name__
    public = {member for member in dir(kind) if not member.startswith("_")}
    for member in public - {"service", "on_new_process"}:  # methods that only the host calls
        original = inspect.getattr_static(kind, member)
        if not inspect.isfunction(original):
            assert isinstance(inspect.getattr_static(blocking, member), property)
            continue
        assert inspect.signature(getattr(blocking, member)) == inspect.signature(original)
        # The annotation is read as text: some types are imported only for type checkers.
        returned = str(inspect.signature(original).return_annotation)
        is_stream = "AbstractAsyncContextManager" in returned
        assert inspect.iscoroutinefunction(original) or is_stream, member


def test_a_host_has_no_attributes_that_a_type_checker_does_not_know() -> None:
    for kind in (Host, SyncHost):
        assert not hasattr(kind, "__getattr__"), kind
