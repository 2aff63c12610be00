"""The requirements of the dialects, and the tests that show them.

The requirements of a dialect are in the `requirements.toml` of its package, the others in
`tests/vectors/requirements/*.toml`. Each has an id and a text. The decorator
`@shows("morphir-wire-09")` of a test and the key `shows` of a vector name the requirements that are
tested. Tests are found by reading their source, so it does not matter which tests run.
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
    """Declare the requirements that a test shows. The decorator does not change the test."""
    assert ids

    def unchanged(test: F) -> F:
        return test

    return unchanged


def rules() -> dict[str, str]:
    """Return the text of every requirement by its id. A repeated id is an error."""
    requirements: dict[str, str] = {}
    for prefix, path in _rule_files():
        for id, text in _flatten(tomllib.loads(path.read_text(encoding="utf-8")), prefix):
            assert id not in requirements, f"{id} is defined twice"
            requirements[id] = text
    return requirements


def _rule_files() -> Iterator[tuple[str, Traversable]]:
    """Yield the prefix of the ids in each file of requirements, and the file."""
    for dialect in find.BUILT_IN:
        yield dialect, resources.files(f"exthost.dialects.{dialect}") / "requirements.toml"
    for path in sorted(OTHER_RULES.glob("*.toml")):
        yield path.stem, path


def _flatten(table: dict[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}-{key}")
        else:
            assert isinstance(value, str) and value, f"{prefix}-{key} has no text"
            yield f"{prefix}-{key}", value


def shown() -> dict[str, list[str]]:
    """Return the tests and vectors that show each requirement, by id."""
    shown_by: dict[str, list[str]] = {}
    for vector in all_vectors.load():
        for id in vector.fields.get("shows", ()):
            shown_by.setdefault(id, []).append(str(vector))
    for path in sorted((all_vectors.ROOT / "tests").rglob("test_*.py")):
        for id, test in _requirements_in(path):
            shown_by.setdefault(id, []).append(f"{path.name}: {test}")
    return shown_by


def _requirements_in(path: Path) -> Iterator[tuple[str, str]]:
    text = path.read_text(encoding="utf-8")
    if "@shows(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "shows":
                assert node.name.startswith("test_"), f"{node.name} is not a test"
                for argument in decorator.args:
                    yield ast.literal_eval(argument), node.name
