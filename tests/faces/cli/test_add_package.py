"""Tests of `exthost add --from PACKAGE`, which adds an MCP server to the config.

PACKAGE is a package of npm or PyPI (`npm:@acme/weather`), a `server.json` as the MCP registry has
it, or an MCP bundle (a zip file with a server). The description of a package comes from somebody
else: nothing in it may run another command, leave the folder of a bundle, or put a secret into the
config.
"""

import json
import os
import stat
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.faces.cli.package_inputs import InputValues, PackageInput
from tests.faces.cli.cli_process import RUN_SECONDS, run_inside

# A package in the form of the MCP registry. Its arguments and variables have inputs, which the user
# gives by `--set NAME=VALUE`; a secret becomes a reference to a variable.
PACKAGE = {
    "registryType": "npm",
    "identifier": "@acme/weather",
    "version": "1.4.0",
    "transport": {"type": "stdio"},
    "runtimeHint": "npx",
    "runtimeArguments": [{"type": "positional", "value": "-y"}],
    "packageArguments": [
        {"type": "positional", "valueHint": "folder", "isRequired": True},
        {"type": "named", "name": "--units", "default": "metric", "choices": ["metric", "us"]},
        {"type": "named", "name": "--extra"},
        {
            "type": "positional",
            "value": "$(rm -rf /); {city}",
            "variables": {"city": {"default": "Lima"}},
        },
    ],
    "environmentVariables": [
        {"name": "API_KEY", "isRequired": True, "isSecret": True},
        {"name": "AUTH", "value": "Bearer {key}", "variables": {"key": {"isSecret": True}}},
        {"name": "REGION", "default": "eu"},
        {"name": "UNUSED"},
    ],
}


def add(folder: Path, *arguments: str) -> Any:
    """Run `exthost add --json` in a folder; return the finished process."""
    environ = {**os.environ, "EXTHOST_HOME": str(folder / "state")}
    return run_inside("add", *arguments, "--json", cwd=folder, env=environ)


def write_server_json(folder: Path, **members: Any) -> str:
    """Write the description of a server in the registry; return the path."""
    path = folder / "server.json"
    path.write_text(json.dumps({"name": "io.github.acme/weather", "version": "1.4.0", **members}))
    return str(path)


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of the config."""
    document = tomllib.loads((folder / "exthost.toml").read_text())
    entries: list[dict[str, Any]] = document["extensions"]
    return entries


def test_a_package_of_the_registry_is_added_with_its_version_and_its_inputs(tmp_path: Path) -> None:
    file = write_server_json(tmp_path, packages=[PACKAGE])
    result = add(tmp_path, "--from", file, "--set", "folder=/srv/data")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["variables"] == ["API_KEY", "AUTH"]
    assert read_entries(tmp_path) == [
        {
            "name": "weather",
            "dialect": "mcp",
            "source": {
                "type": "process",
                "command": "npx",
                "args": [
                    *("-y", "@acme/weather@1.4.0", "/srv/data", "--units", "metric"),
                    "$(rm -rf /); Lima",
                ],
                "env": {"API_KEY": {"from": "API_KEY"}, "AUTH": {"from": "AUTH"}, "REGION": "eu"},
            },
        }
    ]
    second = add(tmp_path, "--from", file, "--set", "folder=/srv/data")
    assert json.loads(second.stdout)["error"]["code"] == "X1312"


def test_without_a_terminal_a_missing_value_names_its_option(tmp_path: Path) -> None:
    result = add(tmp_path, "--from", write_server_json(tmp_path, packages=[PACKAGE]))
    error = json.loads(result.stdout)["error"]
    assert (result.returncode, error["code"]) == (2, "X1812") and "--set folder=" in error["help"]
    assert not (tmp_path / "exthost.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "folder=/a", "--set", "units=miles"], "must be one of metric, us"),
        (["--set", "folder=/a", "--set", "fodler=/b"], "has no input 'fodler'"),
        (["--set", "folder"], "'folder' is not NAME=VALUE"),
        (["--set", "=/a"], "'=/a' is not NAME=VALUE"),
    ],
)
def test_a_wrong_value_is_reported(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = add(tmp_path, "--from", write_server_json(tmp_path, packages=[PACKAGE]), *arguments)
    assert message in json.loads(result.stdout)["error"]["message"]


def test_a_remote_server_of_the_registry_is_added(tmp_path: Path) -> None:
    headers = [
        {
            "name": "Authorization",
            "value": "Bearer {token}",
            "variables": {"token": {"isSecret": True}},
        },
        {"name": "X-Region", "default": "eu"},
    ]
    remote: dict[str, Any] = {
        "type": "sse",
        "url": "https://{tenant}.example.org/mcp",
        "headers": headers,
    }
    remote["variables"] = {"tenant": {"isRequired": True}}
    result = add(
        tmp_path, "--from", write_server_json(tmp_path, remotes=[remote]), "--set", "tenant=a"
    )
    assert result.returncode == 0, result.stdout
    assert read_entries(tmp_path)[0]["source"] == {
        "type": "http",
        "url": "https://a.example.org/mcp",
        "transport": "sse",
        "headers": {"Authorization": {"from": "WEATHER_AUTHORIZATION"}, "X-Region": "eu"},
    }


@pytest.mark.parametrize(
    "change",
    [
        {"identifier": "--call=sh"},
        {"identifier": "a b"},
        {"identifier": "../x"},
        {"version": "1 || sh"},
        {"version": "-c"},
        {"runtimeArguments": [{"type": "named", "name": "--call", "value": "sh -c id"}]},
        {"registryType": "pypi", "identifier": "-r/etc/passwd"},
        {"registryType": "oci", "identifier": "--privileged"},
    ],
)
def test_a_package_whose_fields_could_run_another_command_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    file = write_server_json(tmp_path, packages=[{**PACKAGE, **change}])
    result = add(tmp_path, "--from", file, "--set", "folder=/a")
    assert (result.returncode, json.loads(result.stdout)["error"]["code"]) == (4, "X1815")
    assert not (tmp_path / "exthost.toml").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"name": "a"}', "[" * 100_000])
def test_a_file_that_is_not_a_server_json_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.json"
    path.write_text(text)
    result = add(tmp_path, "--from", str(path))
    assert (result.returncode, json.loads(result.stdout)["error"]["code"]) == (3, "X1814")
    missing = add(tmp_path, "--from", "no-such-file.json")
    assert json.loads(missing.stdout)["error"]["code"] == "X1814"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--dialect", "mcp", "--", "prog\udcff"], "a config is UTF-8 text"),
        (["x", "--set", "A=b", "--dialect", "mcp", "--", "ls"], "--set gives values to a package"),
    ],
)
def test_a_command_that_the_config_cannot_have_changes_nothing(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = run_inside("add", *arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert not (tmp_path / "exthost.toml").exists()


def test_a_named_version_is_pinned_without_a_registry(tmp_path: Path) -> None:
    assert add(tmp_path, "--from", "npm:@acme/weather@1.2.3").returncode == 0
    assert add(tmp_path, "tide", "--from", "pypi:acme-tide==2.0").returncode == 0
    weather, tide = (entry["source"] for entry in read_entries(tmp_path))
    assert (weather["command"], weather["args"]) == ("npx", ["-y", "@acme/weather@1.2.3"])
    assert (tide["command"], tide["args"]) == ("uvx", ["acme-tide@2.0"])
    assert add(tmp_path, "sea", "--from", "pypi:acme-sea@2.1").returncode == 0
    assert read_entries(tmp_path)[2]["source"]["args"] == ["acme-sea@2.1"]
    refused = add(tmp_path, "--from", "npm:-y@1.0.0")
    assert json.loads(refused.stdout)["error"]["code"] == "X1815"


def test_the_entry_refers_to_the_variables_that_name_another_registry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://user:password@index.example/simple")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://npm.example")
    result = add(tmp_path, "--from", "pypi:acme-tide==2.0")
    assert json.loads(result.stdout)["variables"] == ["UV_DEFAULT_INDEX"]
    assert add(tmp_path, "wave", "--from", "npm:wave@1.0.0").returncode == 0
    tide, wave = (entry["source"]["env"] for entry in read_entries(tmp_path))
    assert tide == {"UV_DEFAULT_INDEX": {"from": "UV_DEFAULT_INDEX"}}
    assert wave == {"NPM_CONFIG_REGISTRY": {"from": "NPM_CONFIG_REGISTRY"}}
    assert "password" not in (tmp_path / "exthost.toml").read_text()


@pytest.mark.more
@pytest.mark.parametrize("name", ["npm:is-number", "pypi:six"])
def test_the_newest_version_is_looked_up_and_pinned(tmp_path: Path, name: str) -> None:
    result = add(tmp_path, "a", "--from", name)
    assert result.returncode == 0, result.stdout
    package = read_entries(tmp_path)[0]["source"]["args"][-1]
    assert package.rpartition("@")[2][0].isdigit()
    missing = add(tmp_path, "b", "--from", f"{name}-no-such-package-of-exthost")
    assert json.loads(missing.stdout)["error"]["code"] == "X1813"


def test_secrets_are_not_asked_for_and_other_values_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = tmp_path / "answers"
    answers.write_text("Lima\n\n")
    with answers.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        values = InputValues({}, can_ask=True)
        secret = PackageInput("KEY", is_required=True, is_secret=True)
        assert values.find_variable("KEY", secret) == {"from": "KEY"}
        city = PackageInput("city", "Which city?", is_required=True)
        assert values.find(city) == "Lima"
        with pytest.raises(exthost.errors.UsageError):
            values.find(city)
        with pytest.raises(exthost.errors.UsageError, match="secret"):
            values.find_argument(secret)


# -- bundles ---------------------------------------------------------------------------------------

# A server with a tool that returns variables of its environment.
SERVER = """\
import os
from exthost.sdk import Extension

ext = Extension("bundled")


@ext.tool
def where(text: str) -> str:
    \"\"\"Return variables\"\"\"
    return f"{text} {os.environ['CITY']} {os.environ['KEY']}"


ext.run(dialect="mcp")
"""
MANIFEST = {
    "manifest_version": "0.3",
    "name": "bundled",
    "version": "1.0.0",
    "server": {
        "type": "python",
        "entry_point": "server/main.py",
        "mcp_config": {
            "command": sys.executable,
            "args": ["${__dirname}/server/main.py"],
            "env": {"CITY": "${user_config.city}", "KEY": "${user_config.key}"},
            "platform_overrides": {"win32": {"command": "python.exe"}},
        },
    },
    "user_config": {
        "city": {"type": "string", "title": "City", "required": True},
        "key": {"type": "string", "title": "Key", "required": True, "sensitive": True},
    },
}


def write_bundle(folder: Path, members: dict[str, str] | None = None) -> Path:
    """Write a bundle with SERVER and these other files; return the path."""
    path = folder / "a.mcpb"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(MANIFEST))
        archive.writestr("server/main.py", SERVER)
        for name, text in (members or {}).items():
            archive.writestr(name, text)
    return path


def test_a_bundle_is_unpacked_and_runs(tmp_path: Path) -> None:
    added = add(tmp_path, "--from", str(write_bundle(tmp_path)), "--set", "city=Lima")
    assert added.returncode == 0, added.stdout
    assert json.loads(added.stdout)["variables"] == ["KEY"]
    environ = {**os.environ, "EXTHOST_HOME": str(tmp_path / "state"), "KEY": "k"}
    config = tmp_path / "exthost.toml"
    with exthost.SyncHost.from_config(config, environ=environ) as host:
        result = host.call_tool("bundled:where", {"text": "in"}, timeout=RUN_SECONDS)
        assert result.text == "in Lima k"
    folder = Path(read_entries(tmp_path)[0]["cwd"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert "k" not in config.read_text().split()


def test_an_added_package_is_recorded_in_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "k")
    (tmp_path / "exthost.toml").touch()
    assert run_inside("lock", cwd=tmp_path).returncode == 0
    added = add(tmp_path, "--from", str(write_bundle(tmp_path)), "--set", "city=Lima")
    assert added.returncode == 0 and "bundled: recorded in exthost.lock" in added.stderr
    [record] = tomllib.loads((tmp_path / "exthost.lock").read_text())["extensions"].values()
    assert list(record["tools"]) == ["where"] and record["package"].startswith("sha256:")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "server/main.py"])
def test_a_bundle_with_a_path_outside_of_its_folder_or_with_two_equal_paths_is_refused(
    tmp_path: Path, name: str
) -> None:
    path = write_bundle(tmp_path, {name: "evil"})
    result = add(tmp_path, "--from", str(path), "--set", "city=Lima")
    assert (result.returncode, json.loads(result.stdout)["error"]["code"]) == (4, "X1815")
    assert not list(tmp_path.rglob("evil*")) and not (tmp_path / "state/bundles").exists()


def test_a_bundle_with_a_link_is_refused(tmp_path: Path) -> None:
    path = write_bundle(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
    result = add(tmp_path, "--from", str(path), "--set", "city=Lima")
    assert json.loads(result.stdout)["error"]["code"] == "X1815"


def test_a_bundle_with_too_much_data_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.faces.cli.bundle_files._MAX_BYTES", 1000)
    path = write_bundle(tmp_path, {"bomb": "x" * 2000})
    result = add(tmp_path, "--from", str(path), "--set", "city=Lima")
    assert json.loads(result.stdout)["error"]["code"] == "X1815"


@pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x03\x04 broken"])
def test_a_file_that_is_not_a_bundle_is_reported(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.mcpb"
    path.write_bytes(data)
    result = add(tmp_path, "--from", str(path))
    assert (result.returncode, json.loads(result.stdout)["error"]["code"]) == (3, "X1814")


def test_a_tag_and_a_range_are_looked_up_as_they_would_not_be_pinned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    npm = tmp_path / "npm"
    npm.write_text(
        "#!/bin/sh\n"
        'case "$2" in weather) echo \'"3.2.1"\';; *@next) echo \'"4.0.0-rc.1"\';;\n'
        '*@1.2) echo \'["1.2.0", "1.2.7"]\';; esac\n'
    )
    npm.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, text in {"a": "weather@latest", "b": "@s/w@next", "c": "w@1.2"}.items():
        assert add(tmp_path, name, "--from", f"npm:{text}").returncode == 0
    packages = [entry["source"]["args"][1] for entry in read_entries(tmp_path)]
    assert packages == ["weather@3.2.1", "@s/w@4.0.0-rc.1", "w@1.2.7"]
    missing = add(tmp_path, "d", "--from", "npm:@s/w@beta")
    assert "name the version: npm:@s/w@1.2.3" in json.loads(missing.stdout)["error"]["help"]


def test_the_defaults_of_inputs_are_written_as_json_has_them(tmp_path: Path) -> None:
    arguments = [
        {"type": "named", "name": "--fast", "format": "boolean", "default": True},
        {"type": "named", "name": "--slow", "format": "boolean", "default": False},
        {"type": "named", "name": "--depth", "default": 3},
    ]
    package = {**PACKAGE, "packageArguments": arguments, "environmentVariables": []}
    path = write_server_json(tmp_path, packages=[package])
    assert add(tmp_path, "--from", path).returncode == 0
    assert read_entries(tmp_path)[0]["source"]["args"][2:] == ["--fast", "--depth", "3"]


def write_manifest(folder: Path, settings: dict[str, Any], **members: Any) -> str:
    """Write a bundle whose manifest has these settings of its server; return the path."""
    path = folder / "b.mcpb"
    server = {"type": "binary", "mcp_config": {"command": "program", **settings}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"name": "b", "server": server, **members}))
    return str(path)


@pytest.mark.parametrize(
    ("settings", "members", "message"),
    [
        ({"args": 7}, {}, "its args is not a list"),
        ({"args": "--verbose"}, {}, "its args is not a list"),
        ({"env": ["A=b"]}, {}, "its env is not an object"),
        ({}, {"user_config": ["city"]}, "its user_config is not an object"),
    ],
)
def test_a_manifest_with_a_wrong_type_is_reported(
    tmp_path: Path, settings: dict[str, Any], members: dict[str, Any], message: str
) -> None:
    result = add(tmp_path, "--from", write_manifest(tmp_path, settings, **members))
    assert message in json.loads(result.stdout)["error"]["message"]


def test_a_package_with_a_wrong_type_is_skipped(tmp_path: Path) -> None:
    path = write_server_json(tmp_path, packages=[{**PACKAGE, "registryType": ["npm"]}])
    result = add(tmp_path, "--from", path)
    assert json.loads(result.stdout)["error"]["code"] == "X1814"


def test_an_argument_never_gets_the_value_of_another_secret(tmp_path: Path) -> None:
    secret = {"type": "string", "required": True, "sensitive": True}
    path = write_manifest(
        tmp_path,
        {"args": ["--key=${user_config.token}"]},
        user_config={"key": secret, "token": secret},
    )
    result = add(tmp_path, "--from", path, "--set", "key=SECRET")
    assert "the argument token is a secret" in json.loads(result.stdout)["error"]["message"]
    variables = {"a": {"isSecret": True, "isRequired": True}, "b": {"isSecret": True}}
    variables["b"]["isRequired"] = True
    argument = {"type": "positional", "value": "{a}:{b}", "variables": variables}
    package = {**PACKAGE, "packageArguments": [argument], "environmentVariables": []}
    path = write_server_json(tmp_path, packages=[package])
    result = add(tmp_path, "--from", path, "--set", "a=SECRET")
    assert "the argument b is a secret" in json.loads(result.stdout)["error"]["message"]


def test_a_bundle_with_damaged_data_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "c.mcpb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(MANIFEST))
        offset = archive.infolist()[0].header_offset + 30 + len("manifest.json")
    data = bytearray(path.read_bytes())
    data[offset : offset + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    result = add(tmp_path, "--from", str(path), "--set", "city=Lima")
    assert (result.returncode, json.loads(result.stdout)["error"]["code"]) == (3, "X1814")
