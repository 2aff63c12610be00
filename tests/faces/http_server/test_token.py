"""Where the token of an HTTP service comes from."""

import os
from pathlib import Path

import pytest

from exthost.errors import ConfigError
from exthost.faces.http_server import token
from tests.dialects.requirements import shows


@shows("gateway-http-04")
def test_the_token_is_the_files_then_the_variables_then_a_new_one(tmp_path: Path) -> None:
    file, environ = tmp_path / "token", {token.VARIABLE: "from-the-environment"}
    made = token.find_token(str(file), environ)
    assert made == token.find_token(str(file), {}) and len(made.text) > 30
    assert token.find_token(None, environ) == token.Token("from-the-environment", token.VARIABLE)
    new = token.find_token(None, {})
    assert new.source == "" and new.text != token.find_token(None, {}).text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_token_that_another_user_knows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("known")
    file.chmod(0o600)
    os.chown(file, 65534, 65534)
    with pytest.raises(ConfigError, match="another user owns it"):
        token.find_token(str(file), {})


def test_a_token_file_without_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    os.mkfifo(file, 0o600)
    with pytest.raises(ConfigError, match="not a file"):
        token.find_token(str(file), {})
    file.unlink()
    # The last of its tokens would be cut, and its beginning be a token.
    file.touch(0o600)
    file.write_text("0123456789\n" * 400)
    with pytest.raises(ConfigError, match="not a file"):
        token.find_token(str(file), {})


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
        token.find_token(str(file), {})
    assert caught.value.code == "X0166" and caught.value.help
    with pytest.raises(ConfigError):
        token.find_token(str(tmp_path / "no" / "such"), {})
    with pytest.raises(ConfigError):
        token.find_token(None, {token.VARIABLE: " "})


def test_a_token_file_is_read_again_when_it_changes_and_can_list_several(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = token.Tokens(token.find_token(str(file), {}))
    first = file.read_text().strip()
    assert tokens.is_valid(first) and not tokens.is_valid("second") and not tokens.is_valid("")
    replace(file, f"second\n{first}\n")
    assert tokens.is_valid(first) and tokens.is_valid("second")
    replace(file, "second\n")
    assert tokens.texts == ("second",) and not tokens.is_valid(first)


def test_a_token_file_that_becomes_unusable_admits_no_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    tokens = token.Tokens(token.find_token(str(file), {}))
    (text,) = tokens.texts
    file.chmod(0o644)
    assert not tokens.is_valid(text) and tokens.texts == ()
    assert "no client can connect" in caplog.text and text not in caplog.text
    file.chmod(0o600)
    assert tokens.is_valid(text)
    file.unlink()
    assert not tokens.is_valid(text) and not tokens.is_valid("")
    replace(file, text)
    assert tokens.is_valid(text)


def replace(file: Path, text: str) -> None:
    """Write the file anew, as an operator should: readers see the old or the new one."""
    beside = file.with_suffix(".new")
    beside.touch(0o600)
    beside.write_text(text)
    os.replace(beside, file)  # noqa: PTH105


def test_a_folder_in_place_of_a_token_file_is_refused_and_closed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is not a file of at most"):
        token.find_token(str(tmp_path), {})
