"""`exthost learn`: observing an extension, and proposing `permissions` from what it used.

Before the observation, `find_situation` collects what is already known: the paths that a sandbox
shows anyway, the folders of the extension itself, and the paths that a person has named in its
command, its variables or its calls. Afterwards a `Proposal` becomes a `permissions` table.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exthost.errors import ExthostError
from exthost.launch import observation
from exthost.launch.file_view import system_view
from exthost.launch.learned_policy import Grant, Proposal
from exthost.launch.plan import Launch
from exthost.model.spec import Permissions, Pool, Spec


def spec_of(*argv: str, **fields: Any) -> Spec:
    return Spec(id="a", dialect="morphir", argv=argv or ("program",), **fields)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (spec_of("module.wasm", source="wasm"), "it is a WebAssembly module,"),
        (spec_of("https://example.org", source="http"), "it is a remote server,"),
        (spec_of(pool=Pool(engine="local")), "it is run on other nodes,"),
    ],
)
def test_only_a_program_of_this_machine_can_be_observed(spec: Spec, text: str) -> None:
    with pytest.raises(ExthostError) as caught:
        observation.observer_for_machine(spec)
    assert caught.value.code == "X1881" and text in caught.value.message


@pytest.mark.parametrize(
    ("system", "machine"), [("Linux", "vax"), ("Darwin", "x86_64"), ("Darwin", "vax")]
)
def test_another_machine_cannot_observe(
    system: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uname = SimpleNamespace(sysname=system, machine=machine)
    monkeypatch.setattr(os, "uname", lambda: uname)
    with pytest.raises(ExthostError) as caught:
        observation.observer_for_machine(spec_of())
    assert caught.value.code == "X1880"
    assert f"{system} on {machine} is not supported" in caught.value.message


def test_the_sandbox_of_an_observed_extension_is_never_left_out() -> None:
    allowed = Permissions()
    for sandbox, used in (("landlock", "landlock"), ("best-effort", "strict"), ("off", "strict")):
        assert observation.with_permissions(spec_of(sandbox=sandbox), allowed).sandbox == used


def test_the_named_paths_are_the_words_of_the_command_that_exist(tmp_path: Path) -> None:
    """Words are arguments (also in `--option=word`), values of variables, and texts of calls."""
    for name in ("one", "two", "three", "four"):
        (tmp_path / name).touch()
    argv = ("program", "one", f"--file={tmp_path}/two", "missing", "", "a\0b", "x" * 5000)
    spec = spec_of(*argv, cwd=str(tmp_path), env={"A": "k=one", "B": "./three"})
    launch = SimpleNamespace(
        enforced={"paths": [{"path": "/opt/a", "access": "read", "source": "grant"}]},
        plan=SimpleNamespace(wrapper=None),
    )
    situation = observation.find_situation(spec, cast(Launch, launch), ["four", "one"])
    assert situation.named == tuple(f"{tmp_path}/{n}" for n in ("one", "two", "three", "four"))
    assert [item.path for item in situation.visible].count("/opt/a") == 1
    assert situation.private == () and situation.own == [str(tmp_path)]


def test_the_folder_of_the_config_and_private_mounts_are_part_of_the_situation(
    tmp_path: Path,
) -> None:
    spec = spec_of(cwd=str(tmp_path), config_file="/etc/a/exthost.toml")
    wrapper = SimpleNamespace(private_mounts=("/tmp",))
    first, *others = system_view(network=True).visible_paths
    shown = [{"path": first.path, "access": first.access, "source": first.source}]
    launch = SimpleNamespace(enforced={"paths": shown}, plan=SimpleNamespace(wrapper=wrapper))
    situation = observation.find_situation(spec, cast(Launch, launch), [])
    assert situation.own == [str(tmp_path), "/etc/a"] and situation.private == ("/tmp",)
    assert situation.visible == (first, *others)


def test_the_texts_in_a_value_are_found_at_every_depth() -> None:
    value = {"a": ["one", {"b": "two"}, 3, None], "c": ("three",), "d": "four"}
    assert list(observation.texts_in(value)) == ["one", "two", "three", "four"]


def test_entries_are_relative_to_the_folder_of_the_extension_if_it_has_one(tmp_path: Path) -> None:
    grants = (
        Grant(f"{tmp_path}/data", may_write=True, reason=""),
        Grant("/opt/a", may_write=False, reason=""),
    )
    proposal = Proposal(network=True, grants=grants)
    spec = spec_of(cwd=str(tmp_path))
    assert observation.written_entries(spec, proposal) == ("data:rw", "/opt/a")
    assert observation.written_entries(spec_of(), proposal) == (f"{tmp_path}/data:rw", "/opt/a")
    permissions = observation.proposed_permissions(spec, proposal)
    assert permissions.network is True and permissions.filesystem == ("data:rw", "/opt/a")
