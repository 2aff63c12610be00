"""The modules that list the facets of the built-in dialects, as a type checker needs them.

At run time, facets come from the packages of the dialects. A type checker does not see them there,
so these modules list them.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from exthost.dialects import find

_BY = "Written by `make reference`: do not edit."

_TYPES = f'''\
"""The facets of the built-in dialects, for type checkers.

{_BY}
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
{{imports}}
# Facet → the dialect whose extensions have it.
FACET_DIALECTS = {{{{
{{dialects}}}}}}


class FacetAttributes:
    """The types of facets. At run time, an extension has those of its own dialect."""

{{attributes}}'''

_BLOCKING_TYPES = f'''\
"""The facets of the built-in dialects, blocking, for type checkers.

{_BY}
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
{{imports}}

class SyncFacetAttributes:
    """The types of blocking facets. At run time, an extension has those of its own dialect."""

{{attributes}}'''


class _Facet(NamedTuple):
    dialect: str
    name: str
    module: str
    class_name: str


def facet_modules() -> dict[str, str]:
    """Return the text of each module, by its path below `src/exthost/`."""
    return {
        "dialects/facet_attributes.py": _module(_TYPES, [*_facets()]),
        "host/sync/sync_facet_attributes.py": _module(_BLOCKING_TYPES, [*_blocking_facets()]),
    }


def _facets() -> Iterator[_Facet]:
    for dialect in find.BUILT_IN:
        for name, kind in find.find_dialect(dialect).facets.items():
            yield _of_class(dialect, name, kind)


def _blocking_facets() -> Iterator[_Facet]:
    for dialect in find.BUILT_IN:
        references = find.find_package(dialect).blocking_facets
        for name in find.find_dialect(dialect).facets:
            reference = references.get(name, "exthost.host.sync.blocking_view:BlockingView")
            module, _, class_name = reference.partition(":")
            yield _Facet(dialect, name, module, class_name)


def _of_class(dialect: str, name: str, kind: Any) -> _Facet:
    return _Facet(dialect, name, kind.__module__, kind.__name__)


def _module(template: str, facets: list[_Facet]) -> str:
    names = [facet.name for facet in facets]
    assert len(names) == len(set(names)), f"two dialects have a facet of one name: {names}"
    imported: dict[str, set[str]] = defaultdict(set)
    for facet in facets:
        imported[facet.module].add(facet.class_name)
    return template.format(
        imports="".join(_import(*row) for row in sorted(imported.items())),
        dialects="".join(f'    "{facet.name}": "{facet.dialect}",\n' for facet in facets),
        attributes="".join(f'    {facet.name}: "{facet.class_name}"\n' for facet in facets),
    )


def _import(module: str, names: set[str]) -> str:
    line = f"    from {module} import {', '.join(sorted(names))}\n"
    if len(line) <= 100:
        return line
    rows = "".join(f"        {name},\n" for name in sorted(names))
    return f"    from {module} import (\n{rows}    )\n"
