"""The vectors of this repository, of every dialect and of the toys. `exthost.testing.vectors` plays
them."""

from functools import cache
from pathlib import Path

from exthost.testing.vectors import Vector, load_vectors

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests" / "vectors", ROOT / "tests" / "toys")


@cache
def load() -> tuple[Vector, ...]:
    """Every vector of every file that names a dialect."""
    files = sorted(path for folder in FOLDERS for path in folder.glob("*.toml"))
    return tuple(vector for path in files for vector in load_vectors(path))


def vectors(*tables: str) -> list[Vector]:
    return [vector for vector in load() if vector.table in tables]
