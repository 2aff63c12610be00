"""The AppArmor profile that `exthost doctor --fix` installs on machines which restrict namespaces.

Ubuntu 23.10 and later allow user namespaces, which a sandbox needs, only to programs with a
profile. No such machine was available, so the profile is tested as text, with a folder in place of
the root of the file system and with mocks in place of root and apparmor_parser.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from exthost.errors import UsageError
from exthost.faces.cli import doctor_fix
from exthost.faces.cli.common import Args
from exthost.launch import apparmor, sandbox_probe
from exthost.model.probe_result import SandboxSupport


@pytest.fixture(autouse=True)
def support() -> Iterator[None]:
    """Bubblewrap is in /usr/bin. The real search would cache what it finds with other mocks."""
    machine_support = SandboxSupport(bwrap="/usr/bin/bwrap")
    with mock.patch.object(sandbox_probe, "find_sandbox_support", return_value=machine_support):
        yield


def machine(root: Path, switch: str) -> Path:
    """Write the files of a machine with this value of the switch."""
    folder = root / "proc/sys/kernel"
    folder.mkdir(parents=True)
    (folder / "apparmor_restrict_unprivileged_userns").write_text(f"{switch}\n")
    (root / "etc/apparmor.d").mkdir(parents=True)
    return root


def test_the_profile_allows_namespaces_to_two_programs_and_changes_no_sysctl() -> None:
    text = apparmor.profile_text("/usr/bin/bwrap")
    profiles = [line for line in text.splitlines() if line.startswith("profile ")]
    assert len(profiles) == 2
    assert profiles[0] == "profile exthost-bwrap /usr/bin/bwrap flags=(unconfined) {"
    assert "exthost-init" in profiles[1]
    assert text.count("  userns,") == 2
    assert "sysctl" not in text
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("path", ["bwrap", "/usr/bin/b*", "/x{a,b}", '/a"b', "/a b", "/a\nb", "/#"])
def test_a_path_that_would_name_other_programs_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        apparmor.profile_text(path)


def test_only_a_restricted_machine_gets_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not apparmor.is_restricted(str(tmp_path))
    root = str(machine(tmp_path, "0"))
    assert doctor_fix.fix_machine(Args(json=True), root) == 0
    assert json.loads(capsys.readouterr().out)["restricted"] is False
    assert not apparmor.profile_file(root).exists()


def test_without_root_the_profile_is_only_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(machine(tmp_path, "1"))
    with mock.patch("os.geteuid", return_value=1000):
        assert doctor_fix.fix_machine(Args(json=False), root) == 0
    output = capsys.readouterr()
    assert "profile exthost-bwrap" in output.out
    assert "apparmor_parser -r" in output.err
    assert not apparmor.profile_file(root).exists()


@pytest.mark.parametrize(("exit_code", "is_kept"), [(0, True), (1, False)])
def test_root_installs_the_profile_and_removes_it_if_it_does_not_load(
    tmp_path: Path, exit_code: int, is_kept: bool
) -> None:
    root = str(machine(tmp_path, "1"))
    loaded = mock.Mock(returncode=exit_code, stderr="syntax error")
    with (
        mock.patch("os.geteuid", return_value=0),
        mock.patch("shutil.which", return_value="/usr/sbin/apparmor_parser"),
        mock.patch("subprocess.run", return_value=loaded) as run,
    ):
        if is_kept:
            assert doctor_fix.fix_machine(Args(json=True), root) == 0
        else:
            with pytest.raises(UsageError) as caught:
                doctor_fix.fix_machine(Args(json=True), root)
            assert caught.value.code == "X1887"
    file = apparmor.profile_file(root)
    assert run.call_args[0][0] == ["/usr/sbin/apparmor_parser", "-r", str(file)]
    assert file.exists() == is_kept


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (subprocess.TimeoutExpired("apparmor_parser", 60), "did not end within 60 s"),
        (PermissionError(13, "Permission denied"), "cannot be run: Permission denied"),
    ],
)
def test_the_profile_of_an_earlier_fix_stays_if_the_new_one_does_not_load(
    tmp_path: Path, failure: Exception, reason: str
) -> None:
    root = str(machine(tmp_path, "1"))
    file = apparmor.profile_file(root)
    file.write_text("# earlier\n")
    with (
        mock.patch("os.geteuid", return_value=0),
        mock.patch("shutil.which", return_value="/usr/sbin/apparmor_parser"),
        mock.patch("subprocess.run", side_effect=failure),
        pytest.raises(UsageError, match=reason) as caught,
    ):
        doctor_fix.fix_machine(Args(json=True), root)
    assert caught.value.code == "X1887" and file.read_text() == "# earlier\n"


def test_another_profile_for_bubblewrap_is_found(tmp_path: Path) -> None:
    root = machine(tmp_path, "1")
    bwrap = "/usr/bin/bwrap"
    other = root / "etc/apparmor.d" / "bwrap-userns-restrict"
    other.write_text(f"profile bwrap {bwrap} flags=(attach_disconnected) {{\n}}\n")
    assert apparmor.find_other_profile(bwrap, str(root)) == str(other)
