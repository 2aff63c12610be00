"""Protecting code in a folder that a sandboxed extension may write.

Code of the host or of other extensions is mounted read-only there. The folders between are mounted,
too, so that the extension cannot rename them. Code that cannot be protected is "exposed", and the
extension will be refused. The scope of a code path says which part of it is code:

    ALL      a file, or everything in a folder
    NAMES    what is looked up in a folder by its name
    FENCE    a folder whose parts are separate paths, and in which nothing must be added
    UPWARD   settings in this folder and in all folders above it
    LINK     a symlink on the way to code
    MISSING  a path that does not exist, and would be code if it did
"""

import pytest

from exthost.launch.code_paths import CodePath, Scope
from exthost.launch.protected_paths import CodeProtection, OwnedCode, protect_code


def code(path: str, scope: Scope = Scope.ALL, owner: str = "tool") -> OwnedCode:
    return OwnedCode(owner, CodePath(path, scope, "virtual environment"))


def get_mounts(protection: CodeProtection) -> dict[str, str]:
    """Return the access of each path that is mounted."""
    return {path: access for path, access, _ in protection.protected}


def test_a_protected_path_is_read_only_and_its_parents_are_mounted() -> None:
    protection = protect_code(["/proj"], [code("/proj/a/b/.venv"), code("/elsewhere/.venv")])
    assert get_mounts(protection) == {
        "/proj/a": "write",
        "/proj/a/b": "write",
        "/proj/a/b/.venv": "read",
    }
    assert not protection.exposed
    assert protection.protected[-1].reason == "code of tool: virtual environment"


def test_only_the_outermost_path_is_mounted() -> None:
    code_inside = [
        code("/proj/.venv/lib"),
        code("/proj/.venv", Scope.FENCE),
        code("/proj/.venv/bin"),
    ]
    assert get_mounts(protect_code(["/proj"], code_inside)) == {"/proj/.venv": "read"}


@pytest.mark.parametrize(
    ("granted", "path", "scope", "is_exposed"),
    [
        ("/proj", "/proj", Scope.ALL, True),
        ("/proj", "/proj", Scope.NAMES, True),
        ("/proj", "/proj", Scope.FENCE, False),
        ("/proj/lib/x", "/proj/lib", Scope.ALL, True),
        ("/proj/node_modules/.cache", "/proj/node_modules", Scope.ALL, False),
        ("/proj/node_modules/.bin", "/proj/node_modules", Scope.ALL, True),
        ("/proj/out", "/proj", Scope.NAMES, False),
        ("/proj/data", "/proj", Scope.FENCE, False),
        ("/proj", "/proj/sub", Scope.UPWARD, True),
        ("/proj", "/proj", Scope.UPWARD, True),
        ("/proj/sub", "/proj", Scope.UPWARD, False),
        ("/proj", "/proj/link", Scope.LINK, True),
        ("/proj", "/project/link", Scope.LINK, False),
        ("/proj", "/proj/none", Scope.MISSING, True),
        ("/proj/none", "/proj/none/x", Scope.MISSING, True),
        ("/proj", "/other/none", Scope.MISSING, False),
    ],
)
def test_code_that_cannot_be_protected_is_exposed(
    granted: str, path: str, scope: Scope, is_exposed: bool
) -> None:
    protection = protect_code([granted], [code(path, scope)])
    assert bool(protection.exposed) is is_exposed
    assert not protection.protected


def test_links_and_missing_paths_in_a_protected_folder_are_safe() -> None:
    code_inside = [code("/proj/.venv/bin/python", Scope.LINK), code("/proj/.venv/x", Scope.MISSING)]
    assert protect_code(["/proj"], code_inside).exposed
    assert not protect_code(["/proj"], [*code_inside, code("/proj/.venv", Scope.FENCE)]).exposed


def test_a_granted_folder_inside_a_protected_folder_is_checked_separately() -> None:
    fence, link = code("/proj/.venv", Scope.FENCE), code("/proj/.venv/data/link", Scope.LINK)
    protection = protect_code(["/proj", "/proj/.venv/data"], [fence, link])
    assert [exposed.granted for exposed in protection.exposed] == ["/proj/.venv/data"]
    deeper_code = [fence, code("/proj/.venv/data/a/tool")]
    protection = protect_code(["/proj", "/proj/.venv/data"], deeper_code)
    assert get_mounts(protection) == {
        "/proj/.venv": "read",
        "/proj/.venv/data/a": "write",
        "/proj/.venv/data/a/tool": "read",
    }


def test_a_read_only_grant_stays_read_only() -> None:
    """A folder above the code is mounted writable, unless it is read-only already."""
    code_inside = [code("/proj/docs/tools/.venv"), code("/proj/docs/link", Scope.LINK)]
    protection = protect_code(["/proj"], code_inside, ["/proj/docs", "/elsewhere"])
    assert get_mounts(protection) == {"/proj/docs": "read"} and not protection.exposed


def test_missing_in_returns_code_that_is_not_protected_in_a_process() -> None:
    protection = protect_code(["/proj"], [code("/proj/a/.venv")])
    assert protection.missing_in([]) == "/proj/a/.venv"
    assert protection.missing_in(["/proj/b"]) == "/proj/a/.venv"
    assert protection.missing_in(["/proj/a/.venv"]) == protection.missing_in(["/proj/a"]) == ""


def test_no_path_is_protected_without_a_grant() -> None:
    assert protect_code([], [code("/proj")]) == CodeProtection()
