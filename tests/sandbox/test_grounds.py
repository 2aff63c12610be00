"""What must be seen to run a program: its way is followed, and nothing is widened in silence."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import Refused
from exthost.process.grounds import Wish, installation, survey, system
from exthost.sandbox.strict import Ground


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def program(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def ground(*argv: str, **wish: Any) -> Ground:
    wish = {"cwd": "/", "env": {"HOME": "/home/nobody", "PATH": "/usr/bin:/bin"}, **wish}
    return survey(Wish(extension="x", argv=argv, **wish))


def more(found: Ground) -> set[str]:
    """What is shown beyond what every program stands on."""
    return set(found.read) - set(system().read)


def test_a_program_of_the_system_needs_nothing_more() -> None:
    assert more(ground("/bin/sh", "-c", "true")) == set()


def test_a_file_is_shown_with_its_folder(place: Path) -> None:
    script = program(place / "ext" / "run.sh")
    assert more(ground("/bin/sh", script)) == {str(place / "ext")}
    assert more(ground("/bin/sh", "run.sh", cwd=str(place / "ext"))) == {str(place / "ext")}


def test_a_file_in_a_home_or_directly_below_the_root_is_shown_alone(place: Path) -> None:
    script = program(place / "run.sh")
    home = {"HOME": str(place), "PATH": "/usr/bin"}
    assert more(ground("/bin/sh", script, env=home)) == {script}
    assert "/etc" not in ground("/bin/cat", "/etc/hostname").read


def test_a_set_folder_and_a_manifests_are_its_own(place: Path) -> None:
    assert more(ground("/bin/sh", folders=(str(place),))) == {str(place)}


def test_a_virtual_environment_is_shown_with_its_interpreter_and_what_it_points_to(
    place: Path,
) -> None:
    base = place / "versions" / "3.99"
    real = program(base / "bin" / "python3.99", "\x7fELF\0")
    (base / "lib").mkdir()
    environment = place / "project" / ".venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(real)
    (environment / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.99\n")
    packages = environment / "lib" / "python3.99" / "site-packages"
    packages.mkdir(parents=True)
    (place / "sources").mkdir()
    (packages / "editable.pth").write_text(f"{place}/sources\nimport os\n/\n")
    found = ground(str(environment / "bin" / "python"))
    assert more(found) == {str(base), str(environment), str(place / "sources")}


def test_a_shim_is_shown_with_its_version_managers_root(place: Path) -> None:
    shim = program(place / ".pyenv" / "shims" / "python3", "#!/usr/bin/env bash\n")
    assert more(ground(shim)) == {str(place / ".pyenv")}


def test_the_first_line_of_a_script_is_followed(place: Path) -> None:
    interpreter = program(place / "lang" / "bin" / "lang", "\x7fELF\0")
    (place / "lang" / "lib").mkdir()
    for first in (f"#!{interpreter}\n", "#!/usr/bin/env -S lang --fast\n"):
        script = program(place / "ext" / "run", first)
        env = {"HOME": "/home/nobody", "PATH": f"/usr/bin:{place}/lang/bin"}
        assert more(ground(script, env=env)) == {str(place / "ext"), str(place / "lang")}


def test_a_node_script_is_shown_with_the_packages_above_it(place: Path) -> None:
    script = program(place / "app" / "dist" / "main.mjs", "")
    (place / "app" / "node_modules").mkdir()
    (place / "app" / "package.json").write_text("{}")
    assert more(ground("/bin/sh", script)) == {
        str(place / "app" / "dist"),
        str(place / "app" / "node_modules"),
        str(place / "app" / "package.json"),
    }


def test_links_on_the_way_are_kept(place: Path) -> None:
    program(place / "real" / "run.sh")
    (place / "link").symlink_to("real")
    found = ground("/bin/sh", str(place / "link" / "run.sh"))
    assert (str(place / "link"), "real") in found.links and str(place / "real") in found.read


def test_links_in_a_circle_are_no_way(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    assert more(ground(str(place / "a"))) == set()


def test_grants_are_read_only_unless_they_say_rw_and_may_lie_in_one_another(place: Path) -> None:
    (place / "data" / "out").mkdir(parents=True)
    found = ground("/bin/sh", granted=(str(place / "data"), f"{place}/data/out:rw"))
    assert more(found) == {str(place / "data")} and found.write == (str(place / "data" / "out"),)
    found = ground("/bin/sh", granted=("data", "./data/out:rw"), cwd=str(place))
    assert found.write == (str(place / "data" / "out"),)


def test_whoever_owns_nothing_can_use_what_is_open_to_all(place: Path) -> None:
    script = program(place / "ext" / "run.sh")
    for above in (place, *place.parents):
        if not above.stat().st_mode & 0o001:
            assert not ground("/bin/sh", script).open
            break
    (place / "ext").chmod(0o700)
    assert not ground("/bin/sh", script).open
    assert ground("/bin/sh").open


@pytest.mark.parametrize(
    ("entry", "code"),
    [("/", "X0381"), ("/proc/1", "X0381"), ("/sys/../dev", "X0381"), ("/nowhere/at/all", "X0382")],
)
def test_what_is_never_granted_is_refused_by_name(entry: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        ground("/bin/sh", granted=(entry,))
    assert caught.value.code == code and entry in caught.value.message


def test_our_own_interpreter_can_be_followed() -> None:
    found = ground(sys.executable, env=dict(os.environ))
    prefix = os.path.realpath(sys.base_prefix)
    assert any(prefix == one or prefix.startswith(f"{one}/") for one in found.read)


def test_a_home_is_no_installation_and_neither_is_the_root(place: Path) -> None:
    for folder in ("bin", "lib", "tool/bin", "tool/lib"):
        (place / folder).mkdir(parents=True)
    assert installation(f"{place}/tool/bin/run", str(place)) == f"{place}/tool"
    assert installation(f"{place}/bin/run", str(place)) == ""
    assert installation("/bin/run", str(place)) == ""
    assert installation(f"{place}/tool/run", str(place)) == ""
