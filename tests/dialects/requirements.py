"""Which tests show which requirements of the dialects, the protocols that extensions speak.

A requirement is a sentence of a specification, with an id. Those of a dialect are in the
`requirements.toml` of its package, the others in `tests/vectors/requirements/*.toml`. The decorator
`@shows("morphir-wire-09")` names the requirements that a test shows, and so does the key `shows` of
a vector (an example of bytes and messages, in a data file). `test_requirements.py` fails if a
requirement is not shown. Tests are found in their source, so it does not matter which tests run.
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


def texts_by_id() -> dict[str, str]:
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
    """Yield the id and text of each requirement in nested tables: `wire.09` has PREFIX-wire-09."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}-{key}")
        else:
            assert isinstance(value, str) and value, f"{prefix}-{key} has no text"
            yield f"{prefix}-{key}", value


def tests_by_id() -> dict[str, list[str]]:
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
    """Yield each id in a decorator `@shows` of a file, and the name of the test."""
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
