"""The modules that list the facets of the built-in dialects, as a type checker needs them.

At run time, facets come from the packages of the dialects. A type checker does not see them there,
so these modules list them.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from exthost.dialects import find

_BY = "Written by `make reference`: do not edit."

_PLACEHOLDERS = f'''\
"""Placeholders for facets of the built-in dialects. {_BY}"""

from typing import TYPE_CHECKING

from exthost.dialects.facet_placeholder import Facet

if TYPE_CHECKING:
{{imports}}

class FacetAttributes:
    """A placeholder for each facet."""

{{attributes}}'''

_PROPERTIES = f'''\
"""The facets of the built-in dialects, blocking. {_BY}"""

from typing import TYPE_CHECKING

from exthost.host.sync.facet_property import FacetProperty

if TYPE_CHECKING:
{{imports}}

class SyncFacetAttributes:
    """A property for each facet."""

{{attributes}}'''


class _Facet(NamedTuple):
    name: str
    module: str
    class_name: str


def facet_modules() -> dict[str, str]:
    """Return the text of each module, by its path below `src/exthost/`."""
    return {
        "dialects/facet_attributes.py": _module(_PLACEHOLDERS, "Facet", [*_facets()]),
        "host/sync/sync_facet_attributes.py": _module(
            _PROPERTIES, "FacetProperty", [*_blocking_facets()]
        ),
    }


def _facets() -> Iterator[_Facet]:
    for dialect in find.BUILT_IN:
        for name, kind in find.find_dialect(dialect).facets.items():
            yield _of_class(name, kind)


def _blocking_facets() -> Iterator[_Facet]:
    for dialect in find.BUILT_IN:
        references = find.find_package(dialect).blocking_facets
        for name in find.find_dialect(dialect).facets:
            reference = references.get(name, "exthost.host.sync.blocking_view:BlockingView")
            module, _, class_name = reference.partition(":")
            yield _Facet(name, module, class_name)


def _of_class(name: str, kind: Any) -> _Facet:
    return _Facet(name, kind.__module__, kind.__name__)


def _module(template: str, property: str, facets: list[_Facet]) -> str:
    names = [facet.name for facet in facets]
    assert len(names) == len(set(names)), f"two dialects have a facet of one name: {names}"
    imported: dict[str, set[str]] = defaultdict(set)
    for facet in facets:
        imported[facet.module].add(facet.class_name)
    return template.format(
        imports="".join(_import(*row) for row in sorted(imported.items())),
        attributes="".join(
            f'    {facet.name}: "{property}[{facet.class_name}]" = {property}()\n'
            for facet in facets
        ),
    )


def _import(module: str, names: set[str]) -> str:
    line = f"    from {module} import {', '.join(sorted(names))}\n"
    if len(line) <= 100:
        return line
    rows = "".join(f"        {name},\n" for name in sorted(names))
    return f"    from {module} import (\n{rows}    )\n"
