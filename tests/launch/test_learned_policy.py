"""`exthost learn`: the permissions that are proposed for a program, from what was observed of it.

A proposal has the smallest grants that the program needs (`filesystem`), and what it used and is
not granted (`withheld`), such as secrets, with the reason. Paths that a sandbox shows anyway need
no grant. `seen` counts the paths by tier: system, runtime, own folder, …

The facts about paths are those of an imaginary machine, whose user is "ada".
"""

import posixpath
from collections.abc import Mapping

import pytest

from exthost.launch.learned_policy import Proposal, Situation, Tier, propose
from exthost.launch.sandbox.strict import VisiblePath
from exthost.model.observed_access import Destination, FileUse, Observations

HOME = "/home/ada"
SCRIPT = f"{HOME}/notes/server.py"
VISIBLE = (
    VisiblePath("/usr", "read", "system"),
    VisiblePath(f"{HOME}/.pyenv/versions/3.12", "read", "interpreter"),
    VisiblePath(SCRIPT, "read", "argument"),
)


class FakePaths:
    """The facts about an imaginary machine: which paths are folders, and where projects begin."""

    def __init__(self, *folders: str, projects: tuple[str, ...] = (f"{HOME}/notes",)) -> None:
        self._folders = {"/", "/tmp", HOME, *folders}
        self._projects = projects

    def real_path(self, path: str) -> str:
        return path.replace("/link/", "/data/")

    def is_folder(self, path: str) -> bool:
        return path in self._folders

    def secret(self, path: str) -> str:
        if path in ("/", "/tmp", "/home", HOME):
            return "a folder with files of many programs"
        return "an SSH key" if "/.ssh" in path else ""

    def hidden(self, path: str) -> str:
        """Return the first part of a path whose name begins with a dot, with what is before it."""
        parts = path.split("/")
        for number, part in enumerate(parts):
            if part.startswith("."):
                return "/".join(parts[: number + 1])
        return ""

    def unwritable(self, folder: str) -> str:
        return "a folder with code that others run" if "/bin" in folder else ""

    def secret_inside(self, folder: str) -> str:
        return ".env" if folder.endswith("/with-secret") else ""

    def project(self, path: str) -> str:
        return next((item for item in self._projects if path.startswith(item)), "")

    def installation(self, program: str) -> str:
        return posixpath.dirname(posixpath.dirname(program)) if "/opt/" in program else ""


def learn(
    files: Mapping[str, FileUse | tuple[FileUse, ...]],
    *folders: str,
    named: tuple[str, ...] = (),
    projects: tuple[str, ...] = (f"{HOME}/notes",),
    **observed: object,
) -> Proposal:
    """Return the proposal for a program that has used these files; `folders` exist."""
    uses = {path: frozenset({use} if isinstance(use, str) else use) for path, use in files.items()}
    observations = Observations(files=uses, **observed)  # type: ignore[arg-type]
    situation = Situation(visible=VISIBLE, named=named, own=(f"{HOME}/notes",))
    return propose(observations, situation, FakePaths(*folders, projects=projects))


def test_visible_paths_need_no_grant_and_are_counted_by_tier() -> None:
    proposal = learn(
        {"/usr/lib/libc.so": "read", f"{HOME}/.pyenv/versions/3.12/x": "read", SCRIPT: "read"}
    )
    assert proposal.filesystem == ()
    assert {tier: count for tier, (count, _) in proposal.seen.items()} == {
        Tier.SYSTEM: 1,
        Tier.RUNTIME: 1,
        Tier.OWN_FOLDER: 1,
    }


def test_other_files_of_a_version_manager_are_neither_granted_nor_reported() -> None:
    proposal = learn({f"{HOME}/.pyenv/plugins/x.bash": "read"})
    assert (proposal.filesystem, proposal.withheld) == ((), ())


@pytest.mark.parametrize(
    ("files", "created", "expected"),
    [
        ({"/data/a": "read"}, (), ["/data/a"]),
        ({"/link/a": "read"}, (), ["/data/a"]),
        ({f"/data/{n}": "read" for n in "abcd"}, (), ["/data"]),
        (
            {f"/data/with-secret/{n}": "read" for n in "ab"},
            (),
            ["/data/with-secret/a", "/data/with-secret/b"],
        ),
        ({"/data": "list", "/data/a": "read"}, (), ["/data"]),
        ({"/data/a": "write"}, (), ["/data/a:rw"]),
        ({"/data/new": "create"}, ("/data/new",), ["/data:rw"]),
        (
            {"/data/sub": "create", "/data/sub/x": "create"},
            ("/data/sub", "/data/sub/x"),
            ["/data/sub:rw"],
        ),
        (
            {"/data": "list", "/data/out/new": "create"},
            ("/data/out/new",),
            ["/data", "/data/out:rw"],
        ),
        ({"/opt/tool/bin/run": "execute"}, (), ["/opt/tool"]),
        ({"/tmp/x": "create"}, ("/tmp/x",), []),
        ({"/tmp/mine/x": "create"}, ("/tmp/mine/x",), ["/tmp/mine:rw"]),
        ({f"{HOME}/notes/__pycache__/a.pyc": "create"}, (f"{HOME}/notes/__pycache__/a.pyc",), []),
    ],
)
def test_the_smallest_paths_are_granted(
    files: dict[str, FileUse], created: tuple[str, ...], expected: list[str]
) -> None:
    proposal = learn(files, "/data", "/data/sub", "/data/out", created=frozenset(created))
    assert list(proposal.filesystem) == expected


def test_a_folder_that_a_person_named_is_granted_in_the_place_of_its_files() -> None:
    proposal = learn({"/data/deep/a": "read"}, "/data", named=("/data",))
    assert proposal.filesystem == ("/data",)
    assert "a person named it" in proposal.grants[0].reason


def test_the_folder_of_the_script_is_optional_because_interpreters_list_it() -> None:
    proposal = learn({f"{HOME}/notes": "list"}, f"{HOME}/notes")
    assert proposal.filesystem == ()
    assert not proposal.withheld


def test_a_path_that_was_only_looked_at_is_added_on_demand() -> None:
    proposal = learn({"/data/a": "look", "/data/b": "read"})
    assert proposal.filesystem == ("/data/b",)
    assert proposal.with_optional().filesystem == ("/data/a", "/data/b")


@pytest.mark.parametrize(
    ("path", "use", "reason"),
    [
        (f"{HOME}/.ssh/id_ed25519", "read", "an SSH key"),
        (f"{HOME}/.ssh/id_ed25519", "write", "an SSH key"),
        (f"{HOME}/.config/browser/cookies", "read", "hidden"),
        (HOME, "list", "files of many programs"),
        (f"{HOME}/novel/chapter1", "read", "another project"),
        (f"{HOME}/novel/new", "create", "another project"),
        ("/data/bin/tool", "create", "code that others run"),
        ("/data/trap:rw", "read", "cannot be written in a config"),
        ("/data/line\nbreak", "read", "cannot be written in a config"),
        (f"{HOME}/notes/~/work", "list", "cannot be written in a config"),
    ],
)
def test_these_are_never_granted_and_always_reported(path: str, use: FileUse, reason: str) -> None:
    projects = (f"{HOME}/notes", f"{HOME}/novel")
    proposal = learn(
        {path: use},
        projects=projects,
        created=frozenset({path}) if use == "create" else frozenset(),
    )
    assert proposal.with_optional().filesystem == ()
    assert [item.path for item in proposal.withheld] == [path]
    assert reason in proposal.withheld[0].reason


def test_a_file_of_its_own_may_be_hidden_and_a_file_of_a_person_may_not() -> None:
    file = f"{HOME}/notes/out/.index"
    proposal = learn({file: "create"}, f"{HOME}/notes/out", created=frozenset({file}))
    assert proposal.filesystem == (f"{HOME}/notes/out:rw",) and not proposal.withheld
    proposal = learn({file: ("write", "create")}, f"{HOME}/notes/out")
    assert proposal.filesystem == () and proposal.withheld
    key = f"{HOME}/notes/out/.ssh/id"
    assert learn({key: "create"}, created=frozenset({key})).filesystem == ()


def test_a_secret_is_not_granted_even_if_a_person_named_it() -> None:
    proposal = learn({f"{HOME}/.ssh/id": "read"}, f"{HOME}/.ssh", named=(f"{HOME}/.ssh",))
    assert proposal.filesystem == ()
    assert proposal.withheld


def test_a_file_of_another_project_is_granted_if_a_person_named_it() -> None:
    file = f"{HOME}/novel/chapter1"
    assert learn({file: "read"}, named=(file,), projects=(f"{HOME}/novel",)).filesystem == (file,)


def test_a_secret_in_a_granted_folder_is_a_warning() -> None:
    files: dict[str, FileUse | tuple[FileUse, ...]] = {
        "/data/with-secret": "list",
        "/data/with-secret/.ssh/id": "read",
    }
    proposal = learn(files, "/data/with-secret")
    assert proposal.withheld == ()
    assert len(proposal.warnings) == 2


@pytest.mark.parametrize(
    ("destinations", "listeners", "expected"),
    [
        ([], [], False),
        ([Destination("10.0.0.1", 443, "tcp", "api.example.com")], [], ("api.example.com:443",)),
        (
            [Destination("10.0.0.1", 443), Destination("fe80::1", 80)],
            [],
            ("10.0.0.1:443", "[fe80::1]:80"),
        ),
        # A library compares routes with UDP sockets before it connects.
        (
            [
                Destination("10.0.0.1", 443, "udp", "api.example.com"),
                Destination("10.0.0.2", 443, "udp", "api.example.com"),
                Destination("10.0.0.1", 443, "tcp", "api.example.com"),
            ],
            [],
            ("api.example.com:443",),
        ),
        ([Destination("10.0.0.1", 123, "udp")], [], True),
        ([], ["tcp 8080"], True),
    ],
)
def test_the_network_is_proposed_by_host_where_that_is_possible(
    destinations: list[Destination], listeners: list[str], expected: bool | tuple[str, ...]
) -> None:
    proposal = learn({}, destinations=tuple(destinations), listeners=tuple(listeners))
    assert proposal.network == expected
    assert proposal.network_reason


def test_sockets_names_and_unseen_calls_are_reported() -> None:
    proposal = learn({}, unix_sockets=("/run/docker.sock",), names=("evil.example",), unseen=3)
    assert [item.path for item in proposal.withheld] == ["/run/docker.sock"]
    assert any("evil.example" in warning for warning in proposal.warnings)
    assert any(warning.startswith("3 of its system calls") for warning in proposal.warnings)
