"""The error codes: each that is raised is explained, and none is explained that is not raised."""

import re
from pathlib import Path

import exthost
from exthost import errors
from exthost.catalogue import CATALOGUE

SOURCE = Path(exthost.__file__).parent
CODE = re.compile(r'"(X\d{4})"')


def test_every_code_in_the_source_is_in_the_catalogue_and_the_other_way_round() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.name != "catalogue.py"]
    used = {code for path in files for code in CODE.findall(path.read_text())}
    assert used == set(CATALOGUE)


def test_every_code_belongs_to_a_kind_that_there_is() -> None:
    for code, entry in CATALOGUE.items():
        kind = getattr(errors, entry.kind)
        assert issubclass(kind, errors.ExthostError), code
        number = int(code[1:3])
        assert [one.kind for other, one in CATALOGUE.items() if int(other[1:3]) == number] == [
            entry.kind
        ] * sum(int(other[1:3]) == number for other in CATALOGUE)


def test_the_public_names_are_few_and_each_can_be_imported() -> None:
    assert len(exthost.__all__) <= 25
    for name in exthost.__all__:
        assert getattr(exthost, name) is not None
    assert callable(exthost.connect)
