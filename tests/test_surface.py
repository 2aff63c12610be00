"""Tests of the public names: how many an extension has, and its facets.

A name without a leading underscore is public. A facet is an attribute with the methods of one
dialect (protocol), such as `ext.resources` of an MCP server.
"""

import ast
import asyncio
import copy
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects import find
from exthost.dialects.facet_attributes import FACET_DIALECTS
from exthost.errors import UsageError
from exthost.extension.extension import Extension
from exthost.host.control.attached_host import AttachedExtension
from exthost.host.sync.sync_extension import SyncExtension
from exthost.host.sync.sync_host import SyncHost
from exthost.model.spec import Spec

SOURCE = Path(__file__).parents[1] / "src" / "exthost"
SDK_SOURCE = Path(__file__).parents[1] / "sdk" / "src" / "exthost_sdk"

# `exthost.sdk` has the class for the authors of extensions, the host has the class for its users.
SHARED_CLASS_NAMES = {"Extension"}

# A new public name of an extension is a decision: it raises this number.
MAX_NAMES_OF_AN_EXTENSION = 32


def make_extension(dialect: str) -> Extension:
    """Return an extension that is never started."""

    async def make() -> Extension:
        spec = Spec(id="x", argv=("x",), dialect=dialect)
        return Extension(spec, find.find_dialect(dialect))

    return asyncio.run(make())


def make_sync_extension(dialect: str) -> SyncExtension:
    """Return a blocking extension that is never started."""
    loop_thread: Any = None
    return SyncExtension(make_extension(dialect), loop_thread)


def public_names(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


def test_an_extension_has_few_public_names() -> None:
    names = public_names(make_extension("morphir"))
    assert len(names) <= MAX_NAMES_OF_AN_EXTENSION, sorted(names)
    assert public_names(make_sync_extension("morphir")) == names - {"internals"}
    assert public_names(AttachedExtension) <= names


def test_a_blocking_host_does_not_show_its_thread() -> None:
    assert not {"target", "loop_thread"} & public_names(SyncHost)


@pytest.mark.parametrize("dialect", find.BUILT_IN)
def test_an_extension_has_the_facets_of_its_own_dialect_as_attributes(dialect: str) -> None:
    ext, names = make_extension(dialect), public_names(make_extension("morphir"))
    facets = find.find_dialect(dialect).facets
    assert public_names(ext) == names | facets.keys()
    for name, kind in facets.items():
        assert isinstance(kind, type) and ext.facet(kind) is getattr(ext, name)


@pytest.mark.parametrize("make", [make_extension, make_sync_extension])
@pytest.mark.parametrize("name", FACET_DIALECTS)
def test_the_error_for_a_facet_of_another_dialect_says_which_dialect_has_it(
    make: Any, name: str
) -> None:
    ext = make("morphir")
    assert not hasattr(ext, name)
    with pytest.raises(AttributeError, match=f"{FACET_DIALECTS[name]} dialect") as caught:
        getattr(ext, name)
    assert isinstance(caught.value, UsageError) and "morphir" in caught.value.message


@pytest.mark.parametrize(("name", "dialect"), FACET_DIALECTS.items())
def test_the_error_for_a_facet_class_of_another_dialect_says_which_dialect_has_it(
    name: str, dialect: str
) -> None:
    facet_class: Any = find.find_dialect(dialect).facets[name]
    with pytest.raises(UsageError) as caught:
        make_extension("morphir").facet(facet_class)
    assert caught.value.message == (
        f"an extension of the morphir dialect has no {name!r}: "
        f"extensions of the {dialect} dialect have it"
    )


@pytest.mark.parametrize("make", [make_extension, make_sync_extension])
def test_any_other_missing_name_is_a_plain_attribute_error(make: Any) -> None:
    ext = make("mcp")
    with pytest.raises(AttributeError, match="Extension' object has no attribute 'resorces'"):
        _ = ext.resorces
    # The copy is created without attributes first, and must not fail then.
    assert not isinstance(copy.copy(ext), UsageError)


def test_no_two_public_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for path in sorted([*SOURCE.rglob("*.py"), *SDK_SOURCE.rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path}:{node.lineno}")
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared.keys() == SHARED_CLASS_NAMES, shared
