"""Cargo version requirements have the same results as in the Rust library semver.

Manifests of the dialect roder have such requirements: "^1.2" allows 1.9.0, and not 2.0.0. The file
versionreq.tsv has the results of that library: requirement, version, result.
"""

from pathlib import Path

import pytest

from exthost.model.versionreq import NotAVersion, Version, VersionReq
from tests.dialects.requirements import shows

ROWS = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parents[1] / "vectors" / "versionreq.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def match_result(requirement: str, version: str) -> str:
    """Return "true", "false" or, for an invalid requirement, "badreq", as in the file."""
    try:
        parsed = VersionReq.parse(requirement)
    except NotAVersion:
        return "badreq"
    return str(parsed.matches(Version.parse(version))).lower()


@shows("roder-manifest-06")
def test_every_row_has_the_result_of_the_rust_library() -> None:
    assert len(ROWS) == 3822  # the whole file was read
    wrong_rows = [
        (requirement, version, expected)
        for requirement, version, expected in ROWS
        if match_result(requirement, version) != expected
    ]
    assert not wrong_rows


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "1.2.x.4", "1.*.2", "*.1", "* , 1", "1, *", "1,", ", 1", "1 2", "1.", ".1"),
        *("01", "1.02", "1.2.03", "1.2.3-", "1.2.3-a..b", "1.2.3-01", "1.2.3+", "1.2-a", "1.2+b"),
        *("== 1", "=> 1", "v1", "1 || 2", "1.2.3 - 2", "18446744073709551616", "9" * 5000),
        *("\t1", "1\t", "1\n", "≥1", "1.2.3-é", ",".join(["1"] * 33)),
    ],
)
def test_an_invalid_requirement_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(NotAVersion) as caught:
        VersionReq.parse(text)
    assert str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "1.2.3 ", " 1.2.3", "1.2.3.4", "1.2.3-", "1.2.3-01", "1.*.3", "a.b.c"]
)
def test_an_invalid_version_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(NotAVersion) as caught:
        Version.parse(text)
    assert str(caught.value)


@pytest.mark.parametrize("text", ["  *", "x ", "X", "1.*.*", ">=1.*", ",".join(["1"] * 32)])
def test_wildcards_and_blanks_are_accepted_as_in_the_rust_library(text: str) -> None:
    assert VersionReq.parse(text).matches(Version.parse("1.2.3"))


def test_a_pre_release_can_have_a_number_of_any_length() -> None:
    """Python's int() refuses more than 4300 digits."""
    requirement = VersionReq.parse(">=1.0.0-" + "1" * 5000)
    assert requirement.matches(Version.parse("1.0.0-1" + "1" * 5000))
    assert not requirement.matches(Version.parse("1.0.0-2"))
    assert VersionReq.parse(">=1.0.0-9").matches(Version.parse("1.0.0-10"))
