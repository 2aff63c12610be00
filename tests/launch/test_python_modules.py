"""Which file or folder `python -m MODULE` runs, found without running Python.

`find_module` searches the folders that Python would, in its order. If Python might find the module
elsewhere, it raises UnknownModule. The host uses it to find the files whose digests it compares
before it starts an extension such as `python -m weather`; for a module of a package, this is the
folder of the whole package. The interpreter of these tests is an empty file with the usual folders
around it.
"""

from pathlib import Path

import pytest

from exthost.launch.python_modules import UnknownModule, find_module


def write(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


class Python:
    """An installation of Python 3.12 without packages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.program = write(root / "usr" / "bin" / "python3.12")
        self.library = root / "usr" / "lib" / "python3.12"
        self.site = self.library / "site-packages"
        self.cwd = root / "cwd"
        write(self.library / "os.py")
        self.cwd.mkdir()

    def find(self, module: str, *options: str, program: str = "", **env: str) -> str:
        env.setdefault("HOME", str(self.root / "home"))
        program = program or self.program
        return find_module(module, program, frozenset(options), str(self.cwd), env)

    def reason_against(self, module: str, *options: str, program: str = "", **env: str) -> str:
        """Return the reason why the module is not found."""
        with pytest.raises(UnknownModule) as caught:
            self.find(module, *options, program=program, **env)
        return str(caught.value)


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)


def test_the_working_folder_comes_first_unless_an_option_leaves_it_out(python: Python) -> None:
    local = write(python.cwd / "tool.py")
    installed = write(python.site / "tool.py")
    assert python.find("tool") == local
    assert python.find("tool", "-I") == python.find("tool", "-P") == installed
    assert python.find("tool", PYTHONSAFEPATH="1") == installed
    assert python.find("tool", "-E", PYTHONSAFEPATH="1") == local  # -E ignores variables


def test_pythonpath_comes_next_unless_variables_are_ignored(python: Python) -> None:
    named = write(python.root / "named" / "tool.py")
    relative = write(python.cwd / "below" / "other.py")
    installed = write(python.site / "tool.py")
    path = f"{python.root}/named:below"
    assert python.find("tool", PYTHONPATH=path) == named
    assert python.find("other", PYTHONPATH=path) == relative
    for option in ("-I", "-E"):
        assert python.find("tool", option, PYTHONPATH=path) == installed


def test_the_packages_of_the_user_are_left_out_by_options_and_a_variable(python: Python) -> None:
    own = write(python.root / "home/.local/lib/python3.12/site-packages/tool.py")
    assert python.find("tool") == own
    for option in ("-I", "-s", "-S"):
        assert "not in a folder" in python.reason_against("tool", option)
    assert "not in a folder" in python.reason_against("tool", PYTHONNOUSERSITE="1")
    other = write(python.root / "base/lib/python3.12/site-packages/other.py")
    assert python.find("other", PYTHONUSERBASE=str(python.root / "base")) == other


def test_without_site_only_the_standard_library_is_searched(python: Python) -> None:
    write(python.site / "tool.py")
    library = write(python.library / "lib-dynload" / "fast.cpython-312.so")
    assert python.find("fast", "-S") == library
    assert "not in a folder" in python.reason_against("tool", "-S")


def test_folders_of_pth_files_are_searched(python: Python) -> None:
    for name in ("one", "three"):
        write(python.root / name / f"{name}.py")
    write(python.site / "# two" / "two.py")  # a folder whose name is a comment in a .pth file
    lines = ("# two", "import x", "", f"{python.root}/one", "missing")
    write(python.site / "paths.pth", "\n".join(lines))
    write(python.site / "notes.txt", f"{python.root}/three\n")  # it is not a .pth file
    assert python.find("one") == f"{python.root}/one/one.py"
    assert "not in a folder" in python.reason_against("two")
    assert "not in a folder" in python.reason_against("three")


def test_a_regular_package_comes_before_a_module_and_a_namespace_package_after(
    python: Python,
) -> None:
    module = write(python.cwd / "tool.py")
    (python.cwd / "tool").mkdir()
    assert python.find("tool") == module
    write(python.cwd / "tool" / "__init__.py")
    package = str(python.cwd / "tool")
    assert python.find("tool") == package
    # The search ends at a regular package, whose folder is the code of all its modules. It does not
    # check that `tool.inner` or `tool.__main__` exists: Python reports that.
    assert python.find("tool.inner") == package


def test_an_extension_module_comes_before_the_source_and_the_source_before_byte_code(
    python: Python,
) -> None:
    paths = [write(python.cwd / f"tool{end}") for end in (".pyc", ".py", ".cpython-312.so")]
    write(python.cwd / "tool_other.so")
    for path in reversed(paths):
        assert python.find("tool") == path
        Path(path).unlink()


def test_a_namespace_package_is_run_by_its_main_module(python: Python) -> None:
    # Folders of this name may be in several places. The one with `__main__` is the one that is run.
    write(python.cwd / "space" / "inner" / "notes.txt")
    assert python.reason_against("space.inner") == "the module space.inner has no __main__"
    write(python.cwd / "space" / "inner" / "__main__.py")
    assert python.find("space.inner") == str(python.cwd / "space" / "inner")
    assert "not in a folder" in python.reason_against("space.missing")


def test_a_place_of_modules_that_is_not_known_is_an_error(python: Python) -> None:
    write(python.cwd / "tool.py")
    assert "PYTHONHOME" in python.reason_against("tool", PYTHONHOME="/x")
    # One message names both variables that move the standard library.
    assert "PYTHONHOME" in python.reason_against("tool", PYTHONPLATLIBDIR="lib64")
    assert python.find("tool", "-E", PYTHONHOME="/x") == str(python.cwd / "tool.py")
    assert "is not the name of a module" in python.reason_against("a-b")
    archive = write(python.root / "packages.zip")
    assert "is an archive" in python.reason_against("missing", PYTHONPATH=archive)
    script = write(python.root / "usr/bin/python", "#!/bin/sh\n")
    assert "is a script" in python.reason_against("tool", program=script)
    nowhere = write(python.root / "opt/bin/python3.12")
    assert "the standard library" in python.reason_against("tool", program=nowhere)


@pytest.mark.parametrize("uses_system", [False, True])
@pytest.mark.parametrize("settings_file", ["venv/pyvenv.cfg", "venv/bin/pyvenv.cfg"])
def test_a_virtual_environment_has_its_own_packages_and_may_use_those_of_the_system(
    python: Python, uses_system: bool, settings_file: str
) -> None:
    program = write(python.root / "venv" / "bin" / "python")
    home = Path(python.program).parent
    settings = f"home = {home}\nVersion = 3.12.1\n"  # keys are compared without case
    settings += f"include-system-site-packages = {uses_system}\n"
    folder = Path(write(python.root / settings_file, settings)).parent
    own = write(folder / "lib" / "python3.12" / "site-packages" / "tool.py")
    system = write(python.site / "other.py")
    user = write(python.root / "home/.local/lib/python3.12/site-packages/users.py")
    assert python.find("tool", program=program) == own
    if uses_system:
        assert python.find("other", program=program) == system
        assert python.find("users", program=program) == user
    else:
        assert "not in a folder" in python.reason_against("other", program=program)
        assert "not in a folder" in python.reason_against("users", program=program)
