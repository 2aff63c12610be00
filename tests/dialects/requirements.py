"""Which rules there are, and which of them a test shows.

The rules of a dialect are in the `requirements.toml` of its package, the others in
`tests/vectors/requirements/*.toml`: an id, and the rule in our own words. A test names what it
shows by `@shows("morphir-wire-09")`, a vector by its `shows`. Tests are found by reading their
source, so it does not matter which of them are run.
"""

import ast
import tomllib
from collections.abc import Callable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from exthost.dialects import find
from tests.dialects import all_vectors

OTHER_RULES = all_vectors.ROOT / "tests" / "vectors" / "requirements"

F = TypeVar("F", bound=Callable[..., object])


def shows(*ids: str) -> Callable[[F], F]:
    """Say which rules a test shows."""
    assert ids

    def unchanged(test: F) -> F:
        return test

    return unchanged


def rules() -> dict[str, str]:
    """Every rule by its id. An id that is there twice is an error."""
    found: dict[str, str] = {}
    for prefix, path in _rule_files():
        for id, text in _flat(tomllib.loads(path.read_text(encoding="utf-8")), prefix):
            assert id not in found, f"{id} is there twice"
            found[id] = text
    return found


def _rule_files() -> Iterator[tuple[str, Traversable]]:
    """Every file of rules, and what the ids of its rules begin with."""
    for dialect in find.BUILT_IN:
        yield dialect, resources.files(f"exthost.dialects.{dialect}") / "requirements.toml"
    for path in sorted(OTHER_RULES.glob("*.toml")):
        yield path.stem, path


def _flat(table: dict[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}-{key}")
        else:
            assert isinstance(value, str) and value, f"{prefix}-{key} says nothing"
            yield f"{prefix}-{key}", value


def shown() -> dict[str, list[str]]:
    """Every id that is named, and by whom."""
    found: dict[str, list[str]] = {}
    for vector in all_vectors.load():
        for id in vector.fields.get("shows", ()):
            found.setdefault(id, []).append(str(vector))
    for path in sorted((all_vectors.ROOT / "tests").rglob("test_*.py")):
        for id, test in _named_in(path):
            found.setdefault(id, []).append(f"{path.name}: {test}")
    return found


def _named_in(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "shows":
                assert node.name.startswith("test_"), f"{node.name} is no test"
                for argument in decorator.args:
                    yield ast.literal_eval(argument), node.name
