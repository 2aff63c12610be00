"""Decides for each MCP server of another program, such as an editor, whether and how `exthost mcp
import` adds it to the config. Does no I/O.

Secrets are not copied. A variable that looks like a secret, by its name or its value, is written as
a reference to an environment variable of the host. So are the token, most headers, and the URL of a
remote server, if it has a part that may be a key. A server with a secret in its arguments is not
imported. With `with_secrets`, all of these are copied. Text for the user never has the value of a
secret.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exthost.config import config_from_mapping
from exthost.errors import ConfigError
from exthost.faces.cli.server_files import ForeignServer
from exthost.model.names import variable_name
from exthost.model.secret_names import is_secret_name
from exthost.model.spec import Spec
from exthost.session.trace.secrets import HIDDEN

_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
# A placeholder that names an environment variable (group 1) or an input of the program (group 2).
_VARIABLE = re.compile(r"\$\{(?:(?:env:)?([A-Za-z_]\w*)|input:([\w.-]+))\}", re.ASCII)

# Values that are secrets under any name: keys of well-known services (`ghp_…` of GitHub), bearer
# tokens (`Bearer …`), and what follows the name of a header (`Authorization: Basic …`).
_SECRET_VALUE = re.compile(
    r"\b(?:sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abpr]-|AKIA|AIza|hf_|npm_|eyJ)[\w-]{8,}"
    r"|\b[Bb]earer +\S+|(?<=\b[Aa]uthorization)\s*[:=].*"
)
# `user:password` in `postgres://user:password@host/db`.
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
# A name and its value: --NAME=VALUE, NAME: VALUE, or NAME=VALUE in the query of a URL.
_ASSIGNMENT = re.compile(
    r"(?:^|(?<=[?&;\s]))-{0,2}([A-Za-z][\w.-]*)[=:](?!//) ?(\"[^\"]*\"|'[^']*'|[^&;?\s]+)"
)


# A longer part of the path of a URL may be a key.
_MAX_SHOWN_PATH_PART = 16

# What is shown in place of a text that is not a URL, or only a placeholder.
_NO_URL = "no URL"

# Headers that have no secrets.
_PUBLIC_HEADERS = frozenset(("accept", "accept-language", "content-type", "user-agent"))


class ImportDecision(StrEnum):
    """The decision about a server. Only a new server is imported."""

    NEW = "new"
    PRESENT = "present"  # the config has it already
    DUPLICATE = "duplicate"  # another program has the same server
    DISABLED = "disabled"
    ITSELF = "itself"  # it is exthost
    SECRET = "secret"  # a secret is among its arguments
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a server, with its details. `name` is the name of the server in the config
    of exthost, `state` is the decision, and `server` is the server. `detail` is the command line or
    the URL of a new server, or the reason why a server is not imported. For a new server, `table`
    is the table that is written to the config, and `variables` are the environment variables that
    the host must have for the server."""

    name: str
    state: ImportDecision
    server: ForeignServer
    detail: str
    table: Mapping[str, Any] = field(default_factory=dict, repr=False)
    variables: tuple[str, ...] = ()


def plan_import(
    servers: Iterable[ForeignServer],
    config_specs: Iterable[Spec],
    folder: Path,
    *,
    with_secrets: bool = False,
) -> list[Verdict]:
    """Return the verdict for each server. `config_specs` are the extensions that the config has
    already, and `folder` is the folder of the config."""
    config_index = _ServerIndex()
    for spec in config_specs:
        config_index.add(spec.id, spec.argv, (_comparable_env(spec.env), spec.cwd))
    import_index = _ServerIndex()
    verdicts = []
    for server in servers:
        verdict = _decide(server, folder, with_secrets)
        if verdict.state is ImportDecision.NEW:
            table = verdict.table
            argv = _comparable_argv(server.name, table)
            # The URLs themselves, since two servers with a key in the URL have the same reference.
            full_argv = (str(server.table["url"]), *argv) if "url" in table else argv
            environment = (_comparable_env(table.get("env", {})), table.get("cwd", str(folder)))
            if same_server := config_index.find(server.name, argv, environment):
                detail = f"the same as {same_server}, which the config has"
                verdict = Verdict(server.name, ImportDecision.PRESENT, server, detail)
            elif same_server := import_index.find(server.name, full_argv, environment):
                verdict = Verdict(
                    server.name, ImportDecision.DUPLICATE, server, f"the same as {same_server}"
                )
            else:
                name = _free_name(server, config_index.names | import_index.names)
                import_index.add(name, full_argv, environment)
                if name != server.name:  # the name is a part of the names of its variables
                    verdict = _decide(replace(server, name=name), folder, with_secrets)
                verdict = replace(verdict, name=name, server=server)
        verdicts.append(verdict)
    return verdicts


class _ServerIndex:
    """Servers by name, and by command line with environment. `environment` is any hashable value
    that has the variables and the working folder. The command line of a remote server is its URL,
    so remote servers of one name are the same if they have the same URL, whatever their headers."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[str, ...]] = {}
        self._by_program: dict[Any, str] = {}

    @property
    def names(self) -> set[str]:
        return set(self._by_name)

    def add(self, name: str, argv: Iterable[str], environment: Any) -> None:
        self._by_name[name] = command = tuple(argv)
        self._by_program.setdefault((command, environment), name)

    def find(self, name: str, argv: tuple[str, ...], environment: Any) -> str | None:
        """Return the name of a server with the same command line that has the same name or the same
        environment, or None."""
        if self._by_name.get(name) == argv:
            return name
        return self._by_program.get((argv, environment))


def _comparable_argv(name: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the command line that an entry of the config gives; for a remote server, its URL."""
    [spec] = config_from_mapping({"mcp_servers": {name: table}}).specs
    return spec.argv


def _comparable_env(env: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return variables in a form that can be compared. A reference is represented by the name of
    the variable that it refers to."""
    return frozenset(
        (name, str(value["from"] if isinstance(value, dict) else value))
        for name, value in env.items()
    )


def _decide(server: ForeignServer, folder: Path, with_secrets: bool) -> Verdict:
    """Return the verdict for a server, without comparing it with other servers."""
    foreign_table = dict(server.table)

    def verdict(state: ImportDecision, detail: str) -> Verdict:
        return Verdict(server.name, state, server, detail)

    if foreign_table.get("disabled") is True or foreign_table.get("enabled") is False:
        return verdict(ImportDecision.DISABLED, f"switched off in {server.program}")
    is_remote = "command" not in foreign_table and isinstance(foreign_table.get("url"), str)
    keys: tuple[str, ...] = ("command", "args", "env", "cwd", "limits", "tools")
    if is_remote:
        keys = ("url", "headers", "token", "transport", "type", "limits", "tools")
    table: dict[str, Any] = {key: foreign_table[key] for key in keys if key in foreign_table}
    try:
        # With `origin`, it is read as the file of another program, which may have placeholders.
        document = {"mcp_servers": {server.name: table}}
        [spec] = config_from_mapping(document, origin=server.file.name).specs
    except ConfigError as error:
        return verdict(ImportDecision.UNUSABLE, error.message)
    if spec.unrunnable:
        return verdict(ImportDecision.UNUSABLE, spec.unrunnable)
    if is_remote:
        shown = _masked_url(table["url"])
        if shown == _NO_URL and not _PLACEHOLDER.search(table["url"]):
            return verdict(ImportDecision.UNUSABLE, "its url is not an address")
        table, variables = _remote_with_references(server.name, table, with_secrets)
        return Verdict(server.name, ImportDecision.NEW, server, shown, table, variables)
    argv = [table["command"], *table.get("args", ())]
    if Path(table["command"]).name == "exthost":
        return verdict(ImportDecision.ITSELF, "it is exthost, which would start itself")
    if any(_PLACEHOLDER.search(argument) for argument in (*argv, table.get("cwd", ""))):
        # A placeholder that was not filled in has no value. The message names the first placeholder
        # in the command line; if the command line has none, the placeholder is in the cwd.
        unfilled = [match[0] for argument in argv if (match := _PLACEHOLDER.search(argument))]
        return verdict(ImportDecision.UNUSABLE, f"{(unfilled or ['its cwd'])[0]} has no value here")
    masked_argv = _mask_secrets(argv)
    if masked_argv != argv and not with_secrets:
        return verdict(
            ImportDecision.SECRET,
            f"{' '.join(masked_argv)}: a secret is among its arguments; --with-secrets copies it",
        )
    table, variables = _with_references(table, with_secrets)
    working_folder = _working_folder(table.get("cwd"), server, folder)
    if working_folder is not None:
        table["cwd"] = working_folder
    return Verdict(server.name, ImportDecision.NEW, server, " ".join(masked_argv), table, variables)


def _with_references(
    table: dict[str, Any], with_secrets: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the table with references in place of secrets, and the names of the variables of the
    host that they refer to."""
    env: dict[str, Any] = {}
    for name, value in table.get("env", {}).items():
        is_secret = isinstance(value, str) and (
            is_secret_name(name) or _mask_secrets([value]) != [value]
        )
        has_placeholder = isinstance(value, str) and _PLACEHOLDER.search(value)
        # A value that is one placeholder is a reference already (`dialects/mcp/json_config.py`). A
        # reference gives a whole value, so that of any other placeholder would be too short.
        needs_reference = has_placeholder or (is_secret and not with_secrets)
        env[name] = {"from": name} if needs_reference else value
    references = [value["from"] for value in env.values() if isinstance(value, dict)]
    return ({**table, "env": env} if env else table), tuple(map(str, references))


def _remote_with_references(
    name: str, table: dict[str, Any], with_secrets: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the table of a remote server with references in place of secrets, and the names of
    the variables of the host that they refer to. Most headers are secrets, whatever they look
    like."""
    prefix = variable_name(name)
    headers: dict[str, Any] = {}
    result = {key: value for key, value in table.items() if key != "headers"}
    for header, value in table.get("headers", {}).items():
        if isinstance(value, dict):
            headers[header] = value
            continue
        # Without "Bearer", if this is a bearer token: then `words` differs from `value`.
        words = value.removeprefix("Bearer ") if header.lower() == "authorization" else value
        # A value that is one placeholder is a reference already (`dialects/mcp/json_config.py`).
        if _PLACEHOLDER.search(value) or (
            not with_secrets and header.lower() not in _PUBLIC_HEADERS
        ):
            reference = {"from": f"{prefix}_{variable_name(header)}"}
        else:
            headers[header] = value
            continue
        if words != value:
            result["token"] = reference
        else:
            headers[header] = reference
    if headers:
        result["headers"] = headers
    url = table["url"]
    if named := _VARIABLE.fullmatch(url):
        result["url"] = {"from": named[1] or variable_name(named[2])}
    elif _PLACEHOLDER.search(url) or (_has_secret(url) and not with_secrets):
        result["url"] = {"from": f"{prefix}_URL"}
    values = (result["url"], result.get("token"), *headers.values())
    return result, tuple(str(value["from"]) for value in values if isinstance(value, dict))


def _working_folder(cwd: str | None, server: ForeignServer, folder: Path) -> str | None:
    """Return the working folder of the server, or None if it is the folder of the config, which is
    the default. `server.folder` is the folder in which its program starts it; None for a program
    with one config for all projects. Then a relative `cwd` begins at the folder of the config file,
    and without `cwd` the server starts where the config of exthost is."""
    base = server.folder or server.file.parent
    if cwd is not None:
        return str(base / cwd)
    return None if server.folder in (None, folder) else str(server.folder)


def _free_name(server: ForeignServer, taken_names: Collection[str]) -> str:
    """Return the name of a server; if it is taken, with the name of the program appended."""
    if server.name not in taken_names:
        return server.name
    base = f"{server.name}-{'-'.join(server.program.lower().split())}"
    names = (base, *(f"{base}-{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in taken_names)


def _mask_secrets(argv: Iterable[str]) -> list[str]:
    """Return the arguments of a command line with the values of secrets masked."""
    masked_arguments: list[str] = []
    flag = ""
    for argument in argv:
        # The value of an option such as `--api-key VALUE`.
        if is_secret_name(flag) and not argument.startswith("-"):
            argument = HIDDEN
        flag = argument.lstrip("-") if argument.startswith("-") else ""
        argument = _SECRET_VALUE.sub(HIDDEN, argument)
        argument = _PASSWORD_IN_URL.sub(HIDDEN, argument)
        masked_arguments.append(_ASSIGNMENT.sub(_mask_assignment, argument))
    return masked_arguments


def _mask_assignment(match: "re.Match[str]") -> str:
    """Return a match of _ASSIGNMENT, with its value masked if its name is that of a secret."""
    if not is_secret_name(match[1]):
        return match[0]
    return match[0].removesuffix(match[2]) + HIDDEN


def _has_secret(url: str) -> bool:
    # `_masked_url` also removes the `?` of an empty query and the `#` of an empty fragment, which
    # are not secrets.
    return _masked_url(url) != url.rstrip("?#")


def _masked_url(url: str) -> str:
    """Return a URL without what may be a key: user, query, fragment, and long parts of the path.
    The rest is as written, so that a URL without a key is returned unchanged."""
    try:
        url_parts = urlsplit(url)
        host, _ = url_parts.hostname, url_parts.port  # `port` raises if it is not a number
    except ValueError:
        return _NO_URL
    if not host:
        return _NO_URL
    # Not `url_parts.scheme` and `.hostname`, which are in lower case, the latter without brackets.
    scheme = url[: len(url_parts.scheme)]
    host_and_port = url_parts.netloc.rpartition("@")[2]
    path = "/".join(
        part if len(part) <= _MAX_SHOWN_PATH_PART else HIDDEN for part in url_parts.path.split("/")
    )
    return f"{scheme}://{host_and_port}{path}"
