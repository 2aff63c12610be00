"""The vectors of every built-in dialect and of the toy dialects, for tests that check all of them.

A dialect is the protocol that an extension speaks. A vector is an example in a data file (.toml),
such as bytes and the message that they mean. Vectors of one kind are a table, for example [[read]].
"""

from functools import cache
from pathlib import Path

from exthost.authoring.testing.vectors import Vector, load_vectors, package_vectors
from exthost.dialects import find

ROOT = Path(__file__).parents[2]
TOYS = ROOT / "tests" / "toys"


@cache
def load() -> tuple[Vector, ...]:
    """Return every vector."""
    built_in = [
        vector for name in find.BUILT_IN for vector in package_vectors(find.find_package(name))
    ]
    toys = [vector for path in sorted(TOYS.glob("*.toml")) for vector in load_vectors(path)]
    return (*built_in, *toys)


def vectors(*tables: str) -> list[Vector]:
    """Return the vectors of these kinds, such as "read"."""
    return [vector for vector in load() if vector.table in tables]
