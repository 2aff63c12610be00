"""Names that were replaced by plainer ones do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RETIRED = dict(
    line.split()
    for line in (ROOT / "tests" / "retired_names.txt").read_text().splitlines()
    if line and not line.startswith("#")
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def retired_in(text: str) -> list[str]:
    return sorted({word for word in _WORD.findall(text) if word in RETIRED})


@pytest.mark.parametrize("folder", ["src", "bench", "soak", "fuzz", "scripts"])
def test_no_retired_name_is_in_the_code(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py")]
    assert files
    found = {
        str(path.relative_to(ROOT)): names
        for path in files
        if (names := retired_in(f"{path.stem} {path.read_text()}"))
    }
    assert not found, f"use the names of tests/retired_names.txt: {found}"


def test_a_retired_name_is_found() -> None:
    assert retired_in("class Desk:\n    desk = Deskful") == ["Desk"]
