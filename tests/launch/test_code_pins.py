"""Pins of the code that a command runs.

A pin is a SHA-256 digest in the config (`sha256.program`). Before each start, the host computes the
digest of the code. If the code has changed, the start is refused (X0386). If the host cannot know
which code a command runs, the pin is refused (X0341).
"""

import marshal
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import Refused
from exthost.events import Bus, Spawned
from exthost.launch.command_code import find_code

# Four morphir extensions without tools, in different languages.

CHILD = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = [] if request["method"] == "capabilities" else request["params"]
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""

SHELL_CHILD = """
while read -r line; do
    id=${line#*\\"id\\":}; id=${id%%[,\\}]*}
    printf '{"id": %s, "result": []}\\n' "$id"
done
"""

NODE_CHILD = """
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
    const request = JSON.parse(line);
    const result = request.method === "capabilities" ? [] : request.params;
    console.log(JSON.stringify({id: request.id, result}));
});
"""

JAVA_CHILD = """
class Run {
    public static void main(String[] args) throws Exception {
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            var id = java.util.regex.Pattern.compile("\\"id\\":\\\\s*([0-9]+)").matcher(line);
            id.find();
            System.out.println("{\\"id\\": " + id.group(1) + ", \\"result\\": []}");
        }
    }
}
"""

PYTHON = sys.executable

# Starting java takes seconds on a busy machine.
LIMITS: Any = {"start": "120s", "handshake": "120s"}


@pytest.fixture
def code_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the same extension in several forms."""
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    folder = tmp_path / "place"
    for name in ("app", "package/deep", "space/inner", "node_app", "elsewhere"):
        (folder / name).mkdir(parents=True)
    for name in (
        *("run.py", "module.py", "app/__main__.py", "package/deep/main.py", "elsewhere/run.py"),
        *("space/inner/main.py", "elsewhere/remote.py"),
    ):
        (folder / name).write_text(CHILD)
    # All modules are imported before the first request, so Python compiles none of them later.
    for name in ("package/__init__.py", "package/deep/__init__.py"):
        (folder / name).write_text("")
    (folder / "package/__main__.py").write_text("from package.deep import main\n")
    (folder / "run.sh").write_text(SHELL_CHILD)
    (folder / "node_app" / "index.js").write_text(NODE_CHILD)
    (folder / "main.js").write_text(NODE_CHILD)
    (folder / "Run.java").write_text(JAVA_CHILD)
    server = folder / "server"
    server.write_text(f"#!{PYTHON} -SE\n{CHILD}")
    server.chmod(0o755)
    return folder


# A command, and a file whose change must be detected.
COMMANDS = [
    (f"{PYTHON} -m module", "module.py"),
    (f"{PYTHON} -Bsm module", "module.py"),
    (f"{PYTHON} -mmodule", "module.py"),
    (f"{PYTHON} -m package", "package/deep/main.py"),
    (f"{PYTHON} -m package.deep.main", "package/__init__.py"),
    (f"{PYTHON} -m space.inner.main", "space/inner/main.py"),
    (f"{PYTHON} app", "app/__main__.py"),
    (f"{PYTHON} ./app/", "app/__main__.py"),
    (f"env PYTHONPATH=elsewhere {PYTHON} -m remote", "elsewhere/remote.py"),
    (f"env -C elsewhere {PYTHON} run.py", "elsewhere/run.py"),
    (f"timeout 600 {PYTHON} run.py", "run.py"),
    (f"timeout -k 5 --signal=TERM 600 {PYTHON} run.py", "run.py"),
    (f"stdbuf -oL {PYTHON} run.py", "run.py"),
    (f"nice -n 1 {PYTHON} run.py", "run.py"),
    (f"nice -1 {PYTHON} -m module", "module.py"),
    (f"setsid -w {PYTHON} run.py", "run.py"),
    (f"ionice -c 3 {PYTHON} run.py", "run.py"),
    (f"chrt -o 0 {PYTHON} run.py", "run.py"),
    (f"taskset -c 0 {PYTHON} run.py", "run.py"),
    (f"nohup {PYTHON} run.py", "run.py"),
    (f"prlimit --nofile=256 {PYTHON} run.py", "run.py"),
    (f"flock lock {PYTHON} run.py", "run.py"),
    (f"setpriv --no-new-privs {PYTHON} run.py", "run.py"),
    (f"nice stdbuf -oL timeout 600 {PYTHON} -m package", "package/deep/main.py"),
    ("timeout 600 ./server", "server"),
    ("env ./server", "server"),
    ("sh run.sh", "run.sh"),
    pytest.param("node node_app", "node_app/index.js", marks=pytest.mark.more),
    pytest.param("node main", "main.js", marks=pytest.mark.more),
    pytest.param("java Run.java", "Run.java", marks=pytest.mark.more),
]


async def connect_and_read_digests(
    command: list[str], code_folder: Path, **settings: Any
) -> dict[str, str]:
    """Start the command as an extension, with settings such as `sha256`, the pins. Return the
    digests of its code. If it is refused, check that no process was started."""
    bus, spawned = Bus(), list[Spawned]()
    bus.subscribe(Spawned, spawned.append)
    connection = exthost.connect(
        command, dialect="morphir", cwd=str(code_folder), events=bus, limits=LIMITS, **settings
    )
    try:
        async with connection as ext:
            return ext.digests
    except Refused as refused:
        assert not spawned, refused
        raise


def split_command(command: str) -> list[str]:
    argv = command.split()
    if "/" not in argv[0]:
        program = shutil.which(argv[0])
        assert program, f"{argv[0]} is needed for this test"
        argv[0] = program
    return argv


def env_with_string(command: str) -> list[str]:
    return ["/usr/bin/env", "-S", command]


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize(("command", "file"), COMMANDS)
async def test_changed_code_is_refused_for_every_command(
    command: str, file: str, code_folder: Path
) -> None:
    argv = split_command(command)
    pins = {"program": (await connect_and_read_digests(argv, code_folder))["program"]}
    await connect_and_read_digests(argv, code_folder, sha256=pins)
    text = (code_folder / file).read_text()
    (code_folder / file).write_text(text + "\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(argv, code_folder, sha256=pins)
    assert caught.value.code == "X0386" and file.split("/")[0] in caught.value.evidence.path
    (code_folder / file).write_text(text)
    await connect_and_read_digests(argv, code_folder, sha256=pins)


async def test_the_command_in_a_string_of_env_is_pinned(code_folder: Path) -> None:
    argv = env_with_string(f"A=1 {PYTHON} -m module")
    pins = {"program": (await connect_and_read_digests(argv, code_folder))["program"]}
    await connect_and_read_digests(argv, code_folder, sha256=pins)
    (code_folder / "module.py").write_text(CHILD + "# changed\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(argv, code_folder, sha256=pins)
    assert caught.value.code == "X0386"


async def test_a_module_that_comes_earlier_in_the_search_path_is_refused(code_folder: Path) -> None:
    argv = ["/usr/bin/env", "PYTHONPATH=elsewhere", PYTHON, "-m", "remote"]
    pins = {"program": (await connect_and_read_digests(argv, code_folder))["program"]}
    (code_folder / "remote.py").write_text(CHILD + "# another\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(argv, code_folder, sha256=pins)
    assert caught.value.code == "X0386"
    assert caught.value.evidence.path == str(code_folder / "remote.py")


async def test_compiled_code_of_a_pinned_module_is_part_of_the_pin(
    code_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    argv = [PYTHON, "-m", "module"]
    pins = {"program": (await connect_and_read_digests(argv, code_folder))["program"]}
    (compiled,) = (code_folder / "__pycache__").glob("module.*.pyc")
    # The header stays the same, so Python uses the file as the compiled module.
    changed_code = compile(CHILD + "print('evil')", "module.py", "exec")
    compiled.write_bytes(compiled.read_bytes()[:16] + marshal.dumps(changed_code))
    with pytest.raises(Refused, match=r"module\..*pyc has changed|not the one that was pinned"):
        await connect_and_read_digests(argv, code_folder, sha256=pins)


# Commands whose code cannot be known, and a part of the reason.
UNKNOWN_CODE = [
    ("sh -c 'exec ./server'", "code other than a script"),
    ("bash -lc ./server", "code other than a script"),
    ("bash -l run.sh", "further code"),
    (f"{PYTHON} -c pass", "code other than a script"),
    (f"{PYTHON} -", "stdin"),
    (f"{PYTHON} -m pdb run.py", "its arguments name"),
    (f"{PYTHON} -m pytest", "its arguments name"),
    (f"{PYTHON} -m no_such_module", "no_such_module"),
    ("node -r ./main.js main.js", "further code"),
    ("node --import=./main.js main.js", "further code"),
    ("node --watch main.js", "change"),
    ("node --no_such_option main.js main.js", "--no_such_option"),
    ("env NODE_OPTIONS=--require=./main.js node main.js", "further code"),
    ("env BASH_ENV=run.sh bash run.sh", "BASH_ENV"),
    ("java -cp a.jar:b.jar Main", "class path"),
    ("java -javaagent:agent.jar -jar a.jar", "further code"),
    (f"xargs {PYTHON} run.py", "xargs"),
    (f"sudo -n {PYTHON} run.py", "sudo"),
    (f"./server --with {PYTHON} run.py", "may run"),
    ("npx -y some-server", "looks up the version"),
    ("npx some-server@latest", "looks up the version"),
    ("uvx some-server-that-is-not-installed", "not installed"),
    ("uv run some-command", "some-command"),
    ("docker run -i image", "docker"),
    ("npm run start", "package.json"),
    ("pnpm dlx x", "pnpm"),
    ("bunx x", "bunx"),
    ("pipx run x", "pipx"),
]


@pytest.mark.parametrize(("command", "reason"), UNKNOWN_CODE)
async def test_a_pin_of_code_that_cannot_be_known_is_refused(
    command: str, reason: str, code_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("npx", "npm", "uvx", "uv", "docker", "pnpm", "bunx", "pipx", "sudo", "xargs"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    for pin in ("0" * 64, {"program": "0" * 64}):
        with pytest.raises(Refused) as caught:
            await connect_and_read_digests(shlex.split(command), code_folder, sha256=pin)
        error = caught.value
        assert error.code == "X0341" and error.exit_code == 4 and reason in error.message, error
        assert error.help and error.evidence.key == "sha256.program"


async def test_the_digests_have_no_program_if_it_cannot_be_pinned(code_folder: Path) -> None:
    digests = await connect_and_read_digests(["sh", "-c", "exec ./server"], code_folder)
    assert "program" not in digests and {"interpreter", "package"} <= set(digests)
    # The package can be pinned instead.
    await connect_and_read_digests(
        ["sh", "-c", "exec ./server"], code_folder, sha256={"package": digests["package"]}
    )


async def test_a_program_of_the_extension_can_have_the_name_of_a_wrapper(code_folder: Path) -> None:
    (code_folder / "server").rename(code_folder / "time")
    pins = {"program": (await connect_and_read_digests(["./time", "-x"], code_folder))["program"]}
    (code_folder / "time").write_text((code_folder / "time").read_text() + "# changed\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(["./time", "-x"], code_folder, sha256=pins)
    assert Path(caught.value.evidence.path).samefile(code_folder / "time")


async def test_a_link_to_an_interpreter_counts_as_an_interpreter(code_folder: Path) -> None:
    (code_folder / "runtime").symlink_to("/usr/bin/python3")
    argv = ["./runtime", "-m", "module"]
    pins = {"program": (await connect_and_read_digests(argv, code_folder))["program"]}
    (code_folder / "module.py").write_text(CHILD + "# changed\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(argv, code_folder, sha256=pins)
    assert caught.value.code == "X0386"


async def test_a_shebang_line_that_runs_other_code_cannot_be_pinned(code_folder: Path) -> None:
    (code_folder / "server").write_text(f"#!/usr/bin/env -S {PYTHON} -m module\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(["./server"], code_folder, sha256="0" * 64)
    assert caught.value.code == "X0341" and "module" in caught.value.message


async def test_the_interpreter_behind_a_wrapper_is_pinned(code_folder: Path) -> None:
    argv = ["/usr/bin/timeout", "600", PYTHON, "run.py"]
    digests = await connect_and_read_digests(argv, code_folder)
    pins = {name: digests[name] for name in ("program", "interpreter")}
    await connect_and_read_digests(argv, code_folder, sha256=pins)
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(argv, code_folder, sha256={**pins, "interpreter": "0" * 64})
    assert caught.value.evidence.path == str(Path(PYTHON).resolve())


def test_the_pinned_module_is_the_module_that_python_finds(code_folder: Path) -> None:
    for module in ("module", "package.deep.main", "space.inner.main", "json.tool"):
        code = find_code([PYTHON, "-m", module], str(code_folder), {"PYTHONPATH": "elsewhere"})
        script = f"import importlib.util as u; print(u.find_spec({module!r}).origin)"
        origin = subprocess.run(
            [PYTHON, "-c", script], cwd=code_folder, capture_output=True, text=True, check=True
        ).stdout.strip()
        assert origin == code.path or origin.startswith(f"{code.path}/")
