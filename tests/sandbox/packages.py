"""Trials of the sandbox: a discovered package cannot decide which files it sees.

A package is an extension that the host found in a folder, by its manifest. The manifest is not
trusted: it may name a file as an argument, in a variable or by a link, so that the sandbox would
show that file. In each trial (a test that runs as root and as an ordinary user), a package tries to
read a file that is not granted. It writes everything that it can read to stderr, so that the log
events of the host show it.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import Refused
from exthost.events import LogLine, Spawned
from exthost.process.procfs import descendants
from tests.extensions import nexo_tree, synaps_tree
from tests.extensions.harness import pid_of
from tests.extensions.proc import environment_of
from tests.sandbox.confined import folder, shared_folder
from tests.sandbox.programs import IN_PLACE
from tests.sandbox.trials import trial

MCP_CHILD = Path(__file__).parents[1] / "extensions" / "mcp_child.py"

SECRET = "-----BEGIN " + "TRIAL KEY-----"

# The first word of the lines about files that a package could read.
READ_MARK = "WAS-READ"

# Code that a program runs first: it prints the files that its arguments and the variable TARGETS
# name, and those in the folders that they name, as far as it can read them.
READ_TARGETS = f"""
import os, sys
for path in (*sys.argv[1:], *os.environ.get("TARGETS", "").split(":")):
    names = os.listdir(path) if os.path.isdir(path) else []
    for file in (path, *(os.path.join(path, name) for name in names)):
        try:
            print("{READ_MARK}", file, open(file).read(), file=sys.stderr, flush=True)
        except (OSError, UnicodeDecodeError):
            pass
sys.argv[1:] = []
"""

MANIFEST = """
[plugin]
id = "toy"
version = "1.0.0"
[capabilities]
tools = ["echo", "env"]
[transport]
kind = "stdio"
command = {command}
args = {args}
{more}
"""


class Package:
    """A plugin that tries to read a secret in the folder `keys`, which is not granted."""

    def __init__(self, place: Path) -> None:
        self.search_path = place / "plugins"
        self.root = self.search_path / "toy"
        self.root.mkdir(parents=True)
        self.keys = place / "keys"
        self.keys.mkdir()
        self.key = self.keys / "id"
        self.key.write_text(SECRET)
        (self.root / "ext.py").write_text(READ_TARGETS + nexo_tree.CHILD.read_text())
        self.key.chmod(0o600)
        self.keys.chmod(0o700)

    def write(self, *args: str, command: str = "python3", more: str = "") -> None:
        """Write the manifest with this command."""
        message = {"command": json.dumps(command), "args": json.dumps(args), "more": more}
        (self.root / "plugin.toml").write_text(MANIFEST.format(**message))

    def config(self, **override: Any) -> dict[str, Any]:
        return {
            "discovery": {"search_paths": [str(self.search_path)]},
            "defaults": {"permissions": {}, "restart": {"strategy": "never"}},
            "overrides": {"toy": override} if override else {},
        }


async def start(config: dict[str, Any], id: str = "toy") -> tuple[str, Refused | None, str]:
    """Start an extension, and return its state, its cause and its stderr. If it is refused, check
    that no process was spawned."""
    output, spawned = list[str](), list[Spawned]()
    host = exthost.Host.from_config(config)
    host.events.subscribe(LogLine, lambda line: output.append(line.text))
    host.events.subscribe(Spawned, spawned.append)
    async with host:
        ext = host[id]
        state, cause = ext.state, ext.cause
        if state == "admitted":
            await ext.start()
            state, cause = ext.state, ext.cause
    assert state != "refused" or id not in {item.extension for item in spawned}
    assert cause is None or isinstance(cause, Refused), cause
    return state, cause, "\n".join(output)


async def check_refused(package: Package, path: Path, id: str = "toy") -> None:
    """Check that the package is refused, and that it is admitted with the line of the help."""
    state, cause, output = await start(package.config(), id)
    assert SECRET not in output, output
    assert state == "refused" and cause is not None and cause.code == "X0390", (state, cause)
    table = id if id == "toy" else f'"{id}"'
    line = f'[overrides.{table}.permissions] filesystem = ["{path}"]'
    assert line in cause.help and str(path) in cause.message, cause
    config = package.config()
    config["overrides"] = {id: {"permissions": {"filesystem": [str(path)]}}}
    state, cause, output = await start(config, id)
    assert state != "refused" and SECRET in output, (state, cause, output)


@trial
async def a_package_runs_in_its_own_folder() -> None:
    with folder() as place:
        package = Package(place)
        package.write("ext.py")
        async with exthost.Host.from_config(package.config()) as host:
            assert host["toy"].state == "ready", host["toy"].cause
            paths = {item["path"]: item for item in host["toy"].enforced["paths"]}
            expected = {"path": str(package.root), "access": "read", "source": "package"}
            assert paths[str(package.root)] == expected
            assert paths["/usr"]["source"] == "system"
            assert not any(path.startswith(str(package.keys)) for path in paths)


@trial
async def an_argument_of_a_package_shows_no_file_outside() -> None:
    with folder() as place:
        package = Package(place)
        package.write("ext.py", str(package.key))
        await check_refused(package, package.key)


@trial
async def a_link_in_a_package_shows_no_file_outside() -> None:
    with folder() as place:
        package = Package(place)
        (package.root / "readme").symlink_to(package.key)
        package.write("ext.py", "readme")
        await check_refused(package, package.key)


@trial
async def a_relative_argument_of_a_package_shows_no_file_outside() -> None:
    with folder() as place:
        package = Package(place)
        relative_path = f"../../../../../../../..{package.key}"
        package.write("ext.py", relative_path)
        await check_refused(package, package.key)
        package.write("-c", f"exec(open({str(package.root / 'ext.py')!r}).read())", relative_path)
        await check_refused(package, package.key)


@trial
async def a_pth_file_of_a_package_shows_no_folder_outside() -> None:
    with folder() as place:
        package = Package(place)
        python = os.path.realpath(shutil.which("python3", path="/usr/bin:/bin") or "python3")
        environment = package.root / "venv"
        (environment / "bin").mkdir(parents=True)
        (environment / "bin" / "python").symlink_to(python)
        (environment / "pyvenv.cfg").write_text(f"home = {Path(python).parent}\n")
        packages = environment / "lib" / Path(python).name / "site-packages"
        packages.mkdir(parents=True)
        (packages / "a.pth").write_text(f"{package.keys}\n")
        package.write("ext.py", str(package.keys), command="./venv/bin/python")
        await check_refused(package, package.keys)


@trial
async def the_first_line_of_a_package_shows_no_file_outside() -> None:
    with folder() as place:
        package = Package(place)
        script = package.root / "run"
        arguments = f"-S python3 {package.root}/ext.py {package.key}"
        script.write_text(f"#!/usr/bin/env {arguments}\n")
        script.chmod(0o755)
        package.write(command="./run")
        state, cause, output = await start(package.config())
        assert state == "ready" and SECRET not in output, (cause, output)
        # An interpreter outside of the package is refused.
        interpreter = package.keys / "python"
        shutil.copy(os.path.realpath("/bin/sh"), interpreter)
        script.write_text(f"#!{interpreter} {package.key}\n")
        state, cause, output = await start(package.config())
        assert state == "refused" and cause is not None and cause.code == "X0390", (state, cause)


@trial
async def a_variable_of_a_package_shows_no_folder_outside() -> None:
    with folder() as place:
        package = Package(place)
        server = f"""
            [mcp_servers.s]
            command = "python3"
            args = ["ext.py"]
            env = {{ PYTHONPATH = "{package.keys}", TARGETS = "{package.keys}" }}
            """
        package.write("ext.py", more=server)
        state, cause, output = await start(package.config(), "toy.s")
        assert SECRET not in output and state == "refused", (state, output)
        assert cause is not None and cause.code == "X0390", cause
        assert f'[overrides."toy.s".permissions] filesystem = ["{package.keys}"]' in cause.help


@trial
async def a_file_that_the_operator_names_is_shown_without_its_folder() -> None:
    with folder() as place:
        package = Package(place)
        (package.keys / "other").write_text(SECRET)
        (package.keys / "named").write_text("named by the operator")
        package.write("ext.py")
        targets = [str(package.keys / "named"), str(package.keys)]
        config = package.config(args=["ext.py", *targets])
        state, cause, output = await start(config)
        assert "named by the operator" in output and SECRET not in output, (state, cause, output)


@trial
async def a_variable_of_a_package_reaches_its_program_but_not_the_sandbox() -> None:
    with folder() as place, shared_folder() as outside:
        package = Package(place)
        # With these variables the loader of every program writes a file.
        trace = outside / "trace"
        loader = f'LD_DEBUG = "libs", LD_DEBUG_OUTPUT = "{trace}", LD_LIBRARY_PATH = "/nowhere"'
        server = f"""
            [mcp_servers.s]
            command = "/usr/bin/python3"
            args = ["-S", "-E", "mcp.py"]
            env = {{ {loader}, GCONV_PATH = "/nowhere", KEPT = "yes" }}
            """
        shutil.copy(MCP_CHILD, package.root / "mcp.py")
        package.write("ext.py", more=server)
        async with exthost.Host.from_config(package.config()) as host:
            ext = host["toy.s"]
            await ext.start()
            traces = {item.name: item.read_text() for item in outside.iterdir()}
            assert not traces, "a program outside of the sandbox got these variables"
            pids = descendants(pid_of(ext))
            inside = [environment_of(pid) for pid in pids if b"KEPT=yes" in environment_of(pid)]
            assert any(b"LD_LIBRARY_PATH=/nowhere" in item for item in inside), inside


# Variables of hosts that no extension should get.
SENSITIVE = (
    *("TOKEN", "APIKEY", "JWT", "KEY", "BEARER", "COOKIE", "AWS_ACCESS_KEY_ID", "DATABASE_URL"),
    *("REDIS_URL", "MYSQL_PWD", "DB_PASS", "MY_PASSPHRASE", "MY_TOKENS", "MY_API_KEYS"),
    *("SENTRY_DSN", "SLACK_WEBHOOK_URL", "DOCKER_AUTH_CONFIG", "npm_config__authToken"),
    *("SSH_AUTH_SOCK", "KUBECONFIG", "DISPLAY", "AGE_TEST_TOKEN"),
)


@trial
async def a_package_is_not_given_the_secrets_that_it_asks_for() -> None:
    with folder() as place:
        package = Package(place)
        required = ("AGE_TEST_TOKEN", "DATABASE_URL")
        package.write("ext.py", more=f"[requires]\nenv = {json.dumps(required)}\n")
        environ = {**os.environ, **dict.fromkeys(SENSITIVE, "secret-value")}
        for passed in ((), required[:1], required):
            references = {name: {"from": name} for name in passed}
            config = package.config(env=references) if passed else package.config()
            async with exthost.Host.from_config(config, environ=environ) as host:
                ext = host["toy"]
                if passed != required:  # it is not started without its required variables
                    assert ext.state == "refused" and isinstance(ext.cause, Refused), ext.state
                    assert ext.cause.code == "X0365", ext.cause
                    assert 'DATABASE_URL = { from = "DATABASE_URL" }' in ext.cause.help
                    continue
                environment = (await ext.call_tool("env")).data
                assert {name for name in SENSITIVE if name in environment} == set(passed), (
                    environment.keys()
                )
                assert "PATH" in environment
        # Without a requirement, the variables are not passed, either.
        package.write("ext.py")
        async with exthost.Host.from_config(package.config(), environ=environ) as host:
            environment = (await host["toy"].call_tool("env")).data
            assert not [name for name in SENSITIVE if name in environment] and "PATH" in environment


@trial
async def a_package_gets_no_setting_of_another_by_its_id_and_keys() -> None:
    # For `api_key` of notes, and for `key` of notes_api.
    variable = "SYNAPS_EXTENSION_NOTES_API_KEY"
    overrides = {"notes": {"env": {variable: {"from": variable}}}}
    with folder() as place:
        for id, key in (("notes", "api_key"), ("notes_api", "key")):
            setting = {"key": key, "default": "none"}
            package = synaps_tree.write_plugin(place / id, config=[setting], **IN_PLACE)
            shutil.copy(synaps_tree.CHILD, package / "ext.py")
        discovery = {"search_paths": [str(place)]}
        config = {"discovery": discovery, "defaults": {"permissions": {}}, "overrides": overrides}
        environ = {**os.environ, variable: "secret-value"}
        async with exthost.Host.from_config(config, environ=environ) as host:
            configs = [
                (await host.call_tool(f"{id}:started")).data["params"]["config"]
                for id in ("notes", "notes_api")
            ]
        assert configs == [{"api_key": "secret-value"}, {"key": "none"}], configs
