"""Strict semantic versions: their order is that of semver.org, and other texts are not versions.

The versions are those of extensions, which strangers write: no text may raise an exception or take
long. A text that is not a version is neither older nor newer than any version.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.model.semver import is_newer, is_version

OLDEST_TO_NEWEST = [
    "0.0.1",
    "0.1.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


def test_the_order_is_that_of_the_standard() -> None:
    for before, after in pairwise(OLDEST_TO_NEWEST):
        assert is_newer(after, before) and not is_newer(before, after)


def test_a_version_has_at_most_256_characters() -> None:
    longest = "1.0.0+" + "a" * 250
    assert is_version(longest) and not is_version(longest + "a")


def test_build_metadata_does_not_affect_the_order() -> None:
    assert is_version("1.0.0+a.01") and not is_newer("1.0.0+b", "1.0.0+a")


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.3-", "1.2.3+", "1.2.3-a..b", "1.02.3", "\u0661.2.3"],
)
def test_invalid_versions(text: str) -> None:
    assert not is_version(text) and not is_newer(text, "0.0.0") and not is_newer("9.0.0", text)


@given(st.text(max_size=20) | st.from_regex(r"[0-9.+a-z-]{0,30}"))
def test_any_text_can_be_compared(text: str) -> None:
    assert not is_newer(text, text)
    newest = f"{10**40}.0.0"  # its number has more digits than fit into the texts
    assert is_version(text) == is_newer(newest, text)


def test_a_number_with_5000_digits_is_not_part_of_a_version() -> None:
    assert not is_version("1." + "9" * 5000 + ".0")
