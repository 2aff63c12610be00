"""The catalog finds the server of a URI by the resource templates of the servers.

An expression such as `{name}` stands for a text without a slash, and `{+path}` for any text.
"""

import pytest

from exthost.faces.gateway.catalog import _matches


@pytest.mark.parametrize(
    ("template", "uri", "is_match"),
    [
        ("note://{id}", "note://7", True),
        ("note://{id}", "note://", True),
        ("note://{id}", "note://a/b", False),
        ("note://{id}", "memo://7", False),
        ("note://{+path}", "note://a/b", True),
        ("note://{a}/{b}", "note://x/y", True),
        ("note://{a}/{b}", "note://x", False),
        ("note://{a}-{b}", "note://x-y-z", True),
        ("note://{+a}-{b}", "note://x-y/z-w", True),
        ("note://{a}-{+b}/end", "note://x-y/z-w/end", True),
        ("note://{a}/end", "note://x/end/end", False),
        ("note://{a}{b}{?c}", "note://x?c=1", True),
        ("note://a.c", "note://abc", False),
        ("note://{", "note://{", True),
        ("", "", True),
        ("", "x", False),
        (7, "7", False),
    ],
)
def test_a_template_matches_the_uris_that_it_describes(
    template: object, uri: str, is_match: bool
) -> None:
    assert _matches(template, uri) is is_match


@pytest.mark.parametrize("template", ["{a}" * 50 + "!", "{a}-" * 50, "{" * 1_000_000, "{+a}-" * 50])
def test_no_template_takes_long(template: str) -> None:
    assert not _matches(f"x://{template}", "x://" + "-" * 49 + "a")
