"""Makes an entry of the config from a package, for `exthost add --from`: a server.json of the MCP
registry, an MCP bundle, or the name of a package of npm or PyPI.

From `npm:@scope/server`, for example, it makes an entry with the command `npx -y
@scope/server@1.2.3`. The metadata of the package is not trusted. Names and versions must have the
form of their registry, so that none of them is an option of npx or uvx. A package runs as a list of
words, never by a shell, and the options of its runner are not taken from it, because they could run
something else. The version is pinned.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exthost.errors import ConfigError, Evidence, NotFound, Refused
from exthost.faces.cli.bundle_files import Bundle, open_bundle
from exthost.faces.cli.package_inputs import InputValues, PackageInput

# The form of a name in each registry, and of a version.
_NAMES = {
    "npm": re.compile(r"(@[a-z0-9~][\w.~-]*/)?[a-z0-9~][\w.~-]*", re.ASCII | re.IGNORECASE),
    "pypi": re.compile(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", re.ASCII),
    "oci": re.compile(r"[a-z0-9][\w./:@-]*", re.ASCII | re.IGNORECASE),
}
_VERSION = re.compile(r"[0-9A-Za-z][\w.+!-]*", re.ASCII)
# A version of npm; a tag or a range, such as `next` or `1.2`, may mean another version tomorrow.
_EXACT_VERSION = re.compile(r"v?\d+\.\d+\.\d+([-+].*)?", re.ASCII)
# The only options of its runner that a package may set: they answer yes to "install it?".
_HARMLESS_OPTIONS = frozenset({"-y", "--yes"})

# The variables that name another registry than the usual one. An MCP server gets no variables that
# its entry does not name, so without them npx and uvx would look for the package elsewhere.
_REGISTRY_VARIABLES = {
    "npm": ("NPM_CONFIG_REGISTRY", "npm_config_registry"),
    "pypi": ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
}

# Asking a registry takes a second; npm may retry.
_LOOKUP_SECONDS = 60

# The types in a manifest, as a person calls them.
_KINDS = {list: "a list", dict: "an object"}

# The largest server.json that is read.
_MAX_FILE = 1 << 20


@dataclass(slots=True)
class PackageEntry:
    """An entry of the config without its name, and the name that the package suggests."""

    name: str
    entry: dict[str, Any]
    bundle: Bundle | None = None


def read_package(source: str, values: InputValues, bundles: Path) -> PackageEntry:
    """Return the entry for a package. `bundles` is the folder into which a bundle is unpacked,
    which the caller does. Raises ExthostError."""
    kind, separator, name = source.partition(":")
    path = Path(source)
    if separator and kind in ("npm", "pypi"):
        entry = _named_package(kind, name, values)
    elif path.suffix in (".mcpb", ".dxt"):
        return _bundle_entry(open_bundle(path, bundles), values)
    else:
        entry = _registry_entry(_read_json(path), path, values)
    values.check_all_used(())
    return entry


# -- a name -------------------------------------------------------------------------------------


def _named_package(kind: str, text: str, values: InputValues) -> PackageEntry:
    """Return the entry for NAME or NAME@VERSION; of PyPI also for NAME==VERSION."""
    if kind == "npm":
        separator = text.rfind("@")  # at 0 it is the beginning of a scope: @scope/name
        name, version = (text[:separator], text[separator + 1 :]) if separator > 0 else (text, "")
    else:
        name, _, version = text.replace("==", "@", 1).partition("@")
    _check_name(kind, name, "the package")
    version = _pin_version(kind, name, version, "the package")
    command, args = _runner(kind, name, version)
    return PackageEntry(
        _short_name(name), _process(command, args, _registry_references(kind, values))
    )


def _registry_references(kind: str, values: InputValues) -> dict[str, Any]:
    """Return references to the variables of this host that name a registry. They are not copied,
    because they may contain a password."""
    names = _REGISTRY_VARIABLES.get(kind, ())
    return {name: values.refer_to(name) for name in names if os.environ.get(name)}


def _runner(kind: str, name: str, version: str) -> tuple[str, list[str]]:
    """Return the program that runs a package, and its arguments."""
    if kind == "npm":
        return "npx", ["-y", f"{name}@{version}"]
    return "uvx", [f"{name}@{version}"]


def _pin_version(kind: str, name: str, version: str, owner: str) -> str:
    """Return an exact version: this one, or the one that the registry has for it. Without a
    version, for `latest`, and of npm for a tag or a range such as `next` or `1.2`, it is looked
    up. `owner` is the subject of the error about a text that is not a version."""
    if version:
        _check_version(version, owner)
    if version in ("", "latest"):
        version = _find_version(kind, name)
    elif kind == "npm" and not _EXACT_VERSION.fullmatch(version):
        version = _find_version(kind, f"{name}@{version}")
    _check_version(version, owner)
    return version


def _find_version(kind: str, name: str) -> str:
    """Return the newest version of a package, from its registry. The name of a package of npm may
    end in a tag or a range, such as `name@next`."""
    if kind == "npm":
        command = ["npm", "view", name, "version", "--json"]
    elif shutil.which("uv"):
        command = ["uv", "pip", "compile", "--quiet", "--no-deps", "--no-header", "-"]
    else:
        options = ["--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-"]
        command = [sys.executable, "-m", "pip", "install", *options, name]
    try:
        result = subprocess.run(
            command,
            input=name,
            capture_output=True,
            text=True,
            timeout=_LOOKUP_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _lookup_error(kind, name, f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        reason = f"{command[0]} had no answer after {_LOOKUP_SECONDS} s"
        raise _lookup_error(kind, name, reason) from None
    version = _read_version(command[0], name, result.stdout) if result.returncode == 0 else ""
    if not version:
        last = result.stderr.strip().splitlines()[-1:] or [f"exit status {result.returncode}"]
        raise _lookup_error(kind, name, last[0][:200])
    return version


def _read_version(program: str, name: str, output: str) -> str:
    """Return the version in the output of uv, npm or pip; "" if there is none."""
    if program == "uv":
        match = re.search(r"^[\w.-]+==(\S+)", output, re.MULTILINE)
        return match[1] if match else ""
    try:
        data = json.loads(output)
    except ValueError:
        return ""
    if program == "npm":
        # All versions of a range, the newest last.
        newest = data[-1] if isinstance(data, list) and data else data
        return newest if isinstance(newest, str) else ""
    try:
        return str(data["install"][0]["metadata"]["version"])
    except (LookupError, TypeError):
        return ""


def _lookup_error(kind: str, name: str, reason: str) -> NotFound:
    plain_name = name[: name.find("@", 1)] if "@" in name[1:] else name
    exact = f"npm:{plain_name}@1.2.3" if kind == "npm" else f"pypi:{name}==1.2.3"
    return NotFound(
        "X1813",
        f"the version of {name} could not be found at {kind}: {reason}",
        help=f"check the name, or name the version: {exact}",
    )


# -- server.json --------------------------------------------------------------------------------


def _read_json(path: Path) -> Mapping[str, Any]:
    """Return the object in a server.json. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        document = json.loads(data[:_MAX_FILE])
    except OSError as error:
        raise ConfigError(
            "X1814",
            f"{path} cannot be read: {error.strerror}",
            help="pass a server.json, a FILE.mcpb, npm:NAME or pypi:NAME",
            evidence=Evidence(path=str(path)),
        ) from None
    except (ValueError, RecursionError):
        raise _document_error(path, "it is not JSON") from None
    if isinstance(document, dict) and isinstance(document.get("server"), dict):
        document = document["server"]  # as the API of the registry has it
    if not isinstance(document, dict):
        raise _document_error(path, "it is not an object")
    return document


def _registry_entry(document: Mapping[str, Any], path: Path, values: InputValues) -> PackageEntry:
    """Return the entry for the first package in a server.json that exthost can run on stdio, or
    else for its first remote server."""
    name = document.get("name")
    if not isinstance(name, str):
        raise _document_error(path, "it has no name")
    short = _short_name(name.rpartition("/")[2])
    problems = []
    for package in _tables(document.get("packages")):
        kind = package.get("registryType", package.get("registry_name"))
        transport = package.get("transport")
        if isinstance(transport, dict) and transport.get("type", "stdio") != "stdio":
            problems.append(f"a package on {transport.get('type')!r:.40}")
        elif isinstance(kind, str) and kind in _NAMES:
            return PackageEntry(short, _package_entry(kind, package, values))
        else:
            problems.append(f"a package of {kind!r:.40}")
    for remote in _tables(document.get("remotes")):
        return PackageEntry(short, _remote_entry(short, remote, values))
    found = ", ".join(problems) or "no package and no remote"
    raise _document_error(path, f"it has {found}, and none that exthost can run")


def _package_entry(kind: str, package: Mapping[str, Any], values: InputValues) -> dict[str, Any]:
    """Return the entry that runs a package of a server.json. `kind` is a key of `_NAMES`."""
    name = str(package.get("identifier", package.get("name", "")))
    version = str(package.get("version") or "")
    _check_name(kind, name, "its package")
    if kind != "oci":
        version = _pin_version(kind, name, version, "its package")
    for argument in _tables(package.get("runtimeArguments")):
        option = str(argument.get("name") or argument.get("value") or "")
        if option not in _HARMLESS_OPTIONS:
            raise Refused(
                "X1815",
                f"its package passes {option!r:.60} to the program that runs it, which could run "
                "anything",
                help="read what it does; if you agree, add it by hand: exthost add NAME -- …",
            )
    env = _registry_references(kind, values)
    for variable in _tables(package.get("environmentVariables")):
        wanted = _input(variable)
        template = variable.get("value")
        if isinstance(template, str):
            value: Any = _filled(template, variable, wanted.name, values)
        else:
            value = values.find_variable(wanted.name, wanted)
        if value is not None:
            env[wanted.name] = value
    arguments = _arguments(package.get("packageArguments"), values)
    if kind == "oci":
        # `-e NAME` without a value passes the variable of the docker command to the container.
        variables = [word for variable_name in env for word in ("-e", variable_name)]
        image = f"{name}:{version}" if version and ":" not in name.rpartition("/")[2] else name
        return _process("docker", ["run", "-i", "--rm", *variables, image, *arguments], env)
    command, args = _runner(kind, name, version)
    return _process(command, [*args, *arguments], env)


def _arguments(value: Any, values: InputValues) -> list[str]:
    """Return the words of the command line that the `packageArguments` of a package describe."""
    words: list[str] = []
    for argument in _tables(value):
        wanted = _input(argument, argument.get("valueHint"))
        option = str(argument.get("name") or "") if argument.get("type") == "named" else ""
        if isinstance(argument.get("value"), str):
            inner = _inner_inputs(argument)
            text = values.fill(argument["value"], inner)
            if text is None:  # it has a secret, which an argument cannot refer to
                secret = next(
                    item
                    for item in inner.values()
                    if item.is_secret and item.name not in values.given
                )
                text = values.find_argument(secret)
        elif option and argument.get("format") == "boolean":
            flag = values.find(wanted)
            words += [option] if flag == "true" else []
            continue
        else:
            text = values.find_argument(wanted)
        if text is None:
            continue
        words += [option, text] if option else [text]
    return words


def _remote_entry(name: str, remote: Mapping[str, Any], values: InputValues) -> dict[str, Any]:
    """Return the entry for a remote server in a server.json."""
    url = str(remote.get("url") or "")
    source: dict[str, Any] = {"type": "http", "url": _filled(url, remote, f"{name}_URL", values)}
    if remote.get("type") == "sse":
        source["transport"] = "sse"
    headers: dict[str, Any] = {}
    for header in _tables(remote.get("headers")):
        wanted = _input(header)
        variable = f"{name}_{wanted.name}".upper()
        template = header.get("value")
        if isinstance(template, str):
            value: Any = _filled(template, header, variable, values)
        else:
            value = values.find_variable(variable, wanted)
        if value is not None:
            headers[wanted.name] = value
    if headers:
        source["headers"] = headers
    return {"dialect": "mcp", "source": source}


def _filled(text: str, parent: Mapping[str, Any], variable: str, values: InputValues) -> Any:
    """Return a text with its placeholders replaced. If one of them is a secret, return a reference
    to the environment variable `variable`, which must then have the whole text."""
    filled = values.fill(text, _inner_inputs(parent))
    return values.refer_to(variable.upper()) if filled is None else filled


def _inner_inputs(parent: Mapping[str, Any]) -> dict[str, PackageInput]:
    """Return the inputs that the text of a variable, argument, header or URL refers to, by name."""
    variables = parent.get("variables")
    tables = variables.items() if isinstance(variables, dict) else ()
    return {name: _input({**item, "name": name}) for name, item in tables if isinstance(item, dict)}


def _input(table: Mapping[str, Any], hint: Any = None) -> PackageInput:
    """Return the input that an object in a server.json describes. `hint` is its name if the object
    has none."""
    name = table.get("name") or hint or "value"
    choices = table.get("choices")
    default = table.get("default")
    return PackageInput(
        name=str(name).lstrip("-"),
        description=str(table.get("description") or "")[:300],
        default=_default_text(default),
        is_required=table.get("isRequired") is True,
        is_secret=table.get("isSecret") is True,
        choices=tuple(map(str, choices)) if isinstance(choices, list) else (),
    )


# -- a bundle -----------------------------------------------------------------------------------


def _bundle_entry(bundle: Bundle, values: InputValues) -> PackageEntry:
    """Return the entry for a bundle, from its manifest."""
    manifest, folder = bundle.manifest, str(bundle.folder)
    server = manifest.get("server")
    settings = server.get("mcp_config") if isinstance(server, dict) else None
    if not isinstance(settings, dict) or not isinstance(settings.get("command"), str):
        raise _document_error(bundle.path, "its manifest has no server.mcp_config.command")
    overrides = settings.get("platform_overrides")
    override = overrides.get(sys.platform) if isinstance(overrides, dict) else None
    settings = {**settings, **(override if isinstance(override, dict) else {})}
    for key, kind in (("args", list), ("env", dict)):
        if not isinstance(settings.get(key) or kind(), kind):
            raise _document_error(bundle.path, f"its {key} is not {_KINDS[kind]}")
    if not isinstance(manifest.get("user_config") or {}, dict):
        raise _document_error(bundle.path, "its user_config is not an object")
    inputs = _bundle_inputs(manifest)

    def fill(text: str) -> str | None:
        """Return a text with its placeholders replaced; None if one of them is a secret."""
        filled_text = (
            text.replace("${__dirname}", folder)
            .replace("${/}", "/")
            .replace("${HOME}", str(Path.home()))
        )
        names = re.findall(r"\$\{user_config\.([\w-]+)\}", filled_text)
        for name in names:
            wanted = inputs.get(name)
            if wanted is None:
                raise _document_error(bundle.path, f"its manifest uses {name!r}, and lacks it")
            if wanted.is_secret and name not in values.given:
                return None
            value = values.find(wanted)
            filled_text = filled_text.replace(f"${{user_config.{name}}}", value or "")
        return filled_text

    words = [str(settings["command"]), *map(str, settings.get("args") or ())]
    args = []
    for word in words:
        filled = fill(word)
        if filled is None:
            secret = next(
                item
                for item in inputs.values()
                if item.is_secret
                and item.name not in values.given
                and f"${{user_config.{item.name}}}" in word
            )
            filled = values.find_argument(secret) or ""
        args.append(filled)
    env: dict[str, Any] = {}
    for name, text in (settings.get("env") or {}).items():
        filled = fill(str(text))
        env[str(name)] = values.refer_to(str(name)) if filled is None else filled
    entry = _process(args[0], args[1:], env)
    entry["cwd"] = folder
    values.check_all_used(inputs)
    return PackageEntry(_short_name(str(manifest.get("name") or bundle.path.stem)), entry, bundle)


def _bundle_inputs(manifest: Mapping[str, Any]) -> dict[str, PackageInput]:
    """Return the inputs in the `user_config` of a manifest, by name."""
    return {
        name: PackageInput(
            name=name,
            description=str(item.get("description") or item.get("title") or "")[:300],
            default=_default_text(item.get("default")),
            is_required=item.get("required") is True,
            is_secret=item.get("sensitive") is True,
        )
        for name, item in (manifest.get("user_config") or {}).items()
        if isinstance(item, dict)
    }


# -- parts --------------------------------------------------------------------------------------


def _process(command: str, args: list[str], env: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of an MCP server that this command starts."""
    source: dict[str, Any] = {"type": "process", "command": command}
    if args:
        source["args"] = args
    if env:
        source["env"] = env
    return {"dialect": "mcp", "source": source}


def _default_text(value: Any) -> str:
    """Return the default value of an input as text, such as "true"; "" if there is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tables(value: Any) -> list[Mapping[str, Any]]:
    """Return the items of a JSON list that are objects; empty if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _short_name(name: str) -> str:
    """Return the name of a package as a name of an extension: without scope, letters and digits."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name.rpartition("/")[2]).strip("-") or "server"


def _check_name(kind: str, name: str, owner: str) -> None:
    if not _NAMES[kind].fullmatch(name):
        raise Refused(
            "X1815",
            f"{owner} is called {name!r:.60}, which is not a name of {kind}",
            help="do not use this package, or correct the name",
        )


def _check_version(version: str, owner: str) -> None:
    if not _VERSION.fullmatch(version):
        raise Refused(
            "X1815",
            f"{owner} has the version {version!r:.60}, which is not one",
            help="do not use this package, or name a version",
        )


def _document_error(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        "X1814",
        f"{path}: {reason}",
        help="pass a server.json, a FILE.mcpb, npm:NAME or pypi:NAME",
        evidence=Evidence(path=str(path)),
    )
