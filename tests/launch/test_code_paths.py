"""Which paths a start reads as code, so that they can be protected from extensions that may write.

Besides the program these are its virtual environment, the folders of PATH, symlinks on the way,
paths in variables such as PYTHONPATH, and files that do not exist yet and would be read. Each path
has a scope: what an attacker must not change there.

    all      the content of a file, or everything in a folder
    names    what is looked up in a folder by its name, such as modules beside a script
    fence    a folder whose parts are listed by themselves, and in which nothing must be added
    upward   settings in this folder and in all folders above it
    link     a symlink on the way to code
    missing  a path that does not exist, and would be code if it did
"""

import os
import sys
from pathlib import Path

import pytest

from exthost.launch.code_paths import CodePath, CodeReader, Scope

SYSTEM_PATH = "/usr/bin:/bin"


@pytest.fixture
def base_folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def read_code(*argv: str, cwd: Path, **variables: str) -> dict[tuple[str, Scope], CodePath]:
    """Return the code paths of a command, by path and scope."""
    defaults = {"PATH": SYSTEM_PATH, "HOME": "/nonexistent"}
    code = CodeReader().read_extension(argv, str(cwd), {**defaults, **variables})
    return {(item.path, item.scope): item for item in code}


def paths_below(
    base_folder: Path, code_paths: dict[tuple[str, Scope], CodePath]
) -> set[tuple[str, str]]:
    """Return the paths in a folder, relative to it, each with its scope."""
    return {
        (os.path.relpath(path, base_folder), scope.value)
        for path, scope in code_paths
        if path == str(base_folder) or path.startswith(f"{base_folder}/")
    }


def make_environment(path: Path, settings: str = "") -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "python").symlink_to("python3")
    (path / "bin" / "python3").symlink_to("/usr/bin/python3")
    (path / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (path / "pyvenv.cfg").write_text(f"home = /usr/bin\n{settings}")
    return path


def test_each_link_of_a_path_is_followed(base_folder: Path) -> None:
    (base_folder / "real" / "bin").mkdir(parents=True)
    (base_folder / "real" / "bin" / "tool").touch()
    (base_folder / "current").symlink_to("real")
    (base_folder / "tool").symlink_to(base_folder / "current" / "bin" / "tool")
    reader = CodeReader()
    links = [str(base_folder / "tool"), str(base_folder / "current")]
    assert reader.walk(f"{base_folder}/tool") == (f"{base_folder}/real/bin/tool", links, "")
    assert reader.walk(f"{base_folder}/real/no/tool") == ("", [], f"{base_folder}/real/no")
    # A file where the path has a folder can be replaced by a folder.
    assert reader.walk(f"{base_folder}/real/bin/tool/x") == ("", [], f"{base_folder}/real/bin/tool")
    (base_folder / "loop").symlink_to("loop")
    assert reader.walk(f"{base_folder}/loop")[0] == ""


def test_an_environment_is_code_with_its_settings_and_packages(base_folder: Path) -> None:
    environment = make_environment(base_folder / ".venv")
    code_paths = read_code(f"{environment}/bin/python", "-m", "server", cwd=Path("/"))
    assert paths_below(base_folder, code_paths) == {
        (".venv", "fence"),
        (".venv/bin", "all"),
        (".venv/bin", "names"),
        (".venv/lib", "all"),
        (".venv/pyvenv.cfg", "all"),
        (".venv/bin/python", "link"),
        (".venv/bin/python3", "link"),
    }
    assert all(
        item.is_program for item in code_paths.values() if item.path.startswith(str(base_folder))
    )


def test_the_environment_of_a_shebang_line_is_code(base_folder: Path) -> None:
    environment = make_environment(base_folder / ".venv")
    script = base_folder / "server"
    script.write_text(f"#!{environment}/bin/python3\n")
    script.chmod(0o755)
    code_paths = paths_below(base_folder, read_code(str(script), cwd=Path("/")))
    assert {(".venv", "fence"), ("server", "all"), (".", "names")} <= code_paths


@pytest.mark.parametrize(
    "command_words",
    [
        ("env", "{python}", "{script}"),
        ("env", "-S", "{python} {script}"),
        ("timeout", "60", "{python}", "{script}"),
        ("nice", "-n", "5", "{python}", "{script}"),
        ("sh", "-c", "cd / && exec {python} {script}"),
        ("sh", "-ec", "A=1 {python} {script} | cat"),
    ],
)
def test_programs_in_a_command_line_are_followed(
    base_folder: Path, command_words: tuple[str, ...]
) -> None:
    environment = make_environment(base_folder / ".venv")
    (base_folder / "code").mkdir()
    script = base_folder / "code" / "server.py"
    script.touch()
    argv = [
        word.format(python=f"{environment}/bin/python", script=script) for word in command_words
    ]
    code_paths = paths_below(base_folder, read_code(*argv, cwd=Path("/")))
    assert {(".venv", "fence"), ("code", "names"), ("code/server.py", "all")} <= code_paths


@pytest.mark.parametrize(
    "command_words",
    [
        ("env", "-C", "{code}", "python3", "server.py"),
        ("env", "--chdir={code}", "./server.py"),
        ("env", "-S", "-C {code} python3 server.py"),
        ("env", "A=1", "timeout", "5", "env", "-C", "{code}", "nice", "python3", "server.py"),
        ("bash", "-euo", "pipefail", "-c", "cd {code}; exec python3 server.py"),
        ("bash", "-ceu", "pushd {code} && ./server.py"),
        ("bash", "-o", "pipefail", "{code}/server.py"),
        ("bash", "-c", "D={code}; cd $D; time ./server.py"),
        ("bash", "-c", "eval python3 ${{D}}/server.py"),
        ("bash", "-c", "PATH={code}:$PATH exec server.py"),
        ("fastmcp", "run", "{code}/server.py"),
        ("mcp", "run", "--transport", "stdio", "{code}/server.py:app"),
        ("python3", "-m", "mcp", "run", "{code}/server.py:app"),
    ],
)
def test_scripts_in_a_folder_that_the_command_names_are_code(
    base_folder: Path, command_words: tuple[str, ...]
) -> None:
    for path in ("code/server.py", "bin/fastmcp", "bin/mcp"):
        (base_folder / path).parent.mkdir(exist_ok=True)
        (base_folder / path).write_text("#!/usr/bin/python3\n")
        (base_folder / path).chmod(0o755)
    code_folder = str(base_folder / "code")
    argv = [word.format(code=code_folder) for word in command_words]
    search = f"{SYSTEM_PATH}:{base_folder}/bin"
    code_paths = read_code(*argv, cwd=Path("/"), PATH=search, D=code_folder)
    assert ("code/server.py", "all") in paths_below(base_folder, code_paths)


@pytest.mark.parametrize(
    "command_words",
    [
        ("env", "PYTHONPATH={lib}", "python3", "/nonexistent.py"),
        ("env", "-S", "PYTHONPATH={lib} python3", "/nonexistent.py"),
        ("env", "--unknown", "PYTHONPATH={lib}", "python3", "/nonexistent.py"),
        ("env", "PATH={lib}:/usr/bin", "server"),
        ("sh", "-c", "PYTHONPATH={lib} exec python3 /nonexistent.py"),
        ("sh", "-c", "export PATH={lib}:$PATH; server"),
    ],
)
def test_variables_that_a_command_sets_name_code(
    base_folder: Path, command_words: tuple[str, ...]
) -> None:
    (base_folder / "lib").mkdir()
    argv = [word.format(lib=base_folder / "lib") for word in command_words]
    code_paths = paths_below(base_folder, read_code(*argv, cwd=Path("/")))
    assert ("lib", "names") in code_paths


def test_a_command_with_many_tools_in_it_is_read_in_a_short_time(
    base_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base_folder / "npx").touch(mode=0o755)
    walked_paths: list[str] = []
    walk = CodeReader.walk

    def count_and_walk(reader: CodeReader, path: str) -> tuple[str, list[str], str]:
        walked_paths.append(path)
        return walk(reader, path)

    monkeypatch.setattr(CodeReader, "walk", count_and_walk)
    words = [word for number in range(20) for word in (f"A={number}", "npx")]
    read_code("npx", *words, cwd=Path("/"), PATH=str(base_folder))
    # Reading each inner command twice would double the number with each tool.
    assert len(walked_paths) < 2000


def test_a_runner_without_a_script_reads_settings_in_its_working_folder(base_folder: Path) -> None:
    (base_folder / "bin").mkdir()
    (base_folder / "bin" / "fastmcp").touch(mode=0o755)
    cwd = base_folder / "work"
    cwd.mkdir()
    code_paths = read_code("fastmcp", "run", cwd=cwd, PATH=f"{base_folder}/bin")
    assert (str(cwd), Scope.UPWARD) in code_paths


@pytest.mark.parametrize(
    "command_words",
    [
        ("julia", "--startup-file=no", "{code}"),
        ("tclsh", "{code}", "data.csv"),
        ("awk", "-f", "{code}", "data.csv"),
        ("runner", "--load={code}"),
        ("runner", "./code/server.R"),
    ],
)
@pytest.mark.parametrize("suffix", ["R", "jl", "tcl", "exs", "wasm", "fish"])
def test_the_script_of_an_unknown_interpreter_is_code(
    base_folder: Path, command_words: tuple[str, ...], suffix: str
) -> None:
    for name in (f"code/server.{suffix}", "code/server.R", "data.csv"):
        (base_folder / name).parent.mkdir(exist_ok=True)
        (base_folder / name).touch()
    for program in ("julia", "tclsh", "awk", "runner"):
        (base_folder / "bin").mkdir(exist_ok=True)
        (base_folder / "bin" / program).touch(mode=0o755)
    script = f"{base_folder}/code/server.{suffix}"
    argv = [word.format(code=script) for word in command_words]
    code_paths = read_code(*argv, cwd=base_folder, PATH=f"{base_folder}/bin")
    used = script if script in " ".join(argv) else f"{base_folder}/code/server.R"
    assert code_paths[used, Scope.ALL].is_program
    assert ("data.csv", "all") not in paths_below(base_folder, code_paths)


def test_settings_of_r_in_the_working_folder_are_code(base_folder: Path) -> None:
    (base_folder / "bin").mkdir()
    (base_folder / "bin" / "Rscript").touch(mode=0o755)
    (base_folder / "server.R").touch()
    (base_folder / ".Rprofile").touch()
    code_paths = read_code("Rscript", "server.R", cwd=base_folder, PATH=f"{base_folder}/bin")
    assert {("server.R", "all"), (".Rprofile", "all"), (".Renviron", "missing")} <= paths_below(
        base_folder, code_paths
    )


def test_a_program_that_a_variable_names_is_code(base_folder: Path) -> None:
    (base_folder / "browser").touch(mode=0o755)
    (base_folder / "data").touch(mode=0o644)
    variables = {"CHROME_PATH": f"{base_folder}/browser", "DATA": f"{base_folder}/data"}
    code_paths = paths_below(base_folder, read_code("/bin/true", cwd=Path("/"), **variables))
    assert code_paths == {("browser", "all")}


def test_packages_in_the_home_folder_are_code_of_python(base_folder: Path) -> None:
    argv = ("/usr/bin/python3", "/nonexistent.py")
    code_paths = read_code(*argv, cwd=Path("/"), HOME=str(base_folder))
    # Python would import `usercustomize` from a folder that is created there.
    assert (".local", "missing") in paths_below(base_folder, code_paths)
    packages = base_folder / ".local" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    code_paths = read_code(*argv, cwd=Path("/"), HOME=str(base_folder))
    assert {
        (".local/lib", "names"),
        (".local/lib/python3.11/site-packages", "all"),
    } <= paths_below(base_folder, code_paths)


def test_all_folders_of_path_are_code(base_folder: Path) -> None:
    (base_folder / "bin").mkdir()
    search = f"{base_folder}/bin:{base_folder}/none:{SYSTEM_PATH}:"
    code_paths = read_code("python3", "-c", "1", cwd=base_folder, PATH=search)
    assert paths_below(base_folder, code_paths) == {
        ("bin", "names"),
        ("none", "missing"),
        (".", "names"),
    }
    assert code_paths[f"{base_folder}/bin", Scope.NAMES].is_program, "the program is searched there"
    assert f"mkdir -p {base_folder}/none" in code_paths[f"{base_folder}/none", Scope.MISSING].fix
    code_paths = read_code("/usr/bin/python3", "-Ic", "1", cwd=base_folder, PATH=search)
    assert not code_paths[f"{base_folder}/bin", Scope.NAMES].is_program


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
    base_folder: Path, argv: tuple[str, ...], imports: bool
) -> None:
    for name in ("python3", "perl", "java"):
        (base_folder / "bin").mkdir(exist_ok=True)
        (base_folder / "bin" / name).touch(mode=0o755)
    cwd = base_folder / "work"
    cwd.mkdir()
    code_paths = read_code(*argv, cwd=cwd, PATH=f"{base_folder}/bin")
    assert ((str(cwd), Scope.NAMES) in code_paths) is imports
    code_paths = read_code(*argv, cwd=cwd, PATH=f"{base_folder}/bin", PYTHONSAFEPATH="1")
    assert ((str(cwd), Scope.NAMES) in code_paths) is (imports and argv[0] != "python3")


def test_node_packages_are_searched_in_every_parent_folder(base_folder: Path) -> None:
    script = base_folder / "app" / "server" / "dist" / "index.js"
    script.parent.mkdir(parents=True)
    script.touch()
    (base_folder / "app" / "server" / "package.json").write_text("{}")
    (base_folder / "app" / "node_modules").mkdir()
    code_paths = paths_below(base_folder, read_code("/usr/bin/node", str(script), cwd=Path("/")))
    assert {
        ("app/server/dist/node_modules", "missing"),
        ("app/server/node_modules", "missing"),
        ("app/node_modules", "all"),
        ("node_modules", "missing"),
        ("app/server/dist/package.json", "missing"),
        ("app/server/package.json", "all"),
        ("app/server", "names"),
    } <= code_paths
    assert ("app/package.json", "missing") not in code_paths, (
        "only the nearest package.json belongs to the script"
    )


def test_package_json_is_not_searched_above_node_modules(base_folder: Path) -> None:
    package = base_folder / "node_modules" / "server"
    package.mkdir(parents=True)
    (package / "index.js").touch()
    code_paths = paths_below(
        base_folder, read_code("/usr/bin/node", str(package / "index.js"), cwd=Path("/"))
    )
    assert ("node_modules", "all") in code_paths and ("package.json", "missing") not in code_paths


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("PYTHONPATH", "{base_folder}/lib", ("lib", "names")),
        ("PYTHONHOME", "{base_folder}/lib", ("lib", "all")),
        ("PYTHONPYCACHEPREFIX", "{base_folder}/lib", ("lib", "names")),
        ("NODE_PATH", "/nonexistent:{base_folder}/lib", ("lib", "names")),
        ("NODE_OPTIONS", "--max-old-space-size=9 --require {base_folder}/lib", ("lib", "names")),
        ("NODE_OPTIONS", "--import={base_folder}/none.mjs", ("none.mjs", "missing")),
        ("GEM_HOME", "{base_folder}/lib", ("lib", "all")),
        ("RUBYLIB", "{base_folder}/lib", ("lib", "names")),
        ("RUBYOPT", "-I{base_folder}/lib", ("lib", "names")),
        ("BUNDLE_GEMFILE", "{base_folder}/lib/Gemfile", ("lib", "names")),
        ("PERL5LIB", "{base_folder}/lib", ("lib", "names")),
        ("LUA_PATH", "{base_folder}/lib/?.lua;;", ("lib", "names")),
        ("CLASSPATH", "{base_folder}/lib/*", ("lib", "names")),
        ("JAVA_TOOL_OPTIONS", "-javaagent:{base_folder}/lib", ("lib", "names")),
        ("LD_PRELOAD", "{base_folder}/none.so {base_folder}/lib", ("lib", "names")),
        ("LD_LIBRARY_PATH", "{base_folder}/lib", ("lib", "names")),
        ("BASH_ENV", "{base_folder}/lib", ("lib", "names")),
        ("GOMODCACHE", "{base_folder}/lib", ("lib", "all")),
        ("HOME", "{base_folder}/lib", ("lib", "names")),
        ("KUBECONFIG", "/nonexistent:{base_folder}/lib", ("lib", "names")),
        ("AWS_CONFIG_FILE", "{base_folder}/lib", ("lib", "names")),
        ("JULIA_PROJECT", "{base_folder}/none", ("none", "missing")),
        ("LUA_PATH", "?.lua", (".", "names")),
        ("LUA_CPATH_5_4", "./lib/?.so;;", ("lib", "names")),
        ("PYTHONPATH", "lib", ("lib", "names")),
        ("PYTHONPATH", "{base_folder}/later", ("later", "missing")),
    ],
)
def test_paths_in_variables_are_code(
    base_folder: Path, variable: str, value: str, expected: tuple[str, str]
) -> None:
    (base_folder / "lib").mkdir()
    text = value.format(base_folder=base_folder)
    code_paths = paths_below(
        base_folder, read_code("/bin/true", cwd=base_folder, **{variable: text})
    )
    assert expected in code_paths
    assert paths_below(base_folder, read_code("/bin/true", cwd=base_folder)) == set()


def test_values_of_variables_that_are_not_paths_are_not_code(base_folder: Path) -> None:
    variables = {
        "ENV": "production",
        "GOENV": "off",
        "LD_PRELOAD": "libx.so",
        "NODE_OPTIONS": "--a=1",
    }
    assert paths_below(base_folder, read_code("/bin/true", cwd=base_folder, **variables)) == set()


def test_arguments_of_the_program_are_not_code(base_folder: Path) -> None:
    (base_folder / "bin").mkdir()
    (base_folder / "data").mkdir()
    (base_folder / "server.py").touch()
    for tool in ("npx", "uvx", "python3"):
        (base_folder / "bin" / tool).touch(mode=0o755)
    data = str(base_folder / "data")
    for argv in (
        ("npx", "-y", "server", data),
        ("uvx", "server", "--root", data),
        ("python3", "-Im", "server", data),
        ("python3", "-I", str(base_folder / "server.py"), data),
        ("/bin/true", data),
    ):
        code_paths = read_code(*argv, cwd=Path("/"), PATH=f"{base_folder}/bin")
        assert not any(path == data for path, _ in code_paths), argv


def test_paths_of_pth_files_and_editable_installs_are_code(base_folder: Path) -> None:
    environment = make_environment(base_folder / ".venv")
    packages = environment / "lib" / "python3.11" / "site-packages"
    for name in ("src", "flat"):
        (base_folder / name).mkdir()
    (packages / "a.pth").write_text(f"# {base_folder}/none\n{base_folder}/src\n../../../../none\n")
    (packages / "b.pth").write_text("import __editable___b_finder; install()\n")
    (packages / "c.pth").write_text(f"import site; site.addsitedir('{base_folder}/site')\n")
    finder = f"MAPPING = {{'flat': '{base_folder}/flat', 'later': '{base_folder}/later'}}\n"
    (packages / "__editable___b_finder.py").write_text(finder)
    code_paths = paths_below(
        base_folder, read_code(f"{environment}/bin/python", "-Ic", "1", cwd=Path("/"))
    )
    assert {("src", "names"), ("flat", "names")} <= code_paths
    # Python would import `sitecustomize` from one of these as soon as it exists.
    assert {("none", "missing"), ("later", "missing"), ("site", "missing")} <= code_paths


def test_the_cache_of_uv_is_code_of_its_environments(base_folder: Path) -> None:
    environment = make_environment(base_folder / ".venv", "uv = 0.5.0\n")
    cache = base_folder / "cache"
    cache.mkdir()
    argv = (f"{environment}/bin/python", "-Ic", "1")
    code_paths = read_code(*argv, cwd=Path("/"), UV_CACHE_DIR=str(cache))
    assert (str(cache), Scope.ALL) in code_paths, (
        "the files of the environment are hard links to files in the cache"
    )


def test_the_stores_of_pnpm_and_conda_are_code(
    base_folder: Path,
) -> None:
    store = base_folder / "store" / "v3"
    store.mkdir(parents=True)
    modules = base_folder / "app" / "node_modules"
    modules.mkdir(parents=True)
    (base_folder / "app" / "server.js").touch()
    (modules / ".modules.yaml").write_text(f"layoutVersion: 5\nstoreDir: {store}\n")
    code_paths = paths_below(
        base_folder, read_code("/usr/bin/node", f"{base_folder}/app/server.js", cwd=Path("/"))
    )
    assert ("store/v3", "all") in code_paths
    environment = base_folder / "conda" / "envs" / "x"
    for name in ("bin", "lib", "conda-meta"):
        (environment / name).mkdir(parents=True)
    (environment / "bin" / "python").touch(mode=0o755)
    (base_folder / "conda" / "pkgs").mkdir()
    code_paths = paths_below(
        base_folder, read_code(f"{environment}/bin/python", "-Ic", "1", cwd=Path("/"))
    )
    assert {
        ("conda/pkgs", "all"),
        ("conda/envs/x", "fence"),
        ("conda/envs/x/lib", "all"),
    } <= code_paths


@pytest.mark.parametrize(
    ("tool", "variables", "store"),
    [
        ("uvx", {"XDG_CACHE_HOME": "{0}/xdg"}, "xdg/uv"),
        ("uvx", {"XDG_DATA_HOME": "{0}/xdg"}, "xdg/uv/tools"),
        ("uvx", {"XDG_CACHE_HOME": "{0}/xdg", "UV_CACHE_DIR": "{0}/own"}, "own"),
        ("deno", {"XDG_CACHE_HOME": "{0}/xdg"}, "xdg/deno"),
        ("pnpm", {"XDG_DATA_HOME": "{0}/xdg"}, "xdg/pnpm"),
        ("go", {"XDG_CACHE_HOME": "{0}/xdg"}, "xdg/go-build"),
    ],
)
def test_stores_of_tools_are_where_variables_say(
    base_folder: Path, tool: str, variables: dict[str, str], store: str
) -> None:
    (base_folder / "bin").mkdir()
    (base_folder / "bin" / tool).touch(mode=0o755)
    (base_folder / store).mkdir(parents=True)
    values = {name: value.format(base_folder) for name, value in variables.items()}
    code_paths = read_code(tool, "run", "x", cwd=Path("/"), PATH=f"{base_folder}/bin", **values)
    assert (store, "all") in paths_below(base_folder, code_paths)


@pytest.mark.parametrize("tool", ["npx", "uvx", "bundle", "cargo", "go", "deno", "bun", "mvn"])
def test_tools_read_settings_in_every_parent_folder(base_folder: Path, tool: str) -> None:
    (base_folder / "bin").mkdir()
    (base_folder / "bin" / tool).touch(mode=0o755)
    cwd = base_folder / "work"
    cwd.mkdir()
    code_paths = read_code(tool, "server", cwd=cwd, PATH=f"{base_folder}/bin")
    assert (str(cwd), Scope.UPWARD) in code_paths
    code_paths_from_root = read_code(
        tool, "--directory", str(cwd), "run", cwd=Path("/"), PATH=f"{base_folder}/bin"
    )
    assert (str(cwd), Scope.UPWARD) in code_paths_from_root


def test_a_shim_of_a_version_manager_reads_settings_in_parent_folders(base_folder: Path) -> None:
    (base_folder / "shims").mkdir()
    (base_folder / "shims" / "python3").touch(mode=0o755)
    code_paths = read_code(f"{base_folder}/shims/python3", "-Ic", "1", cwd=base_folder)
    assert (str(base_folder), Scope.UPWARD) in code_paths


def test_a_missing_command_is_missing_code(base_folder: Path) -> None:
    code_paths = read_code(f"{base_folder}/bin/server", cwd=Path("/"))
    assert paths_below(base_folder, code_paths) == {("bin", "missing")}


def test_the_code_of_the_host_is_its_python_its_modules_and_its_programs(base_folder: Path) -> None:
    bwrap = base_folder / "bwrap"
    bwrap.touch(mode=0o755)
    config = base_folder / "exthost.toml"
    config.touch()
    variables = {"PATH": SYSTEM_PATH, "HOME": "/nonexistent"}
    code_paths = CodeReader().read_host(variables, (str(bwrap), ""), str(config))
    paths = {item.path for item in code_paths}
    assert {str(bwrap), str(config)} <= paths
    assert os.path.realpath(f"{sys.prefix}/lib") in paths
    assert os.path.realpath(f"{sys.base_prefix}/lib") in paths
    for path in sys.path:
        if os.path.isdir(path or "."):  # noqa: PTH112
            assert os.path.realpath(path or ".") in paths
