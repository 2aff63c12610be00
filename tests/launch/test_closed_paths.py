"""Which code is closed in a granted folder, and which cannot be."""

import pytest

from exthost.launch.closed_paths import Closure, OwnedCode, close_code
from exthost.launch.code_paths import CodePath, Scope


def code(path: str, scope: Scope = Scope.ALL, owner: str = "tool") -> OwnedCode:
    return OwnedCode(owner, CodePath(path, scope, "virtual environment"))


def mounts(closure: Closure) -> dict[str, str]:
    return {path: access for path, access, _ in closure.closed}


def test_a_closed_path_is_read_only_and_no_folder_above_can_be_renamed() -> None:
    closure = close_code(["/proj"], [code("/proj/a/b/.venv"), code("/elsewhere/.venv")])
    assert mounts(closure) == {"/proj/a": "write", "/proj/a/b": "write", "/proj/a/b/.venv": "read"}
    assert not closure.exposed
    assert closure.closed[-1].reason == "code of tool: virtual environment"


def test_only_the_outermost_path_is_mounted() -> None:
    inside = [code("/proj/.venv/lib"), code("/proj/.venv", Scope.FENCE), code("/proj/.venv/bin")]
    assert mounts(close_code(["/proj"], inside)) == {"/proj/.venv": "read"}


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
def test_code_that_cannot_be_closed_is_exposed(
    granted: str, path: str, scope: Scope, is_exposed: bool
) -> None:
    closure = close_code([granted], [code(path, scope)])
    assert bool(closure.exposed) is is_exposed
    assert not closure.closed


def test_links_and_missing_paths_in_a_closed_folder_are_safe() -> None:
    inside = [code("/proj/.venv/bin/python", Scope.LINK), code("/proj/.venv/x", Scope.MISSING)]
    assert close_code(["/proj"], inside).exposed
    assert not close_code(["/proj"], [*inside, code("/proj/.venv", Scope.FENCE)]).exposed


def test_a_folder_that_is_granted_inside_of_a_closed_one_is_judged_by_itself() -> None:
    fence, link = code("/proj/.venv", Scope.FENCE), code("/proj/.venv/data/link", Scope.LINK)
    closure = close_code(["/proj", "/proj/.venv/data"], [fence, link])
    assert [exposed.granted for exposed in closure.exposed] == ["/proj/.venv/data"]
    deeper = [fence, code("/proj/.venv/data/a/tool")]
    closure = close_code(["/proj", "/proj/.venv/data"], deeper)
    assert mounts(closure) == {
        "/proj/.venv": "read",
        "/proj/.venv/data/a": "write",
        "/proj/.venv/data/a/tool": "read",
    }


def test_a_read_only_grant_stays_read_only() -> None:
    """A folder above the code is mounted writable, unless it is read-only already."""
    inside = [code("/proj/docs/tools/.venv"), code("/proj/docs/link", Scope.LINK)]
    closure = close_code(["/proj"], inside, ["/proj/docs", "/elsewhere"])
    assert mounts(closure) == {"/proj/docs": "read"} and not closure.exposed


def test_a_process_that_started_before_lacks_later_code() -> None:
    closure = close_code(["/proj"], [code("/proj/a/.venv")])
    assert closure.missing_in([]) == "/proj/a/.venv"
    assert closure.missing_in(["/proj/b"]) == "/proj/a/.venv"
    assert closure.missing_in(["/proj/a/.venv"]) == closure.missing_in(["/proj/a"]) == ""


def test_nothing_is_closed_without_a_grant() -> None:
    assert close_code([], [code("/proj")]) == Closure()
