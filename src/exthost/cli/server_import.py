"""Decides for each server of another program whether and how it is imported. Pure.

Secrets stay where they are: a variable that looks like one, by its name or its value, is written as
a reference to a variable of the host. A server that has a secret among its arguments is left to the
user. `with_secrets` copies both. No text that is shown has the value of a secret.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exthost.cli.server_files import ForeignServer
from exthost.config import config_from_mapping
from exthost.errors import ConfigError
from exthost.spec import Spec
from exthost.trace.secrets import HIDDEN, is_secret_name

_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")

# Values that are secrets whatever they are called: keys of well-known services, tokens of the web.
_SECRET_VALUE = re.compile(
    r"\b(?:sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abpr]-|AKIA|AIza|hf_|npm_|eyJ)[\w-]{8,}"
    r"|\b[Bb]earer +\S+|(?<=\b[Aa]uthorization)\s*[:=].*"
)
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
_ASSIGNMENT = re.compile(
    r"(?:^|(?<=[?&;\s]))-{0,2}([A-Za-z][\w.-]*)[=:](?!//) ?(\"[^\"]*\"|'[^']*'|[^&;?\s]+)"
)


class State(StrEnum):
    """What becomes of a server."""

    NEW = "new"
    PRESENT = "present"
    DUPLICATE = "duplicate"
    DISABLED = "disabled"
    REMOTE = "remote"
    ITSELF = "itself"
    SECRET = "secret"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A server, what becomes of it and why. `table` is what is written if it is new, `variables`
    those that the host must have for it."""

    name: str
    state: State
    server: ForeignServer
    detail: str
    table: Mapping[str, Any] = field(default_factory=dict, repr=False)
    variables: tuple[str, ...] = ()


def plan_import(
    servers: Iterable[ForeignServer],
    present: Iterable[Spec],
    folder: Path,
    *,
    with_secrets: bool = False,
) -> list[Verdict]:
    """Return the verdict for each server, for a config with these extensions, in this folder."""
    in_config = _Known()
    for spec in present:
        in_config.add(spec.id, spec.argv, (_plain_env(spec.env), spec.cwd))
    planned = _Known()
    verdicts = []
    for server in servers:
        verdict = _judge(server, folder, with_secrets)
        if verdict.state is State.NEW:
            argv = (verdict.table["command"], *verdict.table.get("args", ()))
            table = verdict.table
            setting = (_plain_env(table.get("env", {})), table.get("cwd", str(folder)))
            if twin := in_config.find(server.name, argv, setting):
                detail = f"the same as {twin}, which the config has"
                verdict = Verdict(server.name, State.PRESENT, server, detail)
            elif twin := planned.find(server.name, argv, setting):
                verdict = Verdict(server.name, State.DUPLICATE, server, f"the same as {twin}")
            else:
                name = _free_name(server, in_config.names | planned.names)
                planned.add(name, argv, setting)
                verdict = replace(verdict, name=name)
        verdicts.append(verdict)
    return verdicts


class _Known:
    """Servers by name, and by what they run."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[str, ...]] = {}
        self._by_program: dict[Any, str] = {}

    @property
    def names(self) -> set[str]:
        return set(self._by_name)

    def add(self, name: str, argv: Iterable[str], setting: Any) -> None:
        self._by_name[name] = words = tuple(argv)
        self._by_program.setdefault((words, setting), name)

    def find(self, name: str, argv: tuple[str, ...], setting: Any) -> str | None:
        """Return the name of a server that runs the same: in the same folder with the same
        variables, or under the same name."""
        if self._by_name.get(name) == argv:
            return name
        return self._by_program.get((argv, setting))


def _plain_env(env: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return variables in a form that can be compared: a reference counts as what it refers to."""
    return frozenset(
        (name, str(value["from"] if isinstance(value, dict) else value))
        for name, value in env.items()
    )


def _judge(server: ForeignServer, folder: Path, with_secrets: bool) -> Verdict:
    """Return the verdict for a server, without regard to the others."""
    given = dict(server.table)

    def verdict(state: State, detail: str) -> Verdict:
        return Verdict(server.name, state, server, detail)

    if given.get("disabled") is True or given.get("enabled") is False:
        return verdict(State.DISABLED, f"switched off in {server.program}")
    if "command" not in given and isinstance(given.get("url"), str):
        return verdict(State.REMOTE, f"reached by a URL, not over stdio: {_site(given['url'])}")
    keys = ("command", "args", "env", "cwd", "limits")
    table: dict[str, Any] = {key: given[key] for key in keys if key in given}
    try:
        config_from_mapping({"mcp_servers": {server.name: table}})
    except ConfigError as error:
        return verdict(State.UNUSABLE, error.message)
    words = [table["command"], *table.get("args", ())]
    if Path(table["command"]).name == "exthost":
        return verdict(State.ITSELF, "it is exthost, which would start itself")
    if any(_PLACEHOLDER.search(word) for word in (*words, table.get("cwd", ""))):
        missing = [found[0] for word in words if (found := _PLACEHOLDER.search(word))]
        return verdict(State.UNUSABLE, f"{(missing or ['its cwd'])[0]} has no value here")
    shown = _hidden(words)
    if shown != words and not with_secrets:
        return verdict(
            State.SECRET,
            f"{' '.join(shown)}: a secret is among its arguments; --with-secrets copies it",
        )
    table, variables = _with_references(table, with_secrets)
    place = _working_folder(table.get("cwd"), server, folder)
    if place is not None:
        table["cwd"] = place
    return Verdict(server.name, State.NEW, server, " ".join(shown), table, variables)


def _with_references(
    table: dict[str, Any], with_secrets: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a server whose secrets are references to variables of the host, and their names."""
    env: dict[str, Any] = {}
    for name, value in table.get("env", {}).items():
        is_secret = isinstance(value, str) and (is_secret_name(name) or _hidden([value]) != [value])
        unfilled = isinstance(value, str) and _PLACEHOLDER.search(value)
        refer = unfilled or (is_secret and not with_secrets)
        env[name] = {"from": name} if refer else value
    references = [value["from"] for value in env.values() if isinstance(value, dict)]
    return ({**table, "env": env} if env else table), tuple(map(str, references))


def _working_folder(cwd: str | None, server: ForeignServer, folder: Path) -> str | None:
    """Return the folder that the server runs in; None if that of the config will do."""
    base = server.folder or server.file.parent
    if cwd is not None:
        return str(base / cwd)
    return None if server.folder in (None, folder) else str(server.folder)


def _free_name(server: ForeignServer, taken: Collection[str]) -> str:
    """Return the name, with that of the program if another server has it."""
    if server.name not in taken:
        return server.name
    base = f"{server.name}-{'-'.join(server.program.lower().split())}"
    names = (base, *(f"{base}-{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in taken)


def _hidden(words: Iterable[str]) -> list[str]:
    """Return the words of a command without the values of secrets."""
    hidden: list[str] = []
    flag = ""
    for word in words:
        if is_secret_name(flag) and not word.startswith("-"):
            word = HIDDEN
        flag = word.lstrip("-") if word.startswith("-") else ""
        word = _SECRET_VALUE.sub(HIDDEN, word)
        word = _PASSWORD_IN_URL.sub(HIDDEN, word)
        hidden.append(_ASSIGNMENT.sub(_hide_assignment, word))
    return hidden


def _hide_assignment(found: "re.Match[str]") -> str:
    if not is_secret_name(found[1]):
        return found[0]
    return found[0].removesuffix(found[2]) + HIDDEN


def _site(url: str) -> str:
    """Return scheme and host of a URL: the rest may hold a key."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}" if parts.hostname else "no URL"
    except ValueError:
        return "no URL"
