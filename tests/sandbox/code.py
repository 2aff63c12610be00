"""Sandbox trials: code in a folder that another extension may write.

In each trial an extension, the writer, has a whole project granted with `:rw`. Another extension
without a sandbox, the victim, runs code from the project. The writer tries to change this code, and
then the victim is restarted. If code of the writer runs in the victim, it creates the file `mark`
outside of the project. Where the host cannot protect the code, it must refuse the extension that
comes later.

A trial is a test that runs as root and as an ordinary user. Both extensions are explorers:
`explore(extension, code, **facts)` runs code in them and returns its variable `result`.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import ExthostError, Refused
from exthost.extension.extension import Extension
from tests.extensions.harness import error_of, wait_until
from tests.sandbox.confined import EXPLORER, explore, folder, shared_folder, system_explorer
from tests.sandbox.programs import needs
from tests.sandbox.trials import trial

PYTHON = "/usr/bin/python3"

# Code for the writer: it renames folders, and writes files where the code was.
ATTACK = """
    import os
    result = []
    def attempt(work, *words):
        try:
            work(*words)
            return True
        except OSError:
            return False
    for path in facts["moved"]:
        if attempt(os.rename, path, path + ".away"):
            result.append("moved " + path)
    for path, text in facts["planted"].items():
        attempt(os.makedirs, os.path.dirname(path))
        attempt(os.unlink, path)
        try:
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)
            result.append("wrote " + path)
        except OSError:
            pass
"""


class Project:
    """A project whose file modes let every user write, and a folder outside of it.

    root   the project, which is granted to the writer
    mark   a file outside, which exists if code of the writer has run in the victim
    """

    def __init__(self, root: Path, outside: Path) -> None:
        self.root = root
        self.outside = outside
        self.mark = outside / "mark"
        self.writer = system_explorer(outside / "writer" / "run")

    def file(self, name: str, text: str = "", *, executable: bool = False) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o777 if executable else 0o666)
        self.open_up()
        return path

    def folder(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        self.open_up()
        return path

    def environment(self, name: str = ".venv") -> Path:
        """Make a virtual environment as `python3 -m venv` does, without its programs."""
        path = self.root / name
        version = subprocess.run(
            [PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.strip()
        (path / "bin").mkdir(parents=True)
        for python in ("python", "python3"):
            (path / "bin" / python).symlink_to(PYTHON)
        (path / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
        (path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3\n")
        self.open_up()
        return path

    def site_packages(self, environment: Path) -> Path:
        return next(environment.glob("lib/python3*/site-packages"))

    def open_up(self) -> None:
        """Let every user read and write the files of the project."""
        for path in (self.root, *self.root.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o666))

    def python(self) -> str:
        return f"open({str(self.mark)!r}, 'w').close()\n"

    def shell(self) -> str:
        return f'#!/bin/sh\ntouch {self.mark}\nexec {PYTHON} "$@"\n'

    def javascript(self) -> str:
        return f'require("fs").writeFileSync({json.dumps(str(self.mark))}, "");\n'

    def entries(self, victim: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the entries of a config: the writer, and a victim with these settings."""
        defaults = {"dialect": "morphir", "start": "eager", "restart": {"strategy": "never"}}
        permissions = {"filesystem": [f"{self.root}:rw"]}
        source = {"command": str(self.writer)}
        cwd = str(self.outside)
        writer = {"name": "writer", "source": source, "permissions": permissions, **defaults}
        return [{**writer, "cwd": cwd}, {"name": "victim", "cwd": cwd, **defaults, **victim}]


@contextmanager
def project() -> Iterator[Project]:
    with shared_folder() as root, shared_folder() as outside:
        yield Project(root, outside)


def host_environ(place: Project, **variables: str) -> dict[str, str]:
    defaults = {"HOME": str(place.outside), "EXTHOST_HOME": str(place.outside / "state")}
    return {**os.environ, **defaults, **variables}


async def check_protected(
    place: Project,
    victim: dict[str, Any],
    planted: dict[Path, str],
    *,
    moved: tuple[Path, ...] = (),
    environ: dict[str, str] | None = None,
) -> None:
    """Check that both extensions run, in either order, that the writer can write other files of the
    project, and that no file that it plants runs in the victim."""
    variables = host_environ(place) if environ is None else environ
    for order in (1, -1):
        entries = place.entries(victim)[::order]
        async with exthost.Host.from_config({"extensions": entries}, environ=variables) as host:
            states = {ext.id: (ext.state, ext.cause) for ext in host.extensions}
            assert all(state == "ready" for state, _ in states.values()), states
            writer, victim_extension = host["writer"], host["victim"]
            assert await explore(writer, WRITE_FREELY, place=str(place.root)) == "written"
            succeeded = await attack(writer, planted, moved)
            await victim_extension.restart()
            assert victim_extension.state == "ready" and not place.mark.exists(), succeeded
            assert not succeeded, succeeded
            protected = [item["path"] for item in writer.enforced["closed"]]
            assert protected, "protected paths are reported"


# Code for the writer: it makes, renames and removes a file of its own in the project.
WRITE_FREELY = """
    import os
    path = facts["place"] + "/its own"
    with open(path, "w") as file:
        file.write("text")
    os.rename(path, path + ".moved")
    os.remove(path + ".moved")
    result = "written"
"""


async def attack(
    writer: Extension, planted: dict[Path, str], moved: tuple[Path, ...] = ()
) -> list[str]:
    """Let the writer rename paths and write files, and return what it could do."""
    texts = {str(path): text for path, text in planted.items()}
    succeeded = await explore(writer, ATTACK, planted=texts, moved=[str(path) for path in moved])
    assert isinstance(succeeded, list), succeeded
    return succeeded


async def check_refused(
    place: Project,
    victim: dict[str, Any],
    expected: str,
    *,
    environ: dict[str, str] | None = None,
) -> None:
    """Check that the later of the two extensions is refused, in either order, with this help."""
    variables = host_environ(place) if environ is None else environ
    for order in (1, -1):
        entries = place.entries(victim)[::order]
        for entry in entries:
            entry["start"] = "lazy"
        async with exthost.Host.from_config({"extensions": entries}, environ=variables) as host:
            first, last = (host[entry["name"]] for entry in entries)
            assert first.state == "admitted", first.cause
            assert last.state == "refused" and isinstance(last.cause, Refused), last.state
            assert last.cause.code == "X0396", last.cause
            assert expected in last.cause.help, last.cause.help


# -- Python --------------------------------------------------------------------------------------


@trial
async def an_environment_in_a_project_is_protected_from_writers_of_the_project() -> None:
    with project() as place:
        environment = place.environment()
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        packages = place.site_packages(environment)
        planted = {
            packages / "x.pth": f"import os; {place.python()}",
            packages / "sitecustomize.py": place.python(),
            environment / "pyvenv.cfg": f"home = {place.root}/bin\n",
            environment / "bin" / "python": place.shell(),
        }
        moved = (environment, packages, packages.parent.parent)
        command = str(environment / "bin" / "python")
        await check_protected(
            place, {"source": {"command": command, "args": [str(script)]}}, planted, moved=moved
        )


@trial
async def a_module_of_a_protected_environment_runs_by_its_name() -> None:
    with project() as place:
        environment = place.environment("sub/deep/.venv")
        packages = place.site_packages(environment)
        (packages / "server.py").write_text(Path(EXPLORER[-1]).read_text())
        place.open_up()
        planted = {packages / "server.py": place.python(), packages / "json.py": place.python()}
        # With another parent folder, the writer could replace the environment.
        moved = (place.root / "sub", place.root / "sub" / "deep", environment)
        source = {"command": str(environment / "bin" / "python"), "args": ["-m", "server"]}
        await check_protected(place, {"source": source}, planted, moved=moved)


@trial
async def a_script_of_a_protected_environment_runs_by_its_first_line() -> None:
    with project() as place:
        environment = place.environment()
        for path in (place.outside / "bin" / "server", environment / "bin" / "server"):
            path.parent.mkdir(exist_ok=True)
            text = Path(EXPLORER[-1]).read_text()
            path.write_text(f"#!{environment}/bin/python3\n{text}")
            path.chmod(0o777)
            packages = place.site_packages(environment)
            planted = {
                packages / "x.pth": f"import os; {place.python()}",
                environment / "bin" / "server": place.shell(),
                environment / "bin" / "json.py": place.python(),
            }
            await check_protected(place, {"source": {"command": str(path)}}, planted)


@trial
async def a_program_on_path_is_protected() -> None:
    with project() as place:
        environment = place.environment()
        first = place.folder("tools")  # an empty folder that is before the environment in PATH
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        search = f"{first}:{environment}/bin:{os.environ['PATH']}"
        planted = {
            first / "python3": place.shell(),
            environment / "bin" / "python3": place.shell(),
            place.site_packages(environment) / "x.pth": f"import os; {place.python()}",
        }
        source = {"command": "python3", "args": [str(script)]}
        for variables, settings in (
            (host_environ(place, PATH=search), {}),
            (host_environ(place), {"env": {"PATH": search}}),
        ):
            victim = {"source": source, **settings}
            await check_protected(
                place, victim, planted, moved=(first, environment), environ=variables
            )


@trial
async def a_folder_of_path_that_does_not_exist_refuses_the_later_one() -> None:
    with project() as place:
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        search = f"{place.root}/bin:/usr/bin:/bin"
        victim = {"source": {"command": "python3", "args": [str(script)]}, "env": {"PATH": search}}
        await check_refused(place, victim, f"mkdir -p {place.root}/bin")
        place.folder("bin")
        await check_protected(place, victim, {place.root / "bin" / "python3": place.shell()})


@trial
async def folders_named_by_variables_are_protected() -> None:
    with project() as place:
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        modules = place.folder("lib/modules")
        planted = {modules / "json.py": place.python(), modules / "json" / "__init__.py": "1/0"}
        victim = {
            "source": {"command": PYTHON, "args": [str(script)]},
            "env": {"PYTHONPATH": str(modules)},
        }
        await check_protected(place, victim, planted, moved=(modules, modules.parent))
        victim["env"] = {"PYTHONPATH": str(place.root)}
        await check_refused(place, victim, "set PYTHONPATH to another folder")
        victim["env"] = {"PYTHONPATH": f"{place.root}/later"}
        await check_refused(place, victim, f"mkdir -p {place.root}/later")


@trial
async def the_working_folder_of_a_module_is_not_granted() -> None:
    with project() as place:
        environment = place.environment()
        packages = place.site_packages(environment)
        (packages / "server.py").write_text(Path(EXPLORER[-1]).read_text())
        place.open_up()
        source: dict[str, Any] = {
            "command": str(environment / "bin" / "python"),
            "args": ["-m", "server"],
        }
        victim = {"source": source, "cwd": str(place.root)}
        await check_refused(place, victim, 'args = ["-P", "-m", "server", …]')
        source["args"] = ["-P", "-m", "server"]
        await check_protected(place, victim, {packages / "json.py": place.python()})


@trial
async def the_target_of_an_editable_install_is_protected() -> None:
    with project() as place:
        environment = place.environment()
        place.file("src/server/__init__.py")
        place.file("src/server/__main__.py", Path(EXPLORER[-1]).read_text())
        packages = place.site_packages(environment)
        (packages / "server.pth").write_text(f"{place.root}/src\n")
        (packages / "other.pth").write_text("import __editable___other_finder\n")
        finder = f"MAPPING = {{'other': {str(place.root / 'other')!r}}}\n"
        (packages / "__editable___other_finder.py").write_text(finder)
        other = place.folder("other")
        planted = {
            place.root / "src" / "json.py": place.python(),
            place.root / "src" / "server" / "__main__.py": place.python(),
            other / "__init__.py": place.python(),
        }
        source = {"command": str(environment / "bin" / "python"), "args": ["-m", "server"]}
        await check_protected(place, {"source": source}, planted, moved=(place.root / "src", other))


@trial
async def a_wrapped_command_is_followed_to_its_program() -> None:
    with project() as place:
        environment = place.environment()
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        planted = {place.site_packages(environment) / "x.pth": f"import os; {place.python()}"}
        python = f"{environment}/bin/python"
        for argv in (
            ["/usr/bin/env", python, str(script)],
            ["timeout", "600", python, str(script)],
            ["/bin/sh", "-c", f"cd / && exec {python} {script}"],
            ["nice", "-n", "1", python, str(script)],
        ):
            source = {"command": argv[0], "args": argv[1:]}
            await check_protected(place, {"source": source}, planted)


@trial
async def variables_and_folders_that_a_command_sets_are_followed() -> None:
    with project() as place:
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        library = place.folder("lib")
        program = place.file("app/server.py", Path(EXPLORER[-1]).read_text())
        with_library = (
            ["/usr/bin/env", f"PYTHONPATH={library}", PYTHON, str(script)],
            ["/bin/sh", "-c", f"PYTHONPATH={library} exec {PYTHON} {script}"],
        )
        with_folder = (
            ["/usr/bin/env", "-C", str(program.parent), PYTHON, program.name],
            ["/bin/bash", "-euo", "pipefail", "-c", f"cd {program.parent}; {PYTHON} server.py"],
        )
        for commands, path in (
            (with_library, library / "sitecustomize.py"),
            (with_folder, program),
        ):
            for argv in commands:
                source = {"command": argv[0], "args": argv[1:]}
                await check_protected(
                    place, {"source": source}, {path: place.python()}, moved=(path.parent,)
                )


@trial
async def a_script_that_a_runner_is_given_is_protected() -> None:
    with project() as place:
        runner = place.outside / "bin" / "fastmcp"
        runner.parent.mkdir()
        run_script = "runpy.run_path(sys.argv[2], run_name='__main__')"
        runner.write_text(f"#!{PYTHON}\nimport runpy, sys\n{run_script}\n")
        runner.chmod(0o755)
        script = place.file("app/server.py", Path(EXPLORER[-1]).read_text())
        source = {"command": str(runner), "args": ["run", str(script)]}
        await check_protected(
            place, {"source": source}, {script: place.python()}, moved=(script.parent,)
        )


@trial
async def a_program_that_a_variable_names_is_protected() -> None:
    with project() as place:
        browser = place.file("bin/browser", "#!/bin/sh\n", executable=True)
        script = place.outside / "server.py"
        run_browser = "subprocess.run([os.environ['CHROME_PATH']], stdin=subprocess.DEVNULL)"
        start = f"import os, subprocess\n{run_browser}\n"
        script.write_text(start + Path(EXPLORER[-1]).read_text())
        source = {"command": PYTHON, "args": [str(script)]}
        victim = {"source": source, "env": {"CHROME_PATH": str(browser)}}
        await check_protected(place, victim, {browser: place.shell()}, moved=(browser.parent,))


@trial
async def folders_from_which_python_would_import_refuse_the_later_one() -> None:
    with project() as place:
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        environment = place.environment()
        later = place.root / "later"
        (place.site_packages(environment) / "a.pth").write_text(f"{later}\n")
        source = {"command": str(environment / "bin" / "python"), "args": [str(script)]}
        await check_refused(place, {"source": source}, f"mkdir -p {later}")
    with project() as place:
        place.root = place.folder("home/.local")  # granted without the home folder itself
        source = {"command": PYTHON, "args": [str(script)]}
        victim = {"source": source, "env": {"HOME": str(place.root.parent)}}
        await check_refused(place, victim, f"mkdir -p {place.root}/lib")


# -- secrets -------------------------------------------------------------------------------------


@trial
async def what_the_host_reads_to_get_a_secret_is_protected() -> None:
    for owner in ("writer", "victim"):
        with project() as place:
            key = place.outside / "key"  # a file of the host, which the writer cannot see
            key.write_text("a secret of the host")
            token = place.file("secrets/token", "its own")
            command = place.file("secrets/get", "#!/bin/sh\necho x\n", executable=True)
            for path in (key, token):
                path.chmod(0o600)
            secrets = {"TOKEN": {"file": str(token)}, "OTHER": {"command": [str(command)]}}
            script = {"command": str(system_explorer(place.outside / "victim" / "run"))}
            entries = place.entries({"source": script})
            for entry in entries:
                entry["env"] = secrets if entry["name"] == owner else {}
            variables = host_environ(place)
            async with exthost.Host.from_config({"extensions": entries}, environ=variables) as host:
                states = {ext.id: (ext.state, ext.cause) for ext in host.extensions}
                assert all(state == "ready" for state, _ in states.values()), states
                links = {"links": {str(token): str(key)}}
                assert await explore(host["writer"], LINK, **links) == []
                succeeded = await attack(
                    host["writer"], {command: place.shell()}, (token, token.parent)
                )
                assert not succeeded, succeeded
                await host[owner].restart()
                assert await explore(host[owner], READ_TOKEN) == "its own"
                assert not place.mark.exists()


@trial
async def the_audit_of_the_host_is_protected() -> None:
    with project() as place:
        audit = place.root / "audit.jsonl"
        source = {"command": str(system_explorer(place.outside / "victim" / "run"))}
        config: dict[str, Any] = {
            "extensions": place.entries({"source": source}),
            "audit": {"path": str(audit)},
        }
        # The host creates the file at its first start.
        async with exthost.Host.from_config(config, environ=host_environ(place)) as host:
            writer = host["writer"]
            assert writer.state == "ready", writer.cause
            links = {str(audit): str(place.mark)}
            assert await explore(writer, LINK, links=links) == []
            assert not await attack(writer, {audit: "nothing happened"}, (audit,))
        assert audit.stat().st_size and not place.mark.exists()
        # A link that was there before could lead to any file of the host's user.
        audit.unlink()
        audit.symlink_to(place.outside / "other")
        async with exthost.Host.from_config(config, environ=host_environ(place)) as host:
            error = host["writer"].cause
            assert isinstance(error, Refused) and error.code == "X0360", error
            assert "audit" in error.message, error


# Code for the writer: it puts links in the place of files.
LINK = """
    import os
    result = []
    for path, target in facts["links"].items():
        try:
            os.unlink(path)
            os.symlink(target, path)
            result.append(path)
        except OSError:
            pass
"""

READ_TOKEN = """
    import os
    result = os.environ["TOKEN"]
"""


# -- links ---------------------------------------------------------------------------------------


@trial
async def a_link_in_a_granted_folder_refuses_the_later_one() -> None:
    with project() as place:
        program = system_explorer(place.outside / "tools" / "run")
        (place.root / "run").symlink_to(program)
        victim = {"source": {"command": str(place.root / "run")}}
        await check_refused(place, victim, f"write {program} in place of {place.root}/run")
        (place.root / "tools").symlink_to(program.parent)
        victim = {"source": {"command": str(place.root / "tools" / "run")}}
        await check_refused(place, victim, f"write {program} in place of {place.root}/tools/run")


@trial
async def a_link_to_its_own_program_refuses_a_writer() -> None:
    with project() as place:
        (place.root / "run").symlink_to(place.writer)
        permissions: Any = {"filesystem": [f"{place.root}:rw"]}
        argv = [str(place.root / "run")]
        opening = exthost.connect(argv, dialect="morphir", permissions=permissions)
        error = await error_of(opening.__aenter__())
        assert isinstance(error, Refused) and error.code == "X0391", error
        assert f"write {place.writer} in place of {place.root}/run" in error.help, error.help


# -- Node, and other interpreters ----------------------------------------------------------------

SERVER_JS = """
try { require("helper"); } catch (error) { if (error.code !== "MODULE_NOT_FOUND") throw error; }
require("readline").createInterface({ input: process.stdin }).on("line", (line) =>
    console.log(JSON.stringify({ id: JSON.parse(line).id, result: [] })));
"""


@trial
async def node_packages_of_a_project_are_protected() -> None:
    node = needs("node")
    with project() as place:
        package = "node_modules/server"
        place.file(f"{package}/package.json", '{"name": "server", "bin": "dist/index.js"}')
        program = place.file(f"{package}/dist/index.js", f"#!{node}\n{SERVER_JS}", executable=True)
        place.folder("node_modules/.bin")
        start = place.root / "node_modules" / ".bin" / "server"
        start.symlink_to("../server/dist/index.js")
        modules = place.root / "node_modules"
        planted = {
            modules / "helper" / "index.js": place.javascript(),
            modules / "server" / "node_modules" / "helper.js": place.javascript(),
            modules / "server" / "package.json": "{",
            program: place.javascript(),
            start: place.shell(),
        }
        for source in (
            {"command": str(start)},
            {"command": node, "args": [str(program)]},
            {"command": node, "args": [str(program).removesuffix(".js")]},
        ):
            await check_protected(place, {"source": source}, planted, moved=(modules,))


@trial
async def node_packages_that_do_not_exist_refuse_the_later_one() -> None:
    node = needs("node")
    with project() as place:
        script = place.file("tools/server.js", SERVER_JS)
        victim = {"source": {"command": node, "args": [str(script)]}}
        await check_refused(place, victim, f"mkdir -p {place.root}/node_modules")
        place.folder("node_modules")
        await check_refused(place, victim, f"echo '{{}}' > {place.root}/package.json")
        place.file("tools/package.json", "{}")
        planted = {
            place.root / "node_modules" / "helper.js": place.javascript(),
            place.root / "tools" / "node_modules" / "helper.js": place.javascript(),
            place.root / "tools" / "package.json": '{"name": "helper", "exports": "../x.js"}',
            script: place.javascript(),
        }
        await check_protected(place, victim, planted, moved=(script.parent,))


@trial
async def paths_in_variables_of_node_are_protected() -> None:
    node = needs("node")
    with project() as place:
        script = place.outside / "server.js"
        script.write_text(SERVER_JS)
        modules = place.folder("lib/packages")
        hook = place.file("hooks/hook.js", "")
        source = {"command": node, "args": [str(script)]}
        victim = {"source": source, "env": {"NODE_PATH": str(modules)}}
        await check_protected(
            place, victim, {modules / "helper.js": place.javascript()}, moved=(modules,)
        )
        victim["env"] = {"NODE_OPTIONS": f"--require={hook}"}
        await check_protected(place, victim, {hook: place.javascript()}, moved=(hook, hook.parent))
        victim = {"source": {"command": node, "args": ["--require", str(hook), str(script)]}}
        await check_protected(place, victim, {hook: place.javascript()}, moved=(hook, hook.parent))


ANSWER_PERL = r"""
use My::Helper ();
$| = 1;
while (my $line = <STDIN>) {
    my ($id) = $line =~ /"id":\s*(\d+)/;
    print "{\"id\":$id,\"result\":[]}\n";
}
"""


@trial
async def paths_in_variables_of_perl_are_protected() -> None:
    perl = needs("perl")
    with project() as place:
        script = place.outside / "server.pl"
        script.write_text(ANSWER_PERL)
        helper = place.file("lib/perl/My/Helper.pm", "package My::Helper; 1;\n")
        evil = f'open(my $f, ">", "{place.mark}"); package My::Helper; 1;\n'
        libraries = place.root / "lib" / "perl"
        source = {"command": perl, "args": [str(script)]}
        planted = {helper: evil, libraries / "strict.pm": evil}
        for victim in (
            {"source": source, "env": {"PERL5LIB": str(libraries)}},
            {"source": {"command": perl, "args": [f"-I{libraries}", str(script)]}},
        ):
            await check_protected(place, victim, planted, moved=(helper.parent, libraries))


JAVA = """
public class Server {
    public static void main(String[] words) throws Exception {
        Helper.help();
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            var id = line.replaceAll(".*\\"id\\":\\\\s*(\\\\d+).*", "$1");
            System.out.println("{\\"id\\":" + id + ",\\"result\\":[]}");
        }
    }
}
"""
HELPER = "public class Helper { public static void help() throws Exception { %s } }"


@trial
async def class_paths_of_java_are_protected() -> None:
    java, compiler = needs("java"), needs("javac")
    with project() as place:
        classes = place.folder("build/classes")
        for folder_name, body in (
            ("good", ""),
            ("evil", f'new java.io.File("{place.mark}").createNewFile();'),
        ):
            sources = place.outside / folder_name
            sources.mkdir()
            (sources / "Server.java").write_text(JAVA)
            (sources / "Helper.java").write_text(HELPER % body)
            compiling = await asyncio.create_subprocess_exec(
                *(compiler, "-d", str(sources), "Server.java", "Helper.java"), cwd=str(sources)
            )
            assert await compiling.wait() == 0
        for file in (place.outside / "good").glob("*.class"):
            shutil.copy(file, classes)
        place.open_up()
        evil = place.outside / "evil" / "Helper.class"
        code = """
            import shutil
            try:
                shutil.copyfile(facts["evil"], facts["classes"] + "/Helper.class")
                result = "copied"
            except OSError as error:
                result = error.errno
        """
        for victim in (
            {"source": {"command": java, "args": ["-cp", str(classes), "Server"]}},
            {"source": {"command": java, "args": ["Server"]}, "env": {"CLASSPATH": str(classes)}},
        ):
            entries = place.entries(victim)
            entries[0]["permissions"]["filesystem"].append(str(evil.parent))
            environ = host_environ(place)
            async with exthost.Host.from_config({"extensions": entries}, environ=environ) as host:
                causes = [ext.cause for ext in host.extensions]
                assert {ext.state for ext in host.extensions} == {"ready"}, causes
                outcome = await explore(host["writer"], code, evil=str(evil), classes=str(classes))
                await host["victim"].restart()
                assert outcome != "copied" and not place.mark.exists(), outcome


# Variables of interpreters that need not be installed. The trial compares only the protected paths.
LAYOUTS: dict[str, tuple[str, str]] = {
    "ruby: GEM_HOME": ("GEM_HOME", "vendor/gems"),
    "ruby: GEM_PATH": ("GEM_PATH", "vendor/gems"),
    "ruby: RUBYLIB": ("RUBYLIB", "lib/ruby"),
    "ruby: BUNDLE_GEMFILE": ("BUNDLE_GEMFILE", "app/Gemfile"),
    "lua: LUA_PATH": ("LUA_PATH", "lib/lua/?.lua"),
    "go: GOMODCACHE": ("GOMODCACHE", "go/mod"),
    "php: PHPRC": ("PHPRC", "php"),
    "loader: LD_LIBRARY_PATH": ("LD_LIBRARY_PATH", "native/lib"),
    "shell: BASH_ENV": ("BASH_ENV", "shell/rc"),
    "java: JAVA_TOOL_OPTIONS": ("JAVA_TOOL_OPTIONS", "-javaagent:{root}/agents/a.jar"),
}


@trial
async def paths_in_variables_of_missing_interpreters_are_protected() -> None:
    for variable, value in LAYOUTS.values():
        with project() as place:
            name = value.rpartition("{root}/")[2].partition("/?")[0]
            is_file = Path(name).suffix or name.endswith(("Gemfile", "rc"))
            created = place.file(name) if is_file else place.folder(name)
            text = value.format(root=place.root)
            text = text if text.startswith("-") else f"{place.root}/{text}"
            expected = created.parent if name.endswith("Gemfile") else created
            entries = place.entries(
                {"source": {"command": "/bin/sh", "args": ["-c", "exit 0"]}, "start": "lazy"}
            )
            entries[1]["env"] = {variable: text}
            environ = host_environ(place)
            async with exthost.Host.from_config({"extensions": entries}, environ=environ) as host:
                assert host["writer"].state == "ready", host["writer"].cause
                protected = [item["path"] for item in host["writer"].enforced.get("closed", [])]
                assert str(expected) in protected, (variable, protected)
                succeeded = await attack(
                    host["writer"],
                    {(created if is_file else created / "planted"): "text"},
                    (created, created.parent),
                )
                assert not succeeded, (variable, succeeded)


# A morphir extension in Tcl, whose interpreter exthost does not know.
TCL_SERVER = r"""
while {[gets stdin line] >= 0} {
    regexp {"id": *([0-9]+)} $line all id
    set result [expr {[string match *capabilities* $line] ? {[]} : "null"}]
    puts "{\"id\": $id, \"result\": $result}"
    flush stdout
}
"""


@trial
async def the_script_of_an_unknown_interpreter_is_protected() -> None:
    needs("tclsh")
    with project() as place:
        script = place.file("tools/server.tcl", TCL_SERVER)
        victim = {"source": {"command": "tclsh", "args": [str(script)]}}
        planted = {script: f"exec touch {place.mark}\n{TCL_SERVER}"}
        await check_protected(place, victim, planted, moved=(script, script.parent))


@trial
async def a_tool_that_reads_settings_in_a_granted_folder_refuses_the_later_one() -> None:
    with project() as place:
        place.folder("sub")
        for tool in ("npx", "uvx", "uv", "bundle", "go", "cargo"):
            path = place.outside / "bin" / tool
            path.parent.mkdir(exist_ok=True)
            path.write_text("#!/bin/sh\nexit 0\n")
            path.chmod(0o755)
            for cwd in (place.root, place.root / "sub"):
                victim = {"source": {"command": str(path), "args": ["server"]}, "cwd": str(cwd)}
                await check_refused(place, victim, 'cwd = "/"')


# -- the host ------------------------------------------------------------------------------------

# A program that runs a host in the environment of the project, and prints what the writer could do.
HOST_IN_PROJECT = """
import json, sys
config, planted, packages = json.loads(sys.argv[1])
sys.path[1:1] = packages
import asyncio, exthost
async def main():
    async with exthost.Host.from_config(config) as host:
        writer = host["writer"]
        if writer.state != "ready":
            return [str(writer.cause), getattr(writer.cause, "code", "")]
        facts = {"planted": planted, "moved": list(planted)}
        done = await writer.call("explore", {"code": sys.argv[2], "facts": facts})
        return [done, [item["path"] for item in writer.enforced.get("closed", [])]]
print(json.dumps(asyncio.run(main())))
"""


async def run_host(place: Project, python: Path, script: Path, planted: dict[Path, str]) -> Any:
    """Run a host with this Python, and return what the script prints."""
    entries = place.entries({"source": {"command": "/bin/true"}})[:1]
    texts = {str(path): text for path, text in planted.items()}
    # Passed as an argument, because every Python extension would see the folders of PYTHONPATH.
    packages = [str(Path(path).absolute()) for path in sys.path if path]
    arguments = [json.dumps([{"extensions": entries}, texts, packages]), textwrap.dedent(ATTACK)]
    environ = host_environ(place)
    environ.pop("PYTHONPATH", None)
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(script), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=str(place.outside),
        env=environ,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


@trial
async def the_environment_of_the_host_is_protected() -> None:
    with project() as place:
        # The host uses the packages of this test run. Only the environment is in the project.
        environment = place.root / ".venv"
        shutil.rmtree(environment, ignore_errors=True)
        (environment / "bin").mkdir(parents=True)
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        packages = environment / "lib" / f"python{version}" / "site-packages"
        packages.mkdir(parents=True)
        real = os.path.realpath(sys.executable)
        (environment / "bin" / "python").symlink_to(real)
        (environment / "pyvenv.cfg").write_text(f"home = {Path(real).parent}\n")
        place.open_up()
        script = place.outside / "host.py"
        script.write_text(HOST_IN_PROJECT)
        planted = {packages / "x.pth": f"import os; {place.python()}"}
        for _ in range(2):
            succeeded, protected = await run_host(
                place, environment / "bin" / "python", script, planted
            )
            assert succeeded == [] and str(environment) in protected, (succeeded, protected)
        assert not place.mark.exists(), "planted code ran in the next start of the host"


@trial
async def a_folder_that_the_host_imports_from_is_not_granted() -> None:
    with project() as place:
        script = place.file("host.py", HOST_IN_PROJECT)
        message, code = await run_host(place, Path(sys.executable), script, {})
        assert code == "X0360" and str(place.root) in message, message
        inner = place.file("app/host.py", HOST_IN_PROJECT)
        planted = {place.root / "app" / "json.py": place.python()}
        succeeded, protected = await run_host(place, Path(sys.executable), inner, planted)
        assert succeeded == [] and str(inner.parent) in protected, (succeeded, protected)


@trial
async def the_program_that_makes_sandboxes_is_protected() -> None:
    bwrap = needs("bwrap")
    with project() as place:
        wrapper = place.file("tools/bwrap", f'#!/bin/sh\nexec {bwrap} "$@"\n', executable=True)
        os.environ["EXTHOST_BWRAP"] = str(wrapper)
        try:
            script = place.outside / "server.py"
            script.write_text(Path(EXPLORER[-1]).read_text())
            victim = {"source": {"command": PYTHON, "args": [str(script)]}}
            text = f'#!/bin/sh\ntouch {place.mark}\nexec {bwrap} "$@"\n'
            await check_protected(place, victim, {wrapper: text}, moved=(wrapper, wrapper.parent))
        finally:
            del os.environ["EXTHOST_BWRAP"]


# -- its own code, and code that comes later -----------------------------------------------------


@trial
async def its_own_program_in_a_granted_folder_is_protected() -> None:
    with project() as place:
        environment = place.environment()
        script = place.file("tools/server.py", Path(EXPLORER[-1]).read_text())
        permissions: Any = {"filesystem": [f"{place.root}:rw"]}
        argv = [str(environment / "bin" / "python"), str(script)]
        async with exthost.connect(argv, dialect="morphir", permissions=permissions) as ext:
            assert await explore(ext, WRITE_FREELY, place=str(place.root)) == "written"
            planted = {
                script: "text",
                environment / "pyvenv.cfg": "text",
                environment / "bin" / "python": place.shell(),
            }
            succeeded = await attack(ext, planted, (script, script.parent, environment))
            assert not succeeded, succeeded
        data = place.file("data", "its own to change")
        argv = [PYTHON, str(script), str(data)]
        async with exthost.connect(argv, dialect="morphir", permissions=permissions) as ext:
            assert ext.state == "ready", "an argument is not a program"


@trial
async def links_and_settings_in_its_grant_show_an_extension_nothing_more() -> None:
    with project() as place, shared_folder() as secrets:
        (secrets / "key").write_text("secret")
        program = system_explorer(place.root / "app" / "bin" / "run")
        other = system_explorer(place.outside / "tool" / "run")
        argument, data = place.root / "argument", place.folder("files/data")
        permissions: Any = {"filesystem": [f"{place.root}:rw"]}
        code = """
            import os
            os.symlink(facts["secrets"] + "/key", facts["root"] + "/argument")
            os.rename(facts["root"] + "/files", facts["root"] + "/files.away")
            os.mkdir(facts["root"] + "/files")
            os.symlink(facts["secrets"], facts["root"] + "/files/data")
            os.symlink(facts["secrets"], facts["root"] + "/node_modules")
            packages = facts["root"] + "/app/lib/python3.11/site-packages"
            os.makedirs(packages)
            with open(facts["root"] + "/app/pyvenv.cfg", "w") as file:
                file.write("home = " + facts["secrets"])
            with open(packages + "/x.pth", "w") as file:
                file.write(facts["secrets"])
            result = "planted"
        """
        for argv in ([str(program), str(argument)], [str(other), str(argument)]):
            settings: Any = {"permissions": permissions, "cwd": str(data)}
            async with exthost.connect(argv, dialect="morphir", **settings) as ext:
                facts = {"root": str(place.root), "secrets": str(secrets)}
                planted = await explore(ext, code, **facts)
                assert planted == "planted", planted
                error = None
                try:
                    await ext.restart()  # a requested restart computes the view again
                except ExthostError as refused:
                    error = refused
                shown_paths = [item["path"] for item in ext.enforced["paths"]]
                assert not any(path.startswith(str(secrets)) for path in shown_paths), shown_paths
                read = "import os; result = os.listdir(facts['secrets'])"
                listing = await explore(ext, read, **facts)
                assert "key" not in listing, (listing, error)
            for name in ("argument", "files/data", "node_modules", "app/pyvenv.cfg"):
                (place.root / name).unlink()
            for name in ("app/lib", "files"):
                shutil.rmtree(place.root / name)
            (place.root / "files.away").rename(data.parent)


@trial
async def code_that_comes_after_a_writer_waits_for_its_restart() -> None:
    with project() as place:
        environment = place.environment()
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        python = str(environment / "bin" / "python")
        writer, victim = place.entries({"source": {"command": python, "args": [str(script)]}})
        environ = host_environ(place)
        async with exthost.Host.from_config({"extensions": [writer]}, environ=environ) as host:
            assert host["writer"].state == "ready", host["writer"].cause
            error = await error_of(host.load(victim))
            assert isinstance(error, Refused) and error.code == "X0361", error
            assert "exthost restart writer" in error.help, error.help
            await host["writer"].restart()
            # Its old process has ended.
            await wait_until(lambda: all(host["writer"].internals.protected_paths))
            await host.load(victim)
            assert host["victim"].state == "ready", host["victim"].cause
            packages = place.site_packages(environment)
            planted = {packages / "x.pth": f"import os; {place.python()}"}
            succeeded = await attack(host["writer"], planted)
            await host["victim"].restart()
            assert not succeeded and not place.mark.exists(), succeeded


@trial
async def code_of_a_config_is_protected_from_an_extension_that_is_started_alone() -> None:
    with project() as place, folder() as settings:
        environment = place.environment()
        script = place.outside / "server.py"
        script.write_text(Path(EXPLORER[-1]).read_text())
        packages = place.site_packages(environment)
        config = settings / "exthost.toml"
        config.write_text(
            f"""
            [[extensions]]
            name = "writer"
            source = {{ command = "{place.writer}" }}
            permissions = {{ filesystem = ["{place.root}:rw"] }}
            [[extensions]]
            name = "victim"
            source = {{ command = "{environment}/bin/python", args = ["{script}"] }}
            """
        )
        code = textwrap.dedent(ATTACK)
        facts = {"planted": {str(packages / "x.pth"): "text"}, "moved": [str(environment)]}
        arguments = (
            "call",
            "--method",
            "writer",
            "explore",
            "--args",
            "-",
            "--config",
            str(config),
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "exthost", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=str(settings),
            env=host_environ(place),
        )
        request = json.dumps({"code": code, "facts": facts}).encode()
        async with asyncio.timeout(60):
            out, err = await process.communicate(request)
        assert process.returncode == 0 and json.loads(out) == [], (out, err.decode())
        assert not (packages / "x.pth").exists()
