"""How the host describes the PID namespace of an extension, and how it sets limits without one.

In a PID namespace, the init program of exthost sets the resource limits of the extension. Without
one, the program `prlimit` does, so the command begins with it.
"""

import resource

import pytest

from exthost.errors import Refused
from exthost.launch import containment, sandbox_probe
from exthost.launch.sandbox import pid_namespace
from exthost.model.launch_plan import LaunchPlan, ResourceLimit
from exthost.model.probe_result import SandboxSupport
from exthost.model.spec import Spec
from exthost.process.environment import Variables


def test_the_description_says_whether_the_program_keeps_its_pid() -> None:
    kept = pid_namespace.describe(keeps_pid=True)
    other = pid_namespace.describe(keeps_pid=False)
    assert kept == {"pids": "pidns", "pid": pid_namespace.SAME_PID}
    assert other == {"pids": "pidns", "pid": pid_namespace.NAMESPACE_PID}
    assert kept != other


MAX_FILES = ResourceLimit(resource.RLIMIT_NOFILE, 9, 9)


@pytest.mark.parametrize(
    ("prlimit", "limits", "before"),
    [
        ("", (), ()),
        ("", (MAX_FILES,), None),  # None: the extension is refused
        ("/prlimit", (MAX_FILES,), ("/prlimit", "--nofile=9:9", "--")),
    ],
)
def test_only_limits_need_prlimit_where_there_is_no_namespace(
    prlimit: str,
    limits: tuple[ResourceLimit, ...],
    before: tuple[str, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    support = SandboxSupport(prlimit=prlimit)
    monkeypatch.setattr(sandbox_probe, "find_sandbox_support", lambda: support)
    monkeypatch.setattr(containment, "find_pid_namespace", lambda spec: (None, ""))
    spec = Spec(id="a", argv=("true",), dialect="mcp")
    plan = LaunchPlan(argv=spec.argv, cwd="/", env=Variables({}))
    if before is None:
        with pytest.raises(Refused, match="there is no prlimit"):
            containment._add_limits_only(spec, plan, limits)
    else:
        assert containment._add_limits_only(spec, plan, limits)[0].before == before
