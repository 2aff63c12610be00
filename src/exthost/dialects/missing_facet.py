"""The errors for facets that an extension does not have.

A facet is an attribute that only extensions of one dialect have, such as `ext.inference`. Type
checkers know the facets of the built-in dialects (`facet_attributes`); at run time an extension has
the facets of its own dialect only.
"""

from typing import Protocol

from exthost.dialects.base import Dialect
from exthost.dialects.facet_attributes import FACET_DIALECTS, FacetAttributes
from exthost.errors import UsageError


class FacetOwner(Protocol):
    """The part of an extension that the errors name."""

    @property
    def id(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...


class _NoFacetError(UsageError, AttributeError):
    """A UsageError that is also an AttributeError, so that hasattr() and copy.copy() work."""


def missing_facet_error(extension: FacetOwner, name: str) -> UsageError:
    """Return the error for a facet that the dialect of this extension does not have. `name` is the
    name of its attribute or of its class."""
    attributes = FacetAttributes.__annotations__  # name → class name, of all built-in dialects
    name = next((key for key, class_name in attributes.items() if class_name == name), name)
    dialect, owner = extension.dialect, FACET_DIALECTS.get(name)
    hint = f": extensions of the {owner} dialect have it" if owner else ""
    return _NoFacetError(
        "X1309",
        f"an extension of the {dialect.name} dialect has no {name!r}{hint}",
        extension=extension.id,
        help=f"its facets are: {', '.join(dialect.facets) or 'none'}",
    )


def missing_attribute_error(extension: FacetOwner, name: str) -> Exception:
    """Return the AttributeError for a name that this extension does not have."""
    if name in FACET_DIALECTS:
        return missing_facet_error(extension, name)
    text = f"{type(extension).__name__!r} object has no attribute {name!r}"
    return AttributeError(text, name=name, obj=extension)
