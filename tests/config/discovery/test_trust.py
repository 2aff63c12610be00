"""What a config holds stays held: packages that were planted, renamed, or there twice."""

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
from tests.extensions.nexo_tree import plugin

HELD: dict[str, Any] = {"permissions": {}}
GUARD = 'hooks = ["before_tool_call"]'


def found(root: Path, **sections: Any) -> dict[str, Spec]:
    sections = {"discovery": {"search_paths": [str(root)]}, **sections}
    return {spec.id: spec for spec in find_extensions(config_from_mapping(sections)).specs}


def refusal(spec: Spec) -> str:
    """Return the code with which an extension is refused; "" if none of the checks here does."""
    try:
        admit(spec, find.find_dialect(spec.dialect), os.environ)
    except Refused as refused:
        return refused.code
    return ""


def writes(folder: Path, **more: Any) -> dict[str, Any]:
    return {"permissions": {"filesystem": [f"{folder}:rw"]}, **more}


@pytest.mark.parametrize(
    "sections",
    [
        lambda root: {"overrides": {"toy": writes(root)}},
        lambda root: {"overrides": {"gone": writes(root)}},
        lambda root: {
            "discovery": {"search_paths": [str(root)], "disabled": ["toy"]},
            "overrides": {"toy": writes(root)},
        },
        lambda root: {
            "extensions": [
                {"name": "w", "source": {"command": "w"}, "enabled": False, **writes(root)}
            ]
        },
    ],
    ids=["a package", "one that is gone", "one that is disabled", "an entry that is off"],
)
def test_a_package_in_a_folder_that_somebody_may_write_is_refused(
    tmp_path: Path, sections: Any
) -> None:
    plugin(tmp_path / "toy", "toy")
    for name in ("aaa", "zzz"):
        plugin(tmp_path / name, name)
    specs = found(tmp_path, **sections(tmp_path))
    assert refusal(specs["aaa"]) == refusal(specs["zzz"]) == "X0396"


def test_a_package_that_prunes_its_writer_is_refused(tmp_path: Path) -> None:
    plugin(tmp_path / "toy", "toy")
    plugin(tmp_path, "top")
    specs = found(tmp_path, overrides={"toy": writes(tmp_path)})
    assert list(specs) == ["top"] and refusal(specs["top"]) == "X0396"


def test_an_uncontained_extension_that_can_write_elsewhere_refuses_no_other(tmp_path: Path) -> None:
    plugin(tmp_path / "packages" / "toy", "toy")
    plugin(tmp_path / "packages" / "other", "other")
    (tmp_path / "data").mkdir()
    for settings in (writes(tmp_path / "data"), writes(tmp_path, sandbox="off")):
        specs = found(tmp_path / "packages", overrides={"toy": settings})
        assert refusal(specs["other"]) == ""


def test_a_package_does_not_leave_its_override_by_another_id(tmp_path: Path) -> None:
    plugin(tmp_path / "toy", "toy2")
    for held in (HELD, {"sha256": {"manifest": "0" * 64}}):
        specs = found(tmp_path, overrides={"toy": held})
        assert refusal(specs["toy2"]) == "X0394"
    named: list[dict[str, Any]] = [
        {"overrides": {"toy": HELD, "toy2": {"start": "lazy"}}},
        {
            "overrides": {"toy": HELD},
            "discovery": {"search_paths": [str(tmp_path)], "allowlist": ["toy2"]},
        },
        {"overrides": {"toy": {"start": "lazy"}}},  # it holds nobody
    ]
    for sections in named:
        assert refusal(found(tmp_path, **sections)["toy2"]) == ""
    assert found(tmp_path, overrides={"toy": HELD}, defaults=HELD)["toy2"].refusal is None


def test_an_override_of_a_disabled_or_broken_extension_refuses_no_other(tmp_path: Path) -> None:
    manifest = plugin(tmp_path / "toy", "toy")
    plugin(tmp_path / "other", "other")
    discovery = {"search_paths": [str(tmp_path)], "disabled": ["toy"]}
    specs = found(tmp_path, overrides={"toy": HELD}, discovery=discovery)
    assert list(specs) == ["other"] and refusal(specs["other"]) == ""
    manifest.write_text(manifest.read_text() + "unknown = 1\n")
    specs = found(tmp_path, overrides={"toy": HELD})
    assert list(specs) == ["other"] and refusal(specs["other"]) == ""


def test_an_extension_that_takes_the_id_of_another_in_one_search_path_is_refused(
    tmp_path: Path,
) -> None:
    plugin(tmp_path / "guard", "guard", capabilities=GUARD)
    plugin(tmp_path / "aaa", "guard")
    spec = found(tmp_path)["guard"]
    assert spec.cwd == str(tmp_path / "aaa") and refusal(spec) == "X0399"
    assert spec.declared_hooks == ("before_tool_call",), "what it hides still counts"
    plugin(tmp_path / "aaa", "guard", capabilities=GUARD)
    assert refusal(found(tmp_path)["guard"]) == "", "the first is used, with a warning"
    env = {"env": {"KEY": {"from": "PATH"}}}
    assert refusal(found(tmp_path, overrides={"guard": env})["guard"]) == "X0399"


def test_between_search_paths_the_first_is_used(tmp_path: Path) -> None:
    roots = [tmp_path / "project", tmp_path / "user"]
    for root in roots:
        plugin(root / "toy", "toy")
    sections = {"discovery": {"search_paths": list(map(str, roots))}, "overrides": {"toy": {}}}
    assert refusal(found(tmp_path, **sections)["toy"]) == ""


def test_an_override_of_a_disabled_extension_is_not_reported_as_unused(tmp_path: Path) -> None:
    plugin(tmp_path / "toy", "toy")
    discovery = {"search_paths": [str(tmp_path)], "disabled": ["toy"]}
    overrides = {"toy": HELD, "gone": HELD}
    config = config_from_mapping({"discovery": discovery, "overrides": overrides})
    unused = [found for found in find_extensions(config).diagnostics if found.code == "X0109"]
    assert [diagnostic.extension for diagnostic in unused] == ["gone"]
