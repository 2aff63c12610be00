"""Tests of how the gateway finds the server of a resource by URI templates (RFC 6570).

A template is a text of a server, such as `file:///{+path}`. It decides only which servers are asked
for a resource. A hostile template must not keep the gateway busy.
"""

import time

import pytest

from exthost.faces.gateway.catalog import _matches

# A regular expression would take longer than the age of the universe.
LONG_SECONDS = 20.0


@pytest.mark.parametrize(
    ("template", "uri", "is_match"),
    [
        ("a:{b}", "a:1", True),
        ("a:{b}", "a:", True),
        ("a:{b}", "a:1/2", False),
        ("a:{+b}", "a:1/2", True),
        ("a:{b}/c", "a:1/c", True),
        ("a:{b}/c", "a:1/2/c", False),
        ("{+a}b{c}", "b/xb1", True),
        ("{a}{b}", "xy", True),
        ("a:1", "a:1", True),
        ("a:1", "a:12", False),
        ("", "", True),
        ("a:{b", "a:1", False),
        ("a:{b", "a:{b", True),
        ("käse:{b}", "käse:日本", True),
        (7, "7", False),
    ],
)
def test_a_template_matches_the_uris_that_it_can_be_expanded_to(
    template: object, uri: str, is_match: bool
) -> None:
    assert _matches(template, uri) is is_match


@pytest.mark.parametrize(
    "template", ["a:" + "{+a}x" * 30 + "y", "{a}" * 300 + "y", "{" * 20_000], ids=len
)
def test_a_template_with_many_expressions_takes_no_exponential_time(template: str) -> None:
    began = time.monotonic()
    assert not _matches(template, "a:" + "x" * 1000)
    assert time.monotonic() - began < LONG_SECONDS
