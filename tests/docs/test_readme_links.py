"""Test of `scripts/readme_links.py`, which makes the relative links of the README absolute.

A package index such as PyPI shows the README without the repository, so relative links would be
broken there.
"""

from scripts.readme_links import make_absolute


def test_relative_links_become_absolute_and_others_stay() -> None:
    text = "[a](docs/a.md#b) [c](https://x.example/d) [e](#f) ![g](images/g.svg)"
    assert make_absolute(text, "https://y.example/") == (
        "[a](https://y.example/docs/a.md#b) [c](https://x.example/d) [e](#f) "
        "![g](https://y.example/images/g.svg)"
    )
