"""The files by which an MCP server is published: a bundle, and its entry in a registry. `exthost
pack` writes them. Does no I/O except reading the folder of the project.

A bundle (`.mcpb`) is a zip with a manifest, which clients install by a click. `server.json`
describes a server to a registry. A bundle has only the files that a program needs, by an allowlist:
no key and no `.env` file of the author is published.
"""

import io
import json
import os
import re
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from exthost.errors import UsageError
from exthost.model.offer import Tool

MANIFEST_VERSION = "0.3"
_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

# The registry refuses a longer description, in characters.
_MAX_DESCRIPTION = 100

# Files for people that a bundle contains, by the beginnings of their names.
_DOCUMENTS = ("README", "LICENSE", "LICENCE", "NOTICE", "CHANGELOG")

# The folder of a bundle with the packages that a program of Python imports.
_LIBRARY = "lib"

# Every file of a zip has this time, so that the same files make the same bundle.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What the files of a project say about it.

    kind          how the program runs, as a bundle's manifest names it
    registry      the registry of packages that has it; "" for one that is published as a bundle
    name          its name there
    version       its version; "" if only the program knows it
    description   one line
    author        the name of its author; "" if none is named
    entry         the program that a bundle starts, relative to the folder
    files         all files of the bundle, relative to the folder
    dependencies  packages that the program imports besides the SDK; a bundle does not contain them
    """

    kind: Literal["python", "node", "binary"]
    registry: Literal["pypi", "npm", ""]
    name: str
    version: str
    description: str
    author: str
    entry: str
    files: tuple[str, ...]
    dependencies: tuple[str, ...] = ()


def read_project(folder: Path, argv: Iterable[str]) -> Project:
    """Return the project in a folder; `argv` is the command that runs its program. Raises
    UsageError."""
    try:
        documents = tuple(
            path.name
            for path in sorted(folder.iterdir())
            if _is_plain_file(path) and path.name.startswith(_DOCUMENTS)
        )
        if (folder / "package.json").is_file():
            project = _read_node_project(folder, documents)
        elif (folder / "pyproject.toml").is_file():
            project = _read_python_project(folder, documents, list(argv))
        else:
            project = _read_binary_project(folder, documents, list(argv))
        _check_texts(project)
        return project
    except (
        ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError
    ) as error:  # fmt: skip
        raise UsageError(
            "X1901", f"the project in {folder} cannot be read: {error!r}", help=_HELP
        ) from None


def _is_plain_file(path: Path) -> bool:
    """Return whether a path is a file of the folder: not a link, a folder or a pipe."""
    return path.is_file() and not path.is_symlink()


def _check_texts(project: Project) -> None:
    """Raise TypeError or ValueError unless the values of a project are texts that JSON, and the
    names of files that a zip can have."""
    for key in ("name", "version", "description", "author"):
        value = getattr(project, key)
        if not isinstance(value, str):
            raise TypeError(f"its {key} is not text: {value!r}")
        if not _is_unicode(value):
            raise ValueError(f"its {key} is not text in UTF-8: {value!r}")
    if not project.name:
        raise ValueError("its name is empty")
    for name in project.files:
        if not _is_unicode(name):
            raise ValueError(f"the name of the file {name!r} is not UTF-8")


def _is_unicode(text: str) -> bool:
    """Return whether a text has no surrogate, as the name of a file may have that is not UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


_HELP = "compare its package.json, pyproject.toml or Cargo.toml with those of `exthost new`"


def _read_node_project(folder: Path, documents: tuple[str, ...]) -> Project:
    package = json.loads((folder / "package.json").read_text("utf-8"))
    programs = package["bin"]
    if programs == {}:
        raise ValueError("`bin` of package.json names no program")
    program = programs if isinstance(programs, str) else next(iter(programs.values()))
    entry = _check_entry(folder, program, "npm install && npm run build")
    return Project(
        kind="node",
        registry="npm",
        name=package["name"],
        version=package["version"],
        description=package.get("description") or "",
        author=_author_name(package.get("author", "")),
        entry=entry,
        files=(entry, "package.json", *documents),
        dependencies=tuple(package.get("dependencies", {})),
    )


def _read_python_project(folder: Path, documents: tuple[str, ...], argv: list[str]) -> Project:
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    program = next((word for word in argv if word.endswith(".py")), "")
    entry = _check_entry(folder, program, "name the program in the command")
    authors = project.get("authors", [])
    names = [_package_name(text) for text in project.get("dependencies", [])]
    modules = [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*.py"))
        if _is_module(path.relative_to(folder)) and _is_plain_file(path)
    ]
    return Project(
        kind="python",
        registry="pypi",
        name=project["name"],
        version=project.get("version", ""),
        description=project.get("description", ""),
        author=authors[0].get("name", "") if authors else "",
        entry=entry,
        # The program may be a link, or in a folder whose other modules are left out.
        files=(entry, *modules, *documents),
        dependencies=tuple(
            name for name in names if _normalize(name) not in ("exthost-sdk", "exthost")
        ),
    )


def _package_name(dependency: str) -> str:
    """Return the name in a dependency such as `httpx[http2] ~= 0.27 ; os_name == 'posix'`."""
    match = re.match(r"[\w.-]+", dependency.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"{dependency!r} is not a dependency")
    return match[0]


def _normalize(name: str) -> str:
    """Return the form of a name in which PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_module(path: Path) -> bool:
    """Return whether a module belongs to the program: not to a hidden folder, an environment, a
    build or a test."""
    skipped = ("tests", "test", "dist", "build", "node_modules", "venv", "env")
    in_program = not any(part.startswith(".") or part in skipped for part in path.parts[:-1])
    return in_program and not path.name.startswith(("test_", "conftest"))


def _read_binary_project(folder: Path, documents: tuple[str, ...], argv: list[str]) -> Project:
    cargo = folder / "Cargo.toml"
    package = tomllib.loads(cargo.read_text("utf-8"))["package"] if cargo.is_file() else {}
    # `version.workspace = true` takes a value from a manifest above the folder.
    package = {
        key: value
        for key, value in package.items()
        if not (isinstance(value, Mapping) and "workspace" in value)
    }
    program = Path(argv[0] if argv else "")
    inside = program.is_absolute() and program.is_relative_to(folder)
    word = program.relative_to(folder).as_posix() if inside else argv[0] if argv else ""
    # A name without a slash is a program on PATH, such as `sh` for a script.
    fix = (
        "build it first"
        if "/" in word
        else "a bundle contains a program in Python, TypeScript, JavaScript, Go or Rust; "
        "publish the folder of a script itself"
    )
    entry = _check_entry(folder, word, fix)
    return Project(
        kind="binary",
        registry="",
        name=package.get("name", folder.resolve().name),
        version=package.get("version", ""),
        description=package.get("description", ""),
        author=_author_name(next(iter(package.get("authors", [])), "")),
        entry=entry,
        files=(entry, *documents),
    )


def _author_name(author: Any) -> str:
    """Return the name of an author, given as an object, or as `Name <address>`."""
    text = author.get("name", "") if isinstance(author, Mapping) else str(author)
    return text.partition("<")[0].strip()


def _check_entry(folder: Path, entry: str, fix: str) -> str:
    """Return the path of the program. Raises UsageError if it is not a file of the folder."""
    path = (folder / entry).resolve()
    if not entry or not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise UsageError("X1902", f"the program {entry!r} is not in {folder}", help=fix)
    if not (folder / entry).is_relative_to(folder):  # an absolute path by way of a symlink
        return path.relative_to(folder.resolve()).as_posix()
    return os.path.relpath(folder / entry, folder)  # "dist/index.js" for "./dist/index.js"


def make_manifest(project: Project, version: str, tools: Iterable[Tool]) -> dict[str, Any]:
    """Return the manifest of the bundle."""
    inside = f"${{__dirname}}/{project.entry}"
    runners = {"python": "python3", "node": "node"}
    config: dict[str, Any] = {"command": inside, "args": []}
    if project.kind in runners:
        config = {"command": runners[project.kind], "args": [inside]}
    if project.kind == "python":
        config["env"] = {"PYTHONPATH": f"${{__dirname}}/{_LIBRARY}"}
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": project.name,
        "version": version,
        "description": project.description or project.name,
        "author": {"name": project.author or "unknown"},
        "server": {"type": project.kind, "entry_point": project.entry, "mcp_config": config},
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools],
    }


def make_server_json(
    project: Project, version: str, namespace: str, *, url: str, sha256: str
) -> dict[str, Any]:
    """Return the entry for a registry of MCP servers. A server that no registry of packages has is
    named by the `url` of its bundle, and its digest."""
    package: dict[str, Any] = {"transport": {"type": "stdio"}, "version": version}
    if project.registry:
        package |= {"registryType": project.registry, "identifier": project.name}
    else:
        package |= {"registryType": "mcpb", "identifier": url, "fileSha256": sha256}
    short_name = project.name.rpartition("/")[2]  # of a package `@scope/name` of npm
    return {
        "$schema": _SCHEMA,
        "name": f"{namespace}/{short_name}",
        "description": (project.description or short_name)[:_MAX_DESCRIPTION],
        "version": version,
        "packages": [package],
    }


def make_bundle(folder: Path, project: Project, manifest: Any, sdk: Path) -> bytes:
    """Return the bundle as a zip. `sdk` is the folder of the package `exthost_sdk`, which a program
    of Python gets. Raises UsageError if a file cannot be read."""
    contents = {"manifest.json": json_bytes(manifest)}
    for name in dict.fromkeys(project.files):
        try:
            contents[name] = (folder / name).read_bytes()
        except OSError as error:
            raise UsageError(
                "X1901", f"{folder / name} cannot be read: {error.strerror}", help=_HELP
            ) from None
    if project.kind == "python":
        for path in sorted(sdk.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                inside = Path(_LIBRARY, sdk.name, path.relative_to(sdk)).as_posix()
                contents[inside] = path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, _ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            # The upper 16 bits are the file mode of Unix.
            info.external_attr = (0o755 if name == project.entry else 0o644) << 16
            bundle.writestr(info, data)
    return buffer.getvalue()


def make_bundle_name(project: Project, version: str) -> str:
    """Return the name of the file of the bundle. Raises UsageError if no file can have it."""
    name = f"{project.name.replace('/', '-').lstrip('@')}-{version}.mcpb"
    if "/" in name or "\0" in name or not _is_unicode(name):
        raise UsageError(
            "X1901",
            f"the bundle cannot be written to a file with the name {name!r}",
            help="correct the version, which has a character that no name of a file can have",
        )
    return name


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON. A surrogate, which the description of a tool may contain, becomes
    `?`."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(errors="replace")
