"""What a start reads as code: links, environments, PATH, variables, and what does not exist yet."""

import os
import sys
from pathlib import Path

import pytest

from exthost.launch.code_paths import CodePath, CodeReader, Scope

SYSTEM_PATH = "/usr/bin:/bin"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def read(*argv: str, cwd: Path, **variables: str) -> dict[tuple[str, Scope], CodePath]:
    usual = {"PATH": SYSTEM_PATH, "HOME": "/nonexistent"}
    code = CodeReader().read_extension(argv, str(cwd), {**usual, **variables})
    return {(item.path, item.scope): item for item in code}


def below(place: Path, found: dict[tuple[str, Scope], CodePath]) -> set[tuple[str, str]]:
    """Return the paths in a folder, relative to it, each with its scope."""
    return {
        (os.path.relpath(path, place), scope.value)
        for path, scope in found
        if path == str(place) or path.startswith(f"{place}/")
    }


def make_environment(path: Path, settings: str = "") -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "python").symlink_to("python3")
    (path / "bin" / "python3").symlink_to("/usr/bin/python3")
    (path / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (path / "pyvenv.cfg").write_text(f"home = /usr/bin\n{settings}")
    return path


def test_a_path_is_walked_link_by_link(place: Path) -> None:
    (place / "real" / "bin").mkdir(parents=True)
    (place / "real" / "bin" / "tool").touch()
    (place / "current").symlink_to("real")
    (place / "tool").symlink_to(place / "current" / "bin" / "tool")
    reader = CodeReader()
    links = [str(place / "tool"), str(place / "current")]
    assert reader.walk(f"{place}/tool") == (f"{place}/real/bin/tool", links, "")
    assert reader.walk(f"{place}/real/no/tool") == ("", [], f"{place}/real/no")
    # A file in the place of a folder can be replaced by a folder.
    assert reader.walk(f"{place}/real/bin/tool/x") == ("", [], f"{place}/real/bin/tool")
    (place / "loop").symlink_to("loop")
    assert reader.walk(f"{place}/loop")[0] == ""


def test_an_environment_is_code_with_its_settings_and_packages(place: Path) -> None:
    environment = make_environment(place / ".venv")
    found = read(f"{environment}/bin/python", "-m", "server", cwd=Path("/"))
    assert below(place, found) == {
        (".venv", "fence"),
        (".venv/bin", "all"),
        (".venv/bin", "names"),
        (".venv/lib", "all"),
        (".venv/pyvenv.cfg", "all"),
        (".venv/bin/python", "link"),
        (".venv/bin/python3", "link"),
    }
    assert all(item.is_program for item in found.values() if item.path.startswith(str(place)))


def test_a_first_line_leads_to_the_environment(place: Path) -> None:
    environment = make_environment(place / ".venv")
    script = place / "server"
    script.write_text(f"#!{environment}/bin/python3\n")
    script.chmod(0o755)
    found = below(place, read(str(script), cwd=Path("/")))
    assert {(".venv", "fence"), ("server", "all"), (".", "names")} <= found


@pytest.mark.parametrize(
    "words",
    [
        ("env", "{python}", "{script}"),
        ("env", "-S", "{python} {script}"),
        ("timeout", "60", "{python}", "{script}"),
        ("nice", "-n", "5", "{python}", "{script}"),
        ("sh", "-c", "cd / && exec {python} {script}"),
        ("sh", "-ec", "A=1 {python} {script} | cat"),
    ],
)
def test_programs_in_a_command_line_are_followed(place: Path, words: tuple[str, ...]) -> None:
    environment = make_environment(place / ".venv")
    (place / "code").mkdir()
    script = place / "code" / "server.py"
    script.touch()
    argv = [word.format(python=f"{environment}/bin/python", script=script) for word in words]
    found = below(place, read(*argv, cwd=Path("/")))
    assert {(".venv", "fence"), ("code", "names"), ("code/server.py", "all")} <= found


def test_the_folders_of_path_are_code_whether_they_exist_or_not(place: Path) -> None:
    (place / "bin").mkdir()
    search = f"{place}/bin:{place}/none:{SYSTEM_PATH}:"
    found = read("python3", "-c", "1", cwd=place, PATH=search)
    assert below(place, found) == {("bin", "names"), ("none", "missing"), (".", "names")}
    assert found[f"{place}/bin", Scope.NAMES].is_program, "its program is looked up there"
    assert f"mkdir -p {place}/none" in found[f"{place}/none", Scope.MISSING].fix
    found = read("/usr/bin/python3", "-Ic", "1", cwd=place, PATH=search)
    assert not found[f"{place}/bin", Scope.NAMES].is_program


@pytest.mark.parametrize(
    ("argv", "imports"),
    [
        (("python3", "-m", "server"), True),
        (("python3", "-c", "import server"), True),
        (("python3", "-P", "-m", "server"), False),
        (("python3", "-Im", "server"), False),
        (("perl", "-e", "1"), True),
        (("java", "Server"), True),
        (("java", "-cp", "/nonexistent", "Server"), False),
    ],
)
def test_the_working_folder_is_code_if_it_is_imported_from(
    place: Path, argv: tuple[str, ...], imports: bool
) -> None:
    for name in ("python3", "perl", "java"):
        (place / "bin").mkdir(exist_ok=True)
        (place / "bin" / name).touch(mode=0o755)
    cwd = place / "work"
    cwd.mkdir()
    found = read(*argv, cwd=cwd, PATH=f"{place}/bin")
    assert ((str(cwd), Scope.NAMES) in found) is imports
    found = read(*argv, cwd=cwd, PATH=f"{place}/bin", PYTHONSAFEPATH="1")
    assert ((str(cwd), Scope.NAMES) in found) is (imports and argv[0] != "python3")


def test_packages_of_node_are_looked_for_at_every_level(place: Path) -> None:
    script = place / "app" / "server" / "dist" / "index.js"
    script.parent.mkdir(parents=True)
    script.touch()
    (place / "app" / "server" / "package.json").write_text("{}")
    (place / "app" / "node_modules").mkdir()
    found = below(place, read("/usr/bin/node", str(script), cwd=Path("/")))
    assert {
        ("app/server/dist/node_modules", "missing"),
        ("app/server/node_modules", "missing"),
        ("app/node_modules", "all"),
        ("node_modules", "missing"),
        ("app/server/dist/package.json", "missing"),
        ("app/server/package.json", "all"),
        ("app/server", "names"),
    } <= found
    assert ("app/package.json", "missing") not in found, "the nearest one describes the script"


def test_an_installed_package_is_described_by_its_own_file(place: Path) -> None:
    package = place / "node_modules" / "server"
    package.mkdir(parents=True)
    (package / "index.js").touch()
    found = below(place, read("/usr/bin/node", str(package / "index.js"), cwd=Path("/")))
    assert ("node_modules", "all") in found and ("package.json", "missing") not in found


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("PYTHONPATH", "{place}/lib", ("lib", "names")),
        ("PYTHONHOME", "{place}/lib", ("lib", "all")),
        ("PYTHONPYCACHEPREFIX", "{place}/lib", ("lib", "names")),
        ("NODE_PATH", "/nonexistent:{place}/lib", ("lib", "names")),
        ("NODE_OPTIONS", "--max-old-space-size=9 --require {place}/lib", ("lib", "names")),
        ("NODE_OPTIONS", "--import={place}/none.mjs", ("none.mjs", "missing")),
        ("GEM_HOME", "{place}/lib", ("lib", "all")),
        ("RUBYLIB", "{place}/lib", ("lib", "names")),
        ("RUBYOPT", "-I{place}/lib", ("lib", "names")),
        ("BUNDLE_GEMFILE", "{place}/lib/Gemfile", ("lib", "names")),
        ("PERL5LIB", "{place}/lib", ("lib", "names")),
        ("LUA_PATH", "{place}/lib/?.lua;;", ("lib", "names")),
        ("CLASSPATH", "{place}/lib/*", ("lib", "names")),
        ("JAVA_TOOL_OPTIONS", "-javaagent:{place}/lib", ("lib", "names")),
        ("LD_PRELOAD", "{place}/none.so {place}/lib", ("lib", "names")),
        ("LD_LIBRARY_PATH", "{place}/lib", ("lib", "names")),
        ("BASH_ENV", "{place}/lib", ("lib", "names")),
        ("GOMODCACHE", "{place}/lib", ("lib", "all")),
        ("HOME", "{place}/lib", ("lib", "names")),
        ("LUA_PATH", "?.lua", (".", "names")),
        ("LUA_CPATH_5_4", "./lib/?.so;;", ("lib", "names")),
        ("PYTHONPATH", "lib", ("lib", "names")),
        ("PYTHONPATH", "{place}/later", ("later", "missing")),
    ],
)
def test_variables_name_code(
    place: Path, variable: str, value: str, expected: tuple[str, str]
) -> None:
    (place / "lib").mkdir()
    text = value.format(place=place)
    found = below(place, read("/bin/true", cwd=place, **{variable: text}))
    assert expected in found
    assert below(place, read("/bin/true", cwd=place)) == set()


def test_words_that_are_not_paths_are_not_code(place: Path) -> None:
    words = {"ENV": "production", "GOENV": "off", "LD_PRELOAD": "libx.so", "NODE_OPTIONS": "--a=1"}
    assert below(place, read("/bin/true", cwd=place, **words)) == set()


def test_arguments_of_the_program_are_not_code(place: Path) -> None:
    (place / "bin").mkdir()
    (place / "data").mkdir()
    (place / "server.py").touch()
    for tool in ("npx", "uvx", "python3"):
        (place / "bin" / tool).touch(mode=0o755)
    data = str(place / "data")
    for argv in (
        ("npx", "-y", "server", data),
        ("uvx", "server", "--root", data),
        ("python3", "-Im", "server", data),
        ("python3", "-I", str(place / "server.py"), data),
        ("/bin/true", data),
    ):
        found = read(*argv, cwd=Path("/"), PATH=f"{place}/bin")
        assert not any(path == data for path, _ in found), argv


def test_pth_files_and_editable_installs_lead_to_code(place: Path) -> None:
    environment = make_environment(place / ".venv")
    packages = environment / "lib" / "python3.11" / "site-packages"
    for name in ("src", "flat"):
        (place / name).mkdir()
    (packages / "a.pth").write_text(f"# {place}/none\n{place}/src\n../../../../none\n")
    (packages / "b.pth").write_text("import __editable___b_finder; install()\n")
    finder = f"MAPPING: dict[str, str] = {{'flat': '{place}/flat', 'x': '/nonexistent'}}\n"
    (packages / "__editable___b_finder.py").write_text(finder)
    found = below(place, read(f"{environment}/bin/python", "-Ic", "1", cwd=Path("/")))
    assert {("src", "names"), ("flat", "names")} <= found
    assert not any(name == "none" for name, _ in found)


def test_the_cache_of_uv_is_code_of_the_environments_that_it_made(place: Path) -> None:
    environment = make_environment(place / ".venv", "uv = 0.5.0\n")
    cache = place / "cache"
    cache.mkdir()
    words = (f"{environment}/bin/python", "-Ic", "1")
    found = read(*words, cwd=Path("/"), UV_CACHE_DIR=str(cache))
    assert (str(cache), Scope.ALL) in found, "files in both are hard links of each other"


def test_the_stores_of_pnpm_and_conda_are_code_of_the_programs_linked_from_them(
    place: Path,
) -> None:
    store = place / "store" / "v3"
    store.mkdir(parents=True)
    modules = place / "app" / "node_modules"
    modules.mkdir(parents=True)
    (place / "app" / "server.js").touch()
    (modules / ".modules.yaml").write_text(f"layoutVersion: 5\nstoreDir: {store}\n")
    found = below(place, read("/usr/bin/node", f"{place}/app/server.js", cwd=Path("/")))
    assert ("store/v3", "all") in found
    environment = place / "conda" / "envs" / "x"
    for name in ("bin", "lib", "conda-meta"):
        (environment / name).mkdir(parents=True)
    (environment / "bin" / "python").touch(mode=0o755)
    (place / "conda" / "pkgs").mkdir()
    found = below(place, read(f"{environment}/bin/python", "-Ic", "1", cwd=Path("/")))
    assert {("conda/pkgs", "all"), ("conda/envs/x", "fence"), ("conda/envs/x/lib", "all")} <= found


@pytest.mark.parametrize("tool", ["npx", "uvx", "bundle", "cargo", "go", "deno", "bun", "mvn"])
def test_tools_read_settings_in_every_folder_above(place: Path, tool: str) -> None:
    (place / "bin").mkdir()
    (place / "bin" / tool).touch(mode=0o755)
    cwd = place / "work"
    cwd.mkdir()
    found = read(tool, "server", cwd=cwd, PATH=f"{place}/bin")
    assert (str(cwd), Scope.UPWARD) in found
    elsewhere = read(tool, "--directory", str(cwd), "run", cwd=Path("/"), PATH=f"{place}/bin")
    assert (str(cwd), Scope.UPWARD) in elsewhere


def test_a_shim_of_a_version_manager_reads_settings_as_well(place: Path) -> None:
    (place / "shims").mkdir()
    (place / "shims" / "python3").touch(mode=0o755)
    found = read(f"{place}/shims/python3", "-Ic", "1", cwd=place)
    assert (str(place), Scope.UPWARD) in found


def test_a_command_that_does_not_exist_is_code_if_somebody_creates_it(place: Path) -> None:
    found = read(f"{place}/bin/server", cwd=Path("/"))
    assert below(place, found) == {("bin", "missing")}


def test_the_code_of_the_host_is_its_python_its_modules_and_its_programs(place: Path) -> None:
    bwrap = place / "bwrap"
    bwrap.touch(mode=0o755)
    config = place / "exthost.toml"
    config.touch()
    variables = {"PATH": SYSTEM_PATH, "HOME": "/nonexistent"}
    found = CodeReader().read_host(variables, (str(bwrap), ""), str(config))
    paths = {item.path for item in found}
    assert {str(bwrap), str(config)} <= paths
    assert os.path.realpath(f"{sys.prefix}/lib") in paths
    assert os.path.realpath(f"{sys.base_prefix}/lib") in paths
    for path in sys.path:
        if os.path.isdir(path or "."):  # noqa: PTH112
            assert os.path.realpath(path or ".") in paths
