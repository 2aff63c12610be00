"""The folders in which the host and each extension keep their state, such as
`~/.local/state/exthost/extensions/NAME`. The id of an extension cannot lead out of this folder.
"""

import os
import pwd
import sys
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.process.state_dirs import state_folder
from exthost.process.state_root import state_root


def test_variables_have_precedence_over_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    environ = {"HOME": "/h", "XDG_STATE_HOME": "/s", "EXTHOST_HOME": "/e"}
    assert state_root(environ) == "/e"
    assert state_root({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == "/s/exthost"
    assert state_root({"HOME": "/h", "XDG_STATE_HOME": "relative"}) == "/h/.local/state/exthost"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert state_root({"HOME": "/h"}) == "/h/Library/Application Support/exthost"


def test_an_id_of_letters_digits_and_punctuation_is_the_folder_name() -> None:
    assert state_folder({"EXTHOST_HOME": "/e"}, "my-ext_1.2") == "/e/extensions/my-ext_1.2"


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_id_leads_out_of_the_state_folder_and_no_two_ids_share_a_folder(
    first_id: str, second_id: str
) -> None:
    folders = [
        PurePosixPath(state_folder({"EXTHOST_HOME": "/e"}, id)) for id in (first_id, second_id)
    ]
    for folder in folders:
        assert folder.parent == PurePosixPath("/e/extensions")
        assert folder.name not in ("", ".", "..") and len(folder.name.encode()) < 200
        assert folder.name.isascii() and folder.name.isprintable()
    assert (folders[0] == folders[1]) == (first_id == second_id)


def test_an_id_that_is_the_folder_name_of_another_has_a_folder_of_its_own() -> None:
    environ = {"EXTHOST_HOME": "/e"}
    name = PurePosixPath(state_folder(environ, "two words")).name
    assert state_folder(environ, name) != state_folder(environ, "two words")


def test_without_home_the_state_is_where_the_record_of_the_user_says() -> None:
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert state_root({}) == state_root({"HOME": home}), "a service has no HOME, its shell has"
