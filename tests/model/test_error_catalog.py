"""The error catalog explains exactly the error codes that the source uses.

Each error has a code such as X0401. `errors.toml`, and a table of each dialect, say for each code
which class of error it belongs to (kind), what it means and how to fix it: `exthost explain X0401`.
"""

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
NEW_ENTRY = {"kind": "CallFailed", "title": "mine", "meaning": "It failed.", "fix": "Try again."}


def test_the_catalog_has_exactly_the_codes_in_the_source() -> None:
    codes_in_source = {
        code for path in SOURCE.rglob("*.py") for code in CODE.findall(path.read_text())
    }
    assert codes_in_source == set(CATALOG)


@pytest.mark.parametrize("name", find.BUILT_IN)
def test_a_code_of_a_dialect_is_raised_only_in_its_package(name: str) -> None:
    package = find.find_package(name).errors
    codes_of_dialect = error_catalog.read_table(package) if isinstance(package, str) else package
    folder = SOURCE / "dialects" / name
    other_files = [path for path in SOURCE.rglob("*.py") if folder not in path.parents]
    codes_of_other_packages = {
        code for path in other_files for code in CODE.findall(path.read_text())
    }
    assert codes_of_dialect and not codes_of_dialect.keys() & codes_of_other_packages


def test_codes_that_begin_alike_belong_to_the_same_error_class() -> None:
    class_names: dict[str, str] = {}
    for code, entry in CATALOG.items():
        assert issubclass(getattr(errors, entry.kind), errors.ExthostError), code
        first_two_digits = code[1:3]
        if int(first_two_digits) < 18:  # from X1800 on, the codes of a feature are together
            assert class_names.setdefault(first_two_digits, entry.kind) == entry.kind, code


def test_a_dialect_can_add_codes_without_changing_the_others() -> None:
    loaded = error_catalog.load(*TABLES, {"L0001": NEW_ENTRY}, {"L0002": NEW_ENTRY})
    assert loaded["L0001"] == ErrorEntry("CallFailed", "mine", "It failed.", "Try again.")
    assert set(loaded) - set(CATALOG) == {"L0001", "L0002"}
    assert error_catalog.load(*TABLES) == CATALOG


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        (
            [{"X0101": NEW_ENTRY}],
            "X0101 cannot be used: this code has an explanation already",
        ),
        ([{"L1": NEW_ENTRY}, {"L1": NEW_ENTRY}], "L1 cannot be used: this code has"),
        ([{"L1": {"kind": "CallFailed"}}], "an entry has the texts kind, title, meaning, fix"),
        ([{"L1": {**NEW_ENTRY, "fix": ""}}], "an entry has the texts"),
        ([{"L1": {**NEW_ENTRY, "more": "x"}}], "an entry has the texts"),
        ([{"L1": {**NEW_ENTRY, "kind": "Evidence"}}], "there is no kind of error 'Evidence'"),
        ([{"L1": {**NEW_ENTRY, "kind": "Nothing"}}], "there is no kind of error 'Nothing'"),
    ],
)
def test_an_invalid_table_is_refused(tables: list[dict[str, dict[str, str]]], reason: str) -> None:
    with pytest.raises(errors.UsageError, match=re.escape(reason)) as caught:
        error_catalog.load(*tables)
    assert caught.value.code == "X1390"  # an invalid table of error codes


def test_no_part_of_the_host_reads_the_catalog_when_it_is_imported() -> None:
    # The program uses every public name and imports the command line.
    program = (
        "import sys, exthost\n"
        "for name in exthost.__all__: getattr(exthost, name)\n"
        "import exthost.faces.cli\n"
        "assert 'exthost.model.error_catalog' not in sys.modules, 'loaded'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_catalog_is_part_of_the_wheel(tmp_path: Path) -> None:
    root = SOURCE.parents[1]
    result = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read("exthost/errors.toml")
    assert text == (SOURCE / "errors.toml").read_bytes()
    assert {"exthost/py.typed", "exthost/model/error_catalog.py"} <= set(names)


def test_the_public_names_are_few_and_each_can_be_imported() -> None:
    assert len(exthost.__all__) <= 25  # adding a public name needs a decision
    for name in exthost.__all__:
        assert getattr(exthost, name) is not None
    assert callable(exthost.connect)
