"""The JSON that a template writes. A template is a process that imports the modules of an extension
and is forked for each start. It must not import modules that the extension itself does not import,
so it writes JSON without the module `json`.
"""

import json
from typing import Any

import pytest

from exthost.process import template_program

# Not annotated, because the program has to work with Python 3.8.
to_json: Any = template_program._json


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 12),
        'quote " and backslash \\ and newline \n',
        "é, 漢 and 😀",
        {"list": ["a", ["b"]], "empty": {}},
    ],
)
def test_the_text_is_the_json_of_the_value(value: Any) -> None:
    assert json.loads(to_json(value)) == value


def test_usual_text_is_not_escaped() -> None:
    assert to_json("usual text") == '"usual text"'
