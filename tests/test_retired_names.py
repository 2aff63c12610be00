"""No name in `retired_names.txt` is used again: a better word has replaced each of them.

A line of that file is a retired name and the word for it. Only identifiers and module names count:
a retired name is allowed as a word of a sentence.
"""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# By retired name: the word for it.
RETIRED = dict(
    line.split()
    for line in (ROOT / "tests" / "retired_names.txt").read_text().splitlines()
    if line and not line.startswith("#")
)


ANY_RETIRED = re.compile(rf"\b(?:{'|'.join(map(re.escape, RETIRED))})\b")


def identifiers(text: str) -> set[str]:
    """Return the identifiers in the source of a module, or nothing if it has no retired name."""
    if not ANY_RETIRED.search(text):  # reading the tokens takes much longer
        return set()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "soak", "fuzz", "scripts"])
def test_no_retired_name_is_used(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py")]
    assert files
    used_names = {
        str(path.relative_to(ROOT)): {name: RETIRED[name] for name in used}
        for path in files
        if (used := identifiers(path.read_text(encoding="utf-8")) & RETIRED.keys())
    }
    assert not used_names


def test_no_module_has_a_retired_name() -> None:
    folders = (ROOT / "src", ROOT / "tests")
    paths = [path.relative_to(ROOT) for folder in folders for path in folder.rglob("*.py")]
    names = {name for path in paths for name in (*path.parts[:-1], path.stem)}
    assert not {name for name in names if name in RETIRED or f"{name}.py" in RETIRED}


def test_identifiers_are_found_and_sentences_are_not() -> None:
    text = "class Desk:\n    'An inlet.'\n    deskful = 1"
    assert identifiers(text) & RETIRED.keys() == {"Desk"}
