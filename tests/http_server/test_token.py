"""Where the token of an HTTP face comes from."""

from pathlib import Path

import pytest

from exthost.errors import ConfigError
from exthost.http_server import token
from tests.dialects.requirements import shows


@shows("gateway-http-04")
def test_the_token_is_the_files_then_the_variables_then_a_new_one(tmp_path: Path) -> None:
    file, environ = tmp_path / "token", {token.VARIABLE: "from-the-environment"}
    made = token.find(str(file), environ)
    assert made == token.find(str(file), {}) and len(made.text) > 30
    assert token.find(None, environ) == ("from-the-environment", token.VARIABLE)
    new = token.find(None, {})
    assert new.source == "" and new.text != token.find(None, {}).text


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", 0o600), ("two words", 0o600), ("tök", 0o600), ("fine", 0o644), ("fine", 0o660)],
)
def test_a_token_file_that_is_empty_unfit_or_open_to_others_is_refused(
    tmp_path: Path, text: str, mode: int
) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        token.find(str(file), {})
    assert caught.value.code == "X0166" and caught.value.help
    with pytest.raises(ConfigError):
        token.find(str(tmp_path / "no" / "such"), {})
    with pytest.raises(ConfigError):
        token.find(None, {token.VARIABLE: " "})
