"""The files that are recorded when an extension is admitted, and their changes."""

from dataclasses import replace
from pathlib import Path

import pytest

from exthost.errors import Refused
from exthost.launch.admission import (
    _operator_folders,
    _record_file,
    check_unchanged,
    visible_files,
)
from exthost.launch.admission_record import Admission
from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.model.spec import Package, Spec

SPEC = Spec(id="a", argv=("a",), dialect="mcp")


@pytest.mark.parametrize(
    ("spec", "folders"),
    [
        (SPEC, ()),
        (replace(SPEC, manifest={}, manifest_file="/m/x.toml"), ("/m",)),
        (replace(SPEC, manifest={}), ()),
        (replace(SPEC, manifest_file="/m/x.toml"), ()),
        (replace(SPEC, manifest={}, manifest_file="/m/x.toml", package=Package(root="/p")), ()),
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


def test_a_file_that_is_replaced_or_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    admission = Admission(files=(_record_file(str(file)), _record_file(str(link))))
    check_unchanged(SPEC, admission)
    (tmp_path / "new").touch()
    (tmp_path / "new").replace(file)
    with pytest.raises(Refused, match="is not the file or folder that it was"):
        check_unchanged(SPEC, admission)
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
