"""A pin of the program is a pin of the code that runs, however the command starts it: changed code
is refused, or the pin is refused with the reason."""

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

CHILD = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    result = [] if asked["method"] == "capabilities" else asked["params"]
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""

SHELL_CHILD = """
while read -r line; do
    id=${line#*\\"id\\":}; id=${id%%[,\\}]*}
    printf '{"id": %s, "result": []}\\n' "$id"
done
"""

NODE_CHILD = """
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
    const asked = JSON.parse(line);
    const result = asked.method === "capabilities" ? [] : asked.params;
    console.log(JSON.stringify({id: asked.id, result}));
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


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the same extension in several forms."""
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    folder = tmp_path / "place"
    for name in ("app", "package/deep", "space/inner", "node_app", "elsewhere"):
        (folder / name).mkdir(parents=True)
    for name in (
        *("run.py", "module.py", "app/__main__.py", "package/deep/main.py", "elsewhere/run.py"),
        *("space/inner/main.py", "elsewhere/remote.py"),
    ):
        (folder / name).write_text(CHILD)
    # All modules are imported before the first request: Python compiles none of them later.
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


# A command, and a file whose change must be noticed.
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


async def start(command: list[str], place: Path, **settings: Any) -> dict[str, str]:
    bus, spawned = Bus(), list[Spawned]()
    bus.subscribe(Spawned, spawned.append)
    connection = exthost.connect(
        command, dialect="morphir", cwd=str(place), events=bus, limits=LIMITS, **settings
    )
    try:
        async with connection as ext:
            return ext.digests
    except Refused as refused:
        assert not spawned, refused
        raise


# A busy machine starts java in seconds.
LIMITS: Any = {"start": "120s", "handshake": "120s"}


def resolved(command: str) -> list[str]:
    words = command.split()
    if "/" not in words[0]:
        found = shutil.which(words[0])
        assert found, f"{words[0]} is needed for this test"
        words[0] = found
    return words


def env_s(command: str) -> list[str]:
    return ["/usr/bin/env", "-S", command]


@pytest.mark.sampled
@pytest.mark.parametrize(("command", "file"), COMMANDS)
async def test_changed_code_is_refused_however_it_is_started(
    command: str, file: str, place: Path
) -> None:
    words = resolved(command)
    pins = {"program": (await start(words, place))["program"]}
    await start(words, place, sha256=pins)
    text = (place / file).read_text()
    (place / file).write_text(text + "\n")
    with pytest.raises(Refused) as caught:
        await start(words, place, sha256=pins)
    assert caught.value.code == "X0386" and file.split("/")[0] in caught.value.evidence.path
    (place / file).write_text(text)
    await start(words, place, sha256=pins)


async def test_a_string_of_env_is_looked_through(place: Path) -> None:
    words = env_s(f"A=1 {PYTHON} -m module")
    pins = {"program": (await start(words, place))["program"]}
    await start(words, place, sha256=pins)
    (place / "module.py").write_text(CHILD + "# changed\n")
    with pytest.raises(Refused) as caught:
        await start(words, place, sha256=pins)
    assert caught.value.code == "X0386"


async def test_a_module_that_comes_earlier_in_the_search_path_is_refused(place: Path) -> None:
    words = ["/usr/bin/env", "PYTHONPATH=elsewhere", PYTHON, "-m", "remote"]
    pins = {"program": (await start(words, place))["program"]}
    (place / "remote.py").write_text(CHILD + "# another\n")
    with pytest.raises(Refused) as caught:
        await start(words, place, sha256=pins)
    assert caught.value.code == "X0386"
    assert caught.value.evidence.path == str(place / "remote.py")


async def test_compiled_code_of_a_pinned_module_is_part_of_the_pin(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    words = [PYTHON, "-m", "module"]
    pins = {"program": (await start(words, place))["program"]}
    (compiled,) = (place / "__pycache__").glob("module.*.pyc")
    # The header stays, so Python takes it for the compiled form of the source.
    evil = compile(CHILD + "print('evil')", "module.py", "exec")
    compiled.write_bytes(compiled.read_bytes()[:16] + marshal.dumps(evil))
    with pytest.raises(Refused, match=r"module\..*pyc has changed|not the one that was pinned"):
        await start(words, place, sha256=pins)


# Commands whose code is not known, and a word of the reason.
UNKNOWN = [
    ("sh -c 'exec ./server'", "text"),
    ("bash -lc ./server", "text"),
    ("bash -l run.sh", "further code"),
    (f"{PYTHON} -c pass", "text"),
    (f"{PYTHON} -", "stdin"),
    (f"{PYTHON} -m pdb run.py", "its arguments name"),
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


@pytest.mark.parametrize(("command", "reason"), UNKNOWN)
async def test_a_pin_of_code_that_is_not_known_is_refused(
    command: str, reason: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("npx", "npm", "uvx", "uv", "docker", "pnpm", "bunx", "pipx", "sudo", "xargs"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    for pin in ("0" * 64, {"program": "0" * 64}):
        with pytest.raises(Refused) as caught:
            await start(shlex.split(command), place, sha256=pin)
        error = caught.value
        assert error.code == "X0341" and error.exit_code == 4 and reason in error.message, error
        assert error.help and error.evidence.key == "sha256.program"


async def test_the_digests_have_no_program_if_it_cannot_be_pinned(place: Path) -> None:
    digests = await start(["sh", "-c", "exec ./server"], place)
    assert "program" not in digests and {"interpreter", "package"} <= set(digests)
    # The package can be pinned in its place, as the help says.
    await start(["sh", "-c", "exec ./server"], place, sha256={"package": digests["package"]})


async def test_a_program_of_the_extension_may_have_the_name_of_a_wrapper(place: Path) -> None:
    (place / "server").rename(place / "time")
    pins = {"program": (await start(["./time", "-x"], place))["program"]}
    (place / "time").write_text((place / "time").read_text() + "# changed\n")
    with pytest.raises(Refused) as caught:
        await start(["./time", "-x"], place, sha256=pins)
    assert Path(caught.value.evidence.path).samefile(place / "time")


async def test_a_link_to_an_interpreter_is_an_interpreter(place: Path) -> None:
    (place / "runtime").symlink_to("/usr/bin/python3")
    words = ["./runtime", "-m", "module"]
    pins = {"program": (await start(words, place))["program"]}
    (place / "module.py").write_text(CHILD + "# changed\n")
    with pytest.raises(Refused) as caught:
        await start(words, place, sha256=pins)
    assert caught.value.code == "X0386"


async def test_the_first_line_of_a_pinned_script_does_not_lead_elsewhere(place: Path) -> None:
    (place / "server").write_text(f"#!/usr/bin/env -S {PYTHON} -m module\n")
    with pytest.raises(Refused) as caught:
        await start(["./server"], place, sha256="0" * 64)
    assert caught.value.code == "X0341" and "module" in caught.value.message


async def test_the_interpreter_behind_a_wrapper_is_pinned(place: Path) -> None:
    words = ["/usr/bin/timeout", "600", PYTHON, "run.py"]
    digests = await start(words, place)
    pins = {name: digests[name] for name in ("program", "interpreter")}
    await start(words, place, sha256=pins)
    with pytest.raises(Refused) as caught:
        await start(words, place, sha256={**pins, "interpreter": "0" * 64})
    assert caught.value.evidence.path == str(Path(PYTHON).resolve())


def test_python_itself_finds_the_module_where_the_pin_looks(place: Path) -> None:
    for module in ("module", "package.deep.main", "space.inner.main", "json.tool", "pytest"):
        code = find_code([PYTHON, "-m", module], str(place), {"PYTHONPATH": "elsewhere"})
        if module == "pytest":
            assert code.reason
            continue
        script = f"import importlib.util as u; print(u.find_spec({module!r}).origin)"
        origin = subprocess.run(
            [PYTHON, "-c", script], cwd=place, capture_output=True, text=True, check=True
        ).stdout.strip()
        assert origin == code.path or origin.startswith(f"{code.path}/")
