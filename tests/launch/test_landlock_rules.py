"""The rules that a Landlock sandbox is made from, and how the host describes them.

Landlock is the kernel's way for a process to give up access to files, for machines without
namespaces. A script applies the rules and executes the program; they are JSON in its last argument.
"""

import json

import pytest

from exthost.launch.sandbox import landlock
from exthost.launch.sandbox.strict import View, VisiblePath


@pytest.mark.parametrize("state", ["", "/state"])
def test_the_state_folder_is_writable_if_there_is_one(state: str) -> None:
    view = View(visible_paths=(VisiblePath("/data", "read", "granted"),), state=state)
    *_, text = landlock.plan_command(
        ("python",), "x86_64", view, network=False, loader_variables={}
    )
    allowed = {path: access for path, access, *_ in json.loads(text)["paths"]}
    assert allowed["/data"] == "read" and allowed["/dev/null"] == "write"
    assert allowed.get("/state") == ("write" if state else None)
    assert "" not in allowed


@pytest.mark.parametrize("network", [True, False])
def test_the_description_says_whether_the_network_is_open(network: bool) -> None:
    kernel_version = 6  # of Landlock
    described = landlock.describe(View(state="/state"), kernel_version, network=network, pids={})
    assert described["network"] == ("host's, filtered by seccomp" if network else "seccomp")
    assert [path["path"] for path in described["paths"]] == ["/state"]
