"""The page of the facets, from the dialects that have them."""

import inspect
from typing import Any

from exthost.dialects import find
from scripts.reference.markdown import page, prose
from scripts.reference.source_code import docstring, members

_INTRODUCTION = """\
What only some dialects can do is an attribute of the extension: `ext.inference.stream_turn(…)`. If
the dialect of an extension does not have the facet, the attribute raises an AttributeError (also a
UsageError) that names the dialect that has it. The blocking extensions of `SyncHost` have the same facets without `await`.
"""


def facets_page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for dialect in find.BUILT_IN:
        for name, make in find.find_dialect(dialect).facets.items():
            parts += [f"## ext.{name} ({dialect})", *_facet(make)]
    return page("Facets", *parts)


def _facet(make: Any) -> list[str]:
    assert inspect.isclass(make), "a facet is a class over Caller"
    parts = [prose(docstring(make))]
    for member in members(make):
        if member.name != "on_new_process":  # called by the host
            parts += [f"```python\n{member.signature}\n```", prose(member.doc)]
    return parts
