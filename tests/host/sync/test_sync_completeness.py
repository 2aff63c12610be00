"""The blocking API has every public name of the asynchronous one, with the same parameters."""

import inspect
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest

import exthost
from exthost.dialects import find
from exthost.dialects.blocking_methods import SyncStream
from exthost.dialects.facet_attributes import FACET_DIALECTS, FacetAttributes
from exthost.extension.extension import Extension
from exthost.extension.toolbox import Toolbox
from exthost.host.connect_function import connect
from exthost.host.hooks import Hooks
from exthost.host.host import Host
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
]
# What a value of the asynchronous API is in the blocking one.
BLOCKING: dict[Any, Any] = dict(PAIRS) | {EventStream: SyncStream}


def public_methods(kind: type) -> list[str]:
    return [
        name
        for name in dir(kind)
        if not name.startswith("_") and inspect.isfunction(inspect.getattr_static(kind, name))
    ]


METHODS = [(ours, theirs, name) for theirs, ours in PAIRS for name in public_methods(theirs)]


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    METHODS,
    ids=[f"{ours.__name__}.{name}" for ours, _, name in METHODS],
)
def test_a_method_takes_the_same_parameters(ours: type, theirs: type, name: str) -> None:
    blocking = inspect.signature(getattr(ours, name))
    original = inspect.signature(getattr(theirs, name))
    assert list(blocking.parameters) == list(original.parameters)
    for parameter in original.parameters.values():
        other = blocking.parameters[parameter.name]
        assert (other.kind, other.default) == (parameter.kind, parameter.default), parameter.name


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_every_public_name_is_there(theirs: type, ours: type) -> None:
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public - set(dir(ours)) == set()


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_a_property_has_the_type_of_the_original(theirs: type, ours: type) -> None:
    for name, member in inspect.getmembers_static(theirs, lambda one: isinstance(one, property)):
        blocking = inspect.getattr_static(ours, name)
        assert isinstance(blocking, property), name
        assert blocking.fget is not None and member.fget is not None
        hints = [get_type_hints(one.fget).get("return") for one in (blocking, member)]
        expected = hints[1]
        if get_args(expected) and get_args(expected)[0] in BLOCKING:
            first, *rest = get_args(expected)
            expected = get_origin(expected)[BLOCKING[first], *rest]  # type: ignore[index]
        assert hints[0] == BLOCKING.get(expected, expected), name


def test_connecting_takes_the_same_parameters() -> None:
    blocking, original = inspect.signature(sync_connect), inspect.signature(connect)
    assert dict(blocking.parameters) == dict(original.parameters)
    assert exthost.sync_connect is sync_connect


def facets() -> list[tuple[str, str, Any]]:
    return [
        (dialect, name, make)
        for dialect in find.BUILT_IN
        for name, make in find.find_dialect(dialect).facets.items()
    ]


@pytest.mark.parametrize(
    ("dialect", "name", "kind"), facets(), ids=[name for _, name, _ in facets()]
)
def test_a_facet_of_a_built_in_dialect_is_typed_and_has_a_blocking_form(
    dialect: str, name: str, kind: type
) -> None:
    assert FACET_DIALECTS[name] == dialect
    assert FacetAttributes.__annotations__[name] == kind.__name__
    blocking = type(blocking_facet(find.find_dialect(dialect), name, None, cast(Any, None)))
    assert SyncFacetAttributes.__annotations__[name] == blocking.__name__
    public = {member for member in dir(kind) if not member.startswith("_")}
    for member in public - {"service", "on_new_process"}:  # the host calls those
        original = inspect.getattr_static(kind, member)
        if not inspect.isfunction(original):
            assert isinstance(inspect.getattr_static(blocking, member), property)
            continue
        assert inspect.signature(getattr(blocking, member)) == inspect.signature(original)
        # As text: some types are imported for type checkers only.
        returned = str(inspect.signature(original).return_annotation)
        is_stream = "AbstractAsyncContextManager" in returned
        assert inspect.iscoroutinefunction(original) or is_stream, member


def test_a_host_has_no_attributes_that_a_type_checker_does_not_know() -> None:
    for kind in (Host, SyncHost):
        assert not hasattr(kind, "__getattr__"), kind
