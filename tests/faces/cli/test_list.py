"""The text of `exthost list` about the secrets that an extension asks for."""

import pytest

from exthost.faces.cli.extension_summary import describe_secrets


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["ONE"], "asks for a secret: ONE; it is given ONE"),
        (["TWO"], "asks for a secret: TWO; TWO is not set"),
        (["ONE", "TWO"], "asks for secrets: ONE, TWO; it is given ONE; TWO is not set"),
        (["TWO", "THREE"], "asks for secrets: TWO, THREE; TWO, THREE are not set"),
    ],
)
def test_secrets_are_named_with_whether_they_are_set(
    names: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE", "1")
    monkeypatch.delenv("TWO", raising=False)
    monkeypatch.delenv("THREE", raising=False)
    assert describe_secrets(names) == text
