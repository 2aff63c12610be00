"""Packages that an extension could have written, renamed or copied do not escape the config.

A package is an extension that discovery finds by its manifest, whose author chooses its id. The
config restricts it by this id: `[overrides.toy] permissions = {}`. So an extension that can write
into the search path could add a package without restrictions, or change an id. Where that is
possible, the package is refused.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from exthost.config import config_from_mapping
from exthost.config.discovery.configfile import find_extensions
from exthost.dialects import find
from exthost.errors import Refused
from exthost.launch.plan import admit
from exthost.model.spec import Spec
from tests.extensions.nexo_tree import write_plugin

# Codes of refusals.
WRITABLE_BY_ANOTHER = "X0396"
RESTRICTIONS_OF_MISSING_ID = "X0394"  # and the package may be the one that was meant
SAME_ID_TWICE = "X0399"

RESTRICTED: dict[str, Any] = {"permissions": {}}
HOOK = 'hooks = ["before_tool_call"]'


def find_specs(root: Path, **sections: Any) -> dict[str, Spec]:
    """Return the extensions of a config with this search path, by id."""
    sections = {"discovery": {"search_paths": [str(root)]}, **sections}
    return {spec.id: spec for spec in find_extensions(config_from_mapping(sections)).specs}


def refusal_code(spec: Spec) -> str:
    """Return the code of the error with which an extension is refused, or an empty string."""
    try:
        admit(spec, find.find_dialect(spec.dialect), os.environ)
    except Refused as refused:
        return refused.code
    return ""


def can_write(folder: Path, **more: Any) -> dict[str, Any]:
    """Return the settings of an extension that can write into a folder."""
    return {"permissions": {"filesystem": [f"{folder}:rw"]}, **more}


@pytest.mark.parametrize(
    "sections",
    [
        lambda root: {"overrides": {"toy": can_write(root)}},
        lambda root: {"overrides": {"gone": can_write(root)}},
        lambda root: {
            "discovery": {"search_paths": [str(root)], "disabled": ["toy"]},
            "overrides": {"toy": can_write(root)},
        },
        lambda root: {
            "extensions": [
                {"name": "w", "source": {"command": "w"}, "enabled": False, **can_write(root)}
            ]
        },
    ],
    ids=["a package", "a missing package", "a disabled package", "a disabled entry"],
)
def test_a_package_in_a_folder_that_an_extension_can_write_is_refused(
    tmp_path: Path, sections: Any
) -> None:
    write_plugin(tmp_path / "toy", "toy")
    for name in ("aaa", "zzz"):
        write_plugin(tmp_path / name, name)
    specs = find_specs(tmp_path, **sections(tmp_path))
    assert refusal_code(specs["aaa"]) == refusal_code(specs["zzz"]) == WRITABLE_BY_ANOTHER


def test_a_package_around_the_extension_that_can_write_it_is_refused(tmp_path: Path) -> None:
    write_plugin(tmp_path / "toy", "toy")
    write_plugin(tmp_path, "top")
    specs = find_specs(tmp_path, overrides={"toy": can_write(tmp_path)})
    assert list(specs) == ["top"] and refusal_code(specs["top"]) == WRITABLE_BY_ANOTHER


def test_an_extension_that_can_write_only_elsewhere_causes_no_refusal(tmp_path: Path) -> None:
    write_plugin(tmp_path / "packages" / "toy", "toy")
    write_plugin(tmp_path / "packages" / "other", "other")
    (tmp_path / "data").mkdir()
    for settings in (can_write(tmp_path / "data"), can_write(tmp_path, sandbox="off")):
        specs = find_specs(tmp_path / "packages", overrides={"toy": settings})
        assert refusal_code(specs["other"]) == ""


def test_a_package_does_not_escape_its_override_by_another_id(tmp_path: Path) -> None:
    write_plugin(tmp_path / "toy", "toy2")
    for settings in (RESTRICTED, {"sha256": {"manifest": "0" * 64}}):
        specs = find_specs(tmp_path, overrides={"toy": settings})
        assert refusal_code(specs["toy2"]) == RESTRICTIONS_OF_MISSING_ID
    allowed: list[dict[str, Any]] = [
        {"overrides": {"toy": RESTRICTED, "toy2": {"start": "lazy"}}},
        {
            "overrides": {"toy": RESTRICTED},
            "discovery": {"search_paths": [str(tmp_path)], "allowlist": ["toy2"]},
        },
        {"overrides": {"toy": {"start": "lazy"}}},  # this override restricts nothing
    ]
    for sections in allowed:
        assert refusal_code(find_specs(tmp_path, **sections)["toy2"]) == ""
    specs = find_specs(tmp_path, overrides={"toy": RESTRICTED}, defaults=RESTRICTED)
    assert specs["toy2"].refusal is None  # the defaults restrict every package as much


def test_an_override_of_a_disabled_or_invalid_extension_causes_no_refusal(tmp_path: Path) -> None:
    manifest = write_plugin(tmp_path / "toy", "toy")
    write_plugin(tmp_path / "other", "other")
    discovery = {"search_paths": [str(tmp_path)], "disabled": ["toy"]}
    specs = find_specs(tmp_path, overrides={"toy": RESTRICTED}, discovery=discovery)
    assert list(specs) == ["other"] and refusal_code(specs["other"]) == ""
    manifest.write_text(manifest.read_text() + "unknown = 1\n")
    specs = find_specs(tmp_path, overrides={"toy": RESTRICTED})
    assert list(specs) == ["other"] and refusal_code(specs["other"]) == ""


def test_an_extension_that_uses_the_id_of_another_is_refused(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "guard", "guard", capabilities=HOOK)
    write_plugin(tmp_path / "aaa", "guard")
    spec = find_specs(tmp_path)["guard"]
    assert spec.cwd == str(tmp_path / "aaa") and refusal_code(spec) == SAME_ID_TWICE
    assert spec.declared_hooks == ("before_tool_call",), (
        "the hooks of the hidden extension are kept"
    )
    write_plugin(tmp_path / "aaa", "guard", capabilities=HOOK)
    assert refusal_code(find_specs(tmp_path)["guard"]) == "", "the first is used, with a warning"
    env = {"env": {"KEY": {"from": "PATH"}}}
    # The override would give a variable to whichever package is first.
    assert refusal_code(find_specs(tmp_path, overrides={"guard": env})["guard"]) == SAME_ID_TWICE


def test_between_search_paths_the_first_is_used(tmp_path: Path) -> None:
    roots = [tmp_path / "project", tmp_path / "user"]
    for root in roots:
        write_plugin(root / "toy", "toy")
    sections = {"discovery": {"search_paths": list(map(str, roots))}, "overrides": {"toy": {}}}
    assert refusal_code(find_specs(tmp_path, **sections)["toy"]) == ""


def test_an_override_of_a_disabled_extension_is_not_reported_as_unused(tmp_path: Path) -> None:
    write_plugin(tmp_path / "toy", "toy")
    discovery = {"search_paths": [str(tmp_path)], "disabled": ["toy"]}
    overrides = {"toy": RESTRICTED, "gone": RESTRICTED}
    config = config_from_mapping({"discovery": discovery, "overrides": overrides})
    diagnostics = find_extensions(config).diagnostics
    unused_override = "X0109"
    unused = [diagnostic for diagnostic in diagnostics if diagnostic.code == unused_override]
    assert [diagnostic.extension for diagnostic in unused] == ["gone"]
