"""The size of the public surface, and one name for one thing.

A name without an underscore is public.
"""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "exthost"

# Both are the object that a user works with, on either side of the pipe. Nobody imports both.
SHARED_CLASS_NAMES = {"Extension"}


def test_no_two_public_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert shared.keys() == SHARED_CLASS_NAMES, shared
