"""Which code a command runs, found without running it, so that its digest can be compared.

In `timeout 60 python3 run.py`, timeout is a wrapper, python3 an interpreter, and run.py the code.
The certainty of the result is one of these:

    named     the command names the file
    searched  the code was searched for as the program would do it, for example after `-m`
    unknown   the code cannot be known; then there is a reason and an advice
"""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from exthost.launch.command_code import Certainty, CodeKind, ProgramCode, find_code

FILES = (
    *("run.py", "run.rb", "run.pl", "run.php", "run.lua", "run.sh", "main.js", "main.ts", "a.jar"),
    *("Main.java", "app.dll", "data.txt", "sub/run.py", "sub/main.ts", "tool", "x", "app/index.js"),
    *("run.jl", "run.ps1"),
)


@pytest.fixture
def code_folder(tmp_path: Path) -> Path:
    """A folder with FILES, which are empty, and a folder `bin` with programs, for PATH."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("uv", "timeout", "nice", "chrt", "docker", "time", "julia", "pwsh", "watch"):
        (programs / name).touch()
        (programs / name).chmod(0o755)
    return tmp_path


def code_of(command: str, code_folder: Path, **variables: str) -> ProgramCode:
    return find_code(
        shlex.split(command), str(code_folder), {"PATH": f"{code_folder}/bin:/bin", **variables}
    )


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python3 -- run.py", "run.py"),
        ("python3.13t -X dev -Wignore run.py data.txt", "run.py"),
        ("pypy3 run.py", "run.py"),
        ("ruby -w -Ilib run.rb", "run.rb"),
        ("ruby -C sub run.py", "sub/run.py"),
        ("perl -w -Ilib run.pl", "run.pl"),
        ("php -d a=b -f run.php", "run.php"),
        ("php run.php", "run.php"),
        ("lua run.lua", "run.lua"),
        ("bash -eu -o pipefail run.sh", "run.sh"),
        ("bash --norc +o history run.sh", "run.sh"),
        ("node --title data.txt --max-old-space-size=99 main.js", "main.js"),
        ("node -- main.js", "main.js"),
        ("nodejs app", "app"),
        ("tsx main.ts", "main.ts"),
        ("deno run -A --allow-net=x main.ts", "main.ts"),
        ("deno main.ts", "main.ts"),
        ("bun run main.ts", "main.ts"),
        ("bun --cwd sub main.ts", "sub/main.ts"),
        ("java -Xmx1g -jar a.jar x", "a.jar"),
        ("java -jar -Dx=y a.jar", "a.jar"),
        ("java -cp a.jar com.example.Main", "a.jar"),
        ("java Main.java", "Main.java"),
        ("dotnet app.dll", "app.dll"),
        ("uv run run.py", "run.py"),
        ("uv --directory sub run --with x run.py", "sub/run.py"),
        ("uv run --directory=sub python -u run.py", "sub/run.py"),
        ("timeout 5 nice -n 5 chrt -f 10 ./tool", "tool"),
        ("nice -5 ./tool", "tool"),
        ("timeout -s KILL -- 5 ./tool", "tool"),
        ("env -i A=b -- ./tool", "tool"),
        ("env - ./tool", "tool"),
        ("env -S './tool x' y", "tool"),
        ("env -S '-i A=b ./tool x' y", "tool"),
        ("./time x", "time"),
        ("./tool run.jl", "tool"),
        ("julia data.txt", "bin/julia"),
    ],
)
def test_a_command_that_names_its_code(command: str, path: str, code_folder: Path) -> None:
    if path == "time":
        (code_folder / "time").touch()
    code = code_of(command, code_folder)
    assert code.certainty is Certainty.NAMED and not code.reason, code
    assert Path(code.path) == code_folder / path
    assert code.kind is (CodeKind.FOLDER if path == "app" else CodeKind.FILE)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("python3", "stdin"),
        ("python3 -i run.py", "stdin"),
        ("python3 --unknown run.py", "--unknown"),
        ("python3 -W", "no value"),
        ("python3 -m ../x", "not the name of a module"),
        ("pypy3 -m x", "pypy"),
        ("ruby -rjson run.rb", "further code"),
        ("ruby -S rake", "other than a script"),
        ("perl -MEvil run.pl", "further code"),
        ("perl -we 1", "other than a script"),
        ("lua -l x run.lua", "further code"),
        ("php -r 1", "other than a script"),
        ("bash -s", "stdin"),
        ("bash -i run.sh", "further code"),
        ("sh -ec ./tool", "other than a script"),
        ("node -e 1", "other than a script"),
        ("node --experimental-loader ./main.js main.js", "further code"),
        ("node --test", "other than a script"),
        ("node --env-file data.txt main.js", "further code"),
        ("chrt -b ./tool ./x", "./tool"),
        ("timeout soon ./tool", "soon"),
        ("nice 5 ./tool", "PATH"),
        ("tsx watch main.ts", "change"),
        ("bun x", "command of bun"),
        ("bun run x", "package.json"),
        ("bun --hot main.ts", "change"),
        ("deno run npm:some-server", "not a file"),
        ("deno run https://example.org/x.ts", "not a file"),
        ("deno task x", "command of deno"),
        ("dotnet run", "command of dotnet"),
        ("java Main", "class path"),
        ("java -cp a.jar:app Main", "class path"),
        ("java @arguments", "from a file"),
        ("java -m x/y", "java"),
        ("uv run tool", "uv"),
        ("uv run -m x", "-m"),
        ("uv sync", "uv"),
        ("timeout --unknown 5 ./tool", "--unknown"),
        ("timeout 5", "no command"),
        ("timeout 5 no-such-program", "PATH"),
        ("env -S '${X} y'", "special meaning"),
        ('env -S "\'"', "cannot be read"),
        ("flock -c ./tool data.txt", "other than a script"),
        ("docker run image", "docker"),
        ("nice " * 9 + "./tool", "wrappers"),
        ("./tool python3 run.py", "tool may run"),
        ("julia run.jl", "julia may run"),
        ("pwsh -File=run.ps1", "pwsh may run"),
        ("watch ./run.sh", "watch may run"),
    ],
)
def test_a_command_whose_code_cannot_be_known(command: str, reason: str, code_folder: Path) -> None:
    code = code_of(command, code_folder)
    assert code.certainty is Certainty.UNKNOWN and reason in code.reason, code
    assert not code.path and code.advice and not code.is_certain


@pytest.mark.parametrize(
    ("command", "variable", "value"),
    [
        ("node main.js", "NODE_OPTIONS", "--require ./x.js"),
        ("ruby run.rb", "RUBYOPT", "-rx"),
        ("perl run.pl", "PERL5OPT", "-Mx"),
        ("java -jar a.jar", "JAVA_TOOL_OPTIONS", "-javaagent:x.jar"),
        ("bash run.sh", "BASH_ENV", "run.sh"),
        ("lua run.lua", "LUA_INIT", "@x.lua"),
        ("dotnet app.dll", "DOTNET_STARTUP_HOOKS", "x.dll"),
    ],
)
def test_a_variable_that_loads_further_code_makes_the_code_uncertain(
    command: str, variable: str, value: str, code_folder: Path
) -> None:
    assert code_of(command, code_folder).is_certain
    assert not code_of(command, code_folder, **{variable: value}).is_certain


@pytest.mark.parametrize(
    ("command", "file"),
    [("bun main.ts", "bunfig.toml"), ("bun --cwd sub main.ts", "sub/bunfig.toml"),
     ("ts-node main.ts", "tsconfig.json"), ("Rscript run.rb", ".Rprofile")],
)  # fmt: skip
def test_a_settings_file_that_loads_further_code_makes_the_code_uncertain(
    command: str, file: str, code_folder: Path
) -> None:
    assert code_of(command, code_folder).is_certain
    (code_folder / file).touch()
    code = code_of(command, code_folder)
    assert not code.is_certain and file in code.reason


def test_a_program_of_the_extension_with_the_name_of_a_wrapper_is_not_a_wrapper(
    code_folder: Path,
) -> None:
    (code_folder / "sub" / "time").touch()
    assert Path(code_of("./sub/time x", code_folder).path) == code_folder / "sub" / "time"
    outside = find_code(
        [f"{code_folder}/sub/time", f"{code_folder}/tool"], str(code_folder / "app"), {}
    )
    assert outside.path == f"{code_folder}/tool" and outside.wrappers == ("time",)


def test_variables_set_by_env_are_used(code_folder: Path) -> None:
    (code_folder / "sub" / "only.py").touch()
    command = f"{sys.executable} -m only"
    assert not code_of(command, code_folder).is_certain
    code = code_of(f"env PYTHONPATH=sub {command}", code_folder)
    assert Path(code.path) == code_folder / "sub" / "only.py" and code.wrappers == ("env",)
    assert not code_of(f"env -u PYTHONPATH {command}", code_folder, PYTHONPATH="sub").is_certain
    assert not code_of(f"env -i {command}", code_folder, PYTHONPATH="sub").is_certain


# -- modules ---------------------------------------------------------------------------------------

LAYOUTS = {
    "a file": ["mod.py"],
    "a package": ["mod/__init__.py", "mod/__main__.py"],
    "a package and a file": ["mod.py", "mod/__init__.py", "mod/__main__.py"],
    "a namespace": ["mod/__main__.py"],
    "a file and a namespace": ["mod/__main__.py", "mod.py"],
    "a later file": ["later/mod.py", "mod/x.py"],
    "only byte code": ["mod.pyc"],
}


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("options", [[], ["-P"], ["-E"], ["-I"], ["-s", "-S"]])
def test_the_module_found_is_the_module_that_python_runs(
    layout: str, options: list[str], tmp_path: Path
) -> None:
    (tmp_path / "later").mkdir()
    for name in LAYOUTS[layout]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith(".pyc"):
            (tmp_path / "source.py").write_text("print('ran', __file__)\n")
            compile_code = f"import py_compile; py_compile.compile('source.py', {name!r})"
            subprocess.run([sys.executable, "-c", compile_code], cwd=tmp_path, check=True)
        else:
            path.write_text("" if name.endswith("__init__.py") else "print('ran', __file__)\n")
    env = {"PYTHONPATH": "later", "PATH": "/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *options, "-m", "mod"]
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    code = find_code(command, str(tmp_path), env)
    if result.returncode:
        assert not code.is_certain, (code, result.stdout)
        return
    path_run = Path(tmp_path, result.stdout.split()[1])
    assert code.kind is CodeKind.MODULE and code.certainty is Certainty.SEARCHED
    assert path_run.is_relative_to(code.path), (path_run, code)


def test_a_module_of_a_virtual_environment_is_found(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    (site / "installed.py").write_text("print(__file__)\n")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "editable.py").write_text("print(__file__)\n")
    (site / "editable.pth").write_text(f"import sys\n# a comment\n{tmp_path}/linked\n")
    for module in ("installed", "editable"):
        command = [str(environment / "bin" / "python"), "-m", module]
        path_run = subprocess.run(
            command, cwd=tmp_path, env={}, capture_output=True, text=True, check=True
        ).stdout.strip()
        assert find_code(command, str(tmp_path), {}).path == path_run
    # A Python outside the environment does not find the module.
    assert not find_code([sys.executable, "-m", "installed"], str(tmp_path), {}).is_certain


def test_the_module_of_a_version_manager_python_cannot_be_known(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text("#!/bin/sh\nexec /usr/bin/python3\n")
    shim.chmod(0o755)
    (tmp_path / "mod.py").touch()
    code = find_code([str(shim), "-m", "mod"], str(tmp_path), {})
    assert not code.is_certain and "which Python" in code.reason
    for variable in ("PYTHONHOME", "PYTHONPLATLIBDIR"):
        command = [sys.executable, "-m", "mod"]
        assert not find_code(command, str(tmp_path), {variable: "x"}).is_certain
        isolated = [sys.executable, "-E", "-m", "mod"]
        assert find_code(isolated, str(tmp_path), {variable: "x"}).is_certain


def test_an_archive_in_the_search_path_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "code.zip").touch()
    (tmp_path / "mod.py").touch()
    env = {"PYTHONPATH": "code.zip"}
    command = [sys.executable, "-P", "-m", "mod"]
    assert "archive" in find_code(command, str(tmp_path), env).reason
