"""The two files by which an MCP server is published, from a project that `exthost new` made.

A bundle (`.mcpb`) is an archive with a manifest, the program and its libraries, which a desktop
program installs. `server.json` is the entry for the public registry of MCP servers.
"""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import exthost_sdk
import jsonschema_rs
import pytest
from exthost_sdk.scaffold import create

from exthost.authoring.mcp_bundle import (
    json_bytes,
    make_bundle,
    make_bundle_name,
    make_manifest,
    make_server_json,
    read_project,
)
from exthost.errors import UsageError
from exthost.model.offer import Tool

SDK = Path(exthost_sdk.__file__).parent
TOOLS = (Tool("shout", "Upper case"),)

# The published schemas of the MCP registry (Apache-2.0) and of MCP bundles (MIT), in the versions
# that are written.
DATA = Path(__file__).parents[1] / "data"
SERVER_SCHEMA = json.loads((DATA / "mcp_registry_server_2025-12-11.schema.json").read_text())
MANIFEST_SCHEMA = json.loads((DATA / "mcp_bundle_manifest_0.3.schema.json").read_text())


def names_in(bundle: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(bundle)).namelist()


def test_a_bundle_of_python_has_the_program_and_the_sdk_and_no_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    create(str(folder), "mcp")
    (folder / ".env").write_text("KEY=1")
    (folder / "key.pem").write_text("secret")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "module.py").write_text("")
    project = read_project(folder, ["python3", "extension.py", "--dialect", "mcp"])
    manifest = make_manifest(project, "0.1.0", TOOLS)
    bundle = make_bundle(folder, project, manifest, SDK)
    names = names_in(bundle)
    assert [name for name in names if not name.startswith("lib/")] == [
        "manifest.json",
        "extension.py",
        "README.md",
    ]
    assert "lib/exthost_sdk/__init__.py" in names
    assert manifest["server"]["mcp_config"] == {
        "command": "python3",
        "args": ["${__dirname}/extension.py"],
        "env": {"PYTHONPATH": "${__dirname}/lib"},
    }
    assert manifest["tools"] == [{"name": "shout", "description": "Upper case"}]
    assert make_bundle(folder, project, manifest, SDK) == bundle, "each build gives the same bytes"


def test_the_entry_for_a_registry_names_the_package_or_the_bundle(tmp_path: Path) -> None:
    python, go = tmp_path / "fresh", tmp_path / "compiled"
    create(str(python), "mcp")
    create(str(go), "mcp", language="go")
    (go / "compiled").write_bytes(b"program")
    project = read_project(python, ["python3", "extension.py"])
    entry = make_server_json(project, "0.1.0", "io.github.me", url="", sha256="")
    assert entry["name"] == "io.github.me/fresh"
    assert entry["packages"][0]["registryType"] == "pypi"
    project = read_project(go, [str(go / "compiled")])
    entry = make_server_json(project, "0.1.0", "io.github.me", url="https://a/b", sha256="ab")
    assert entry["packages"][0]["identifier"] == "https://a/b"
    assert entry["packages"][0]["fileSha256"] == "ab"


@pytest.mark.parametrize("language", ["python", "typescript", "go", "rust"])
def test_the_files_are_valid_by_the_published_schemas(language: str, tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    create(str(folder), "mcp", language=language)
    program = {"go": "fresh", "rust": "target/release/fresh"}.get(language, "extension.js")
    (folder / program).parent.mkdir(parents=True, exist_ok=True)
    (folder / program).write_bytes(b"")
    if language == "typescript":
        package = json.loads((folder / "package.json").read_text())
        # The schema of the registry limits the description to 100 characters.
        package |= {"name": "@scope/fresh", "description": "It describes itself at length. " * 9}
        (folder / "package.json").write_text(json.dumps(package))
    command = ["python3", "extension.py"] if language == "python" else [str(folder / program)]
    project = read_project(folder, command)
    manifest = make_manifest(project, "0.1.0", TOOLS)
    jsonschema_rs.validate(MANIFEST_SCHEMA, manifest)
    url, digest = "https://github.com/me/fresh/releases/fresh.mcpb", "ab" * 32
    entry = make_server_json(project, "0.1.0", "io.github.me", url=url, sha256=digest)
    jsonschema_rs.validate(SERVER_SCHEMA, entry)
    assert entry["$schema"] == SERVER_SCHEMA["$id"] and entry["name"] == "io.github.me/fresh"


def test_a_program_outside_of_the_folder_or_not_built_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    create(str(folder), "mcp", language="typescript")
    with pytest.raises(UsageError, match=r"extension\.js"):
        read_project(folder, [])
    (tmp_path / "other.js").write_text("")
    package = json.loads((folder / "package.json").read_text())
    package["bin"] = "../other.js"
    (folder / "package.json").write_text(json.dumps(package))
    with pytest.raises(UsageError, match="is not in"):
        read_project(folder, [])
    (folder / "package.json").write_text("[]")
    with pytest.raises(UsageError, match="cannot be read"):
        read_project(folder, [])


def test_the_names_of_dependencies_are_read_in_every_form(tmp_path: Path) -> None:
    dependencies = [
        *("exthost-sdk==1.0", "exthost_sdk[cigen]>=0.5", "Exthost-SDK ~= 1", "exthost"),
        *("httpx[http2]~=0.27", "rich<14", "uvloop; sys_platform != 'win32'", "six"),
    ]
    (tmp_path / "main.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        f"[project]\nname = 'a'\ndependencies = {dependencies}\n"
    )
    project = read_project(tmp_path, ["python3", str(tmp_path / "main.py")])
    assert project.dependencies == ("httpx", "rich", "uvloop", "six")
    assert project.entry == "main.py" in project.files


def test_the_program_of_a_node_project_has_its_plain_path_in_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/index.js").touch()
    package = {"name": "a", "version": "1", "bin": {"a": "./dist/index.js"}}
    (tmp_path / "package.json").write_text(json.dumps(package))
    project = read_project(tmp_path, ["node", "dist/index.js"])
    names = names_in(make_bundle(tmp_path, project, {}, SDK))
    assert project.entry == "dist/index.js" and "dist/index.js" in names
    (tmp_path / "package.json").write_text(json.dumps({**package, "bin": {}}))
    with pytest.raises(UsageError, match="names no program"):
        read_project(tmp_path, ["node", "dist/index.js"])


PACKAGE = {"name": "a", "version": "1", "bin": {"a": "./index.js"}}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": 5}, "its name is not text"),
        ({"name": ""}, "its name is empty"),
        ({"version": 1}, "its version is not text"),
        ({"description": ["a"]}, "its description is not text"),
        ({"author": {"name": "\ud800"}}, "its author is not text in UTF-8"),
        ({"bin": {"a": "a\0b"}}, "null byte"),
    ],
)
def test_a_value_of_a_project_that_is_not_usable_text_is_refused(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "index.js").touch()
    (tmp_path / "package.json").write_text(json.dumps({**PACKAGE, **change}))
    with pytest.raises(UsageError, match=problem) as caught:
        read_project(tmp_path, [])
    assert caught.value.code == "X1901"


def test_a_deeply_nested_project_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("[" * 100_000)
    with pytest.raises(UsageError, match="cannot be read"):
        read_project(tmp_path, [])


def test_only_plain_files_are_in_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    (tmp_path / "real.py").touch()
    (tmp_path / "main.py").symlink_to("real.py")
    (tmp_path / "linked.py").symlink_to("real.py")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "README")
    project = read_project(tmp_path, ["python3", "main.py"])
    names = names_in(make_bundle(tmp_path, project, {}, SDK))
    assert [name for name in names if not name.startswith("lib/")] == [
        "manifest.json",
        "main.py",
        "real.py",
    ]


def test_a_file_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    (tmp_path / "main.py").touch()
    (tmp_path / os.fsdecode(b"\xff.py")).touch()
    with pytest.raises(UsageError, match=r"udcff\.py' is not UTF-8"):
        read_project(tmp_path, ["python3", "main.py"])


def test_a_file_that_disappears_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.js").touch()
    (tmp_path / "package.json").write_text(json.dumps(PACKAGE))
    project = read_project(tmp_path, [])
    (tmp_path / "index.js").unlink()
    with pytest.raises(UsageError, match=r"index\.js cannot be read: No such file"):
        make_bundle(tmp_path, project, {}, SDK)
    with pytest.raises(UsageError, match="cannot be read"):
        read_project(tmp_path / "missing", [])


@pytest.mark.parametrize("version", ["1/../2", "1\0", "\ud800"])
def test_a_version_that_is_not_part_of_a_file_name_is_refused(version: str, tmp_path: Path) -> None:
    (tmp_path / "index.js").touch()
    (tmp_path / "package.json").write_text(json.dumps(PACKAGE))
    project = read_project(tmp_path, [])
    assert make_bundle_name(project, "1.0") == "a-1.0.mcpb"
    with pytest.raises(UsageError, match="cannot be written to a file with the name"):
        make_bundle_name(project, version)


def test_a_value_of_a_cargo_workspace_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "program").touch()
    (tmp_path / "Cargo.toml").write_text(
        "[package]\nname = 'a'\nversion.workspace = true\nauthors = { workspace = true }\n"
    )
    project = read_project(tmp_path, ["./program"])
    assert (project.version, project.author) == ("", "")


def test_a_description_with_half_a_character_can_be_written() -> None:
    assert json_bytes({"a": "\ud800"}) == b'{\n  "a": "?"\n}\n'
