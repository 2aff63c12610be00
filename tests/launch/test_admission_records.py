"""The admission of a sandboxed extension: which files it will see, and that they stay the same.

When an extension is admitted, the host decides which paths the sandbox shows (a `View`), and
records the device and inode of each. If a later start finds another file at a path, it is refused.
A folder of a package, whose manifest is not trusted, is not shown because the manifest names it;
a folder that the operator names in the config is.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from exthost.errors import Refused
from exthost.launch import admission, sandbox_probe
from exthost.launch.admission import (
    _operator_folders,
    _record_file,
    check_unchanged,
    visible_files,
)
from exthost.launch.admission_record import Admission
from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.model.launch_plan import LaunchPlan
from exthost.model.probe_result import SandboxSupport
from exthost.model.spec import Package, Permissions, Spec
from exthost.process.environment import Variables

SPEC = Spec(id="a", argv=("a",), dialect="mcp")


@pytest.mark.parametrize(
    ("spec", "folders"),
    [
        (SPEC, ()),
        # A manifest that the operator names shows its folder.
        (replace(SPEC, manifest={}, manifest_file="/m/x.toml"), ("/m",)),
        (replace(SPEC, manifest={}), ()),
        (replace(SPEC, manifest_file="/m/x.toml"), ()),
        (replace(SPEC, manifest={}, manifest_file="/m/x.toml", package=Package(root="/p")), ()),
        # `own_cwd`: the folder was set for this extension.
        (replace(SPEC, cwd="/c", own_cwd=True), ("/c",)),
        (replace(SPEC, cwd="/c"), ()),
        (replace(SPEC, own_cwd=True), ()),
        (replace(SPEC, cwd="/c", own_cwd=True, package=Package(root="/p", cwd="/c")), ()),
        (replace(SPEC, cwd="/c", own_cwd=True, package=Package(root="/p", cwd="/d")), ("/c",)),
    ],
)
def test_only_folders_that_the_operator_named_are_shown(
    spec: Spec, folders: tuple[str, ...]
) -> None:
    assert _operator_folders(spec) == folders


@pytest.mark.parametrize("is_root", [True, False])
def test_an_extension_has_a_user_of_its_own_if_the_host_is_root(
    is_root: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    support = SandboxSupport(bwrap="bwrap", setpriv="setpriv", uid=0 if is_root else 1000)
    monkeypatch.setattr(sandbox_probe, "find_sandbox_support", lambda: support)
    monkeypatch.setattr(admission, "can_enforce", lambda spec, **options: True)
    monkeypatch.setattr(
        admission, "with_extension_user", lambda name, view, *rest: replace(view, uid=5)
    )
    spec = replace(SPEC, argv=("/bin/true",), permissions=Permissions())
    plan = LaunchPlan(argv=spec.argv, cwd=str(tmp_path), env=Variables({}))
    admitted = admission.decide(spec, plan, "", {})
    assert admitted.view is not None
    assert admitted.view.uid == (5 if is_root else None)


def test_a_file_that_is_replaced_or_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    both = Admission(files=(_record_file(str(file)), _record_file(str(link))))
    check_unchanged(SPEC, both)
    (tmp_path / "new").touch()
    (tmp_path / "new").replace(file)
    with pytest.raises(Refused, match="is not the file or folder that it was"):
        check_unchanged(SPEC, both)
    other = Admission(files=(_record_file(str(link)),))
    link.unlink()
    link.symlink_to(tmp_path)
    with pytest.raises(Refused, match="and now leads to"):
        check_unchanged(SPEC, other)


def test_only_recorded_files_that_are_visible_are_expected(tmp_path: Path) -> None:
    visible, other = _record_file(str(tmp_path)), _record_file("/var")
    view = View(visible_paths=(VisiblePath(str(tmp_path), "read", "granted"),))
    (expected,) = visible_files(Admission(view=view, files=(visible, other)))
    assert (expected.path, expected.device, expected.inode) == (
        str(tmp_path),
        visible.device,
        visible.inode,
    )
    assert visible_files(Admission(files=(visible,))) == ()
