"""What users are shown of a PID namespace."""

from exthost.launch.sandbox import pid_namespace


def test_the_description_says_whether_the_program_keeps_its_pid() -> None:
    kept = pid_namespace.describe(keeps_pid=True)
    other = pid_namespace.describe(keeps_pid=False)
    assert kept == {"pids": "pidns", "pid": pid_namespace.SAME_PID}
    assert other == {"pids": "pidns", "pid": pid_namespace.NAMESPACE_PID}
    assert kept != other
