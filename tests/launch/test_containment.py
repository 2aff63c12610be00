"""Advice that follows from what a program prints never names a secret."""

from pathlib import Path

import pytest

from exthost.launch.containment import suggest_grant
from exthost.launch_plan import LaunchPlan, Wrapper

SANDBOXED = LaunchPlan(
    argv=("/bin/true",), wrapper=Wrapper(options=(), init=b"", filter=b"a filter")
)


@pytest.mark.parametrize(
    ("name", "mode", "is_suggested"),
    [
        ("models/large.bin", 0o644, True),
        (".cache/uv/x", 0o644, True),
        (".ssh/id_ed25519", 0o644, False),
        (".aws/credentials", 0o644, False),
        ("keys/private.pem", 0o600, False),
        ("missing", 0, False),
    ],
)
def test_a_secret_is_never_suggested(
    tmp_path: Path, name: str, mode: int, is_suggested: bool
) -> None:
    path = tmp_path / name
    if mode:
        path.parent.mkdir(parents=True)
        path.touch()
        path.chmod(mode)
    advice = suggest_grant(SANDBOXED.wrapper, [f"cannot open {path}: No such file or directory"])
    assert (str(path) in advice) == is_suggested
