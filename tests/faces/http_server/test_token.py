"""Tests of the token of an HTTP service, which each client must send.

It comes from a file (`--token-file`), which can list several tokens and is created if it does not
exist, from an environment variable, or is generated.
"""

import os
from pathlib import Path

import pytest

from exthost.errors import ConfigError
from exthost.faces.http_server import token
from tests.dialects.requirements import shows


@shows("gateway-http-04")
def test_the_token_is_that_of_the_file_or_of_the_variable_or_a_new_one(tmp_path: Path) -> None:
    file, environ = tmp_path / "token", {token.VARIABLE: "from-the-environment"}
    from_file = token.find_token(str(file), environ)
    assert from_file == token.find_token(str(file), {})
    assert len(from_file.text) > 30, "a generated token is too long to guess"
    assert token.find_token(None, environ) == token.Token("from-the-environment", token.VARIABLE)
    new = token.find_token(None, {})
    assert new.source == "" and new.text != token.find_token(None, {}).text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_token_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("known")
    file.chmod(0o600)
    os.chown(file, 65534, 65534)
    with pytest.raises(ConfigError, match="another user owns it"):
        token.find_token(str(file), {})


def test_a_token_file_that_is_a_pipe_or_too_long_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    os.mkfifo(file, 0o600)
    with pytest.raises(ConfigError, match="not a file"):
        token.find_token(str(file), {})
    file.unlink()
    # If the file were truncated, the beginning of its last token would be a valid token.
    file.touch(0o600)
    file.write_text("0123456789\n" * 400)
    with pytest.raises(ConfigError, match="not a file"):
        token.find_token(str(file), {})


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", 0o600), ("two words", 0o600), ("tök", 0o600), ("fine", 0o644), ("fine", 0o660)],
)
def test_a_token_file_that_is_empty_invalid_or_readable_by_others_is_refused(
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
    """Replace the file atomically, as an operator should."""
    new_file = file.with_suffix(".new")
    new_file.touch(0o600)
    new_file.write_text(text)
    os.replace(new_file, file)  # noqa: PTH105


def test_a_folder_in_place_of_a_token_file_is_refused_and_closed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is not a file of at most"):
        token.find_token(str(tmp_path), {})
