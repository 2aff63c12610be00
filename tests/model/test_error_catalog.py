"""The error codes: each that is raised is explained, and none is explained that is not raised."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import exthost
from exthost import errors
from exthost.dialects import find
from exthost.model import error_catalog
from exthost.model.error_catalog import ErrorEntry

SOURCE = Path(exthost.__file__).parent
CODE = re.compile(r'"(X\d{4})"')
TABLES = list(find.iter_error_tables())
CATALOG = error_catalog.load(*TABLES)
MINE = {"kind": "CallFailed", "title": "mine", "meaning": "It failed.", "fix": "Try again."}


def test_every_code_in_the_source_is_in_the_catalog_and_the_other_way_round() -> None:
    used = {code for path in SOURCE.rglob("*.py") for code in CODE.findall(path.read_text())}
    assert used == set(CATALOG)


@pytest.mark.parametrize("name", find.BUILT_IN)
def test_a_code_of_one_dialect_is_raised_in_its_package_alone(name: str) -> None:
    package = find.find_package(name).errors
    own = error_catalog.read_table(package) if isinstance(package, str) else package
    folder = SOURCE / "dialects" / name
    others = [path for path in SOURCE.rglob("*.py") if folder not in path.parents]
    elsewhere = {code for path in others for code in CODE.findall(path.read_text())}
    assert own and not own.keys() & elsewhere


def test_every_code_belongs_to_a_kind_that_there_is() -> None:
    for code, entry in CATALOG.items():
        kind = getattr(errors, entry.kind)
        assert issubclass(kind, errors.ExthostError), code
        number = int(code[1:3])
        if number >= 18:  # from here on, ten codes belong to one subject and may differ in kind
            continue
        assert [one.kind for other, one in CATALOG.items() if int(other[1:3]) == number] == [
            entry.kind
        ] * sum(int(other[1:3]) == number for other in CATALOG)


def test_a_dialect_can_add_codes_of_its_own_and_changes_nothing_for_others() -> None:
    loaded = error_catalog.load(*TABLES, {"L0001": MINE}, {"L0002": MINE})
    assert loaded["L0001"] == ErrorEntry("CallFailed", "mine", "It failed.", "Try again.")
    assert set(loaded) - set(CATALOG) == {"L0001", "L0002"}
    assert error_catalog.load(*TABLES) == CATALOG


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ([{"X0101": MINE}], "X0101 cannot be used: this code has an explanation already"),
        ([{"L1": MINE}, {"L1": MINE}], "L1 cannot be used: this code has"),
        ([{"L1": {"kind": "CallFailed"}}], "an entry has the texts kind, title, meaning, fix"),
        ([{"L1": {**MINE, "fix": ""}}], "an entry has the texts"),
        ([{"L1": {**MINE, "more": "x"}}], "an entry has the texts"),
        ([{"L1": {**MINE, "kind": "Evidence"}}], "there is no kind of error 'Evidence'"),
        ([{"L1": {**MINE, "kind": "Nothing"}}], "there is no kind of error 'Nothing'"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    tables: list[dict[str, dict[str, str]]], why: str
) -> None:
    with pytest.raises(errors.UsageError, match=re.escape(why)) as refused:
        error_catalog.load(*tables)
    assert refused.value.code == "X1390"


def test_no_part_of_the_host_reads_the_catalog_when_it_is_imported() -> None:
    program = (
        "import sys, exthost\n"
        "for name in exthost.__all__: getattr(exthost, name)\n"
        "import exthost.faces.cli\n"
        "assert 'exthost.model.error_catalog' not in sys.modules, 'loaded'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_catalog_is_part_of_the_wheel(tmp_path: Path) -> None:
    root = SOURCE.parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read("exthost/errors.toml")
    assert text == (SOURCE / "errors.toml").read_bytes()
    assert {"exthost/py.typed", "exthost/model/error_catalog.py"} <= set(names)


def test_the_public_names_are_few_and_each_can_be_imported() -> None:
    assert len(exthost.__all__) <= 25
    for name in exthost.__all__:
        assert getattr(exthost, name) is not None
    assert callable(exthost.connect)
