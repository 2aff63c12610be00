"""Advice for a program or a tool that fails: what the host did not give it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from exthost.launch.containment import suggest_grant
from exthost.launch_plan import LaunchPlan
from exthost.process.environment import Environment

# Shorter names turn up in any text.
_SHORTEST_NAME = 4

# How programs complain about a variable: Python's own error, and the usual words, the name before
# or after them. A name has an underscore, or else it might be any word in capitals.
_UNSET = re.compile(
    r"KeyError: '([A-Z][A-Z0-9_]{3,})'"
    r"|\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b.{0,40}\b(?:not set|be set|is required|is missing|undefined)"
    r"|\b(?:[Mm]issing|[Ss]et|[Rr]equires?)\b.{0,40}\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
)


# How programs complain about a network that is not there: of Linux, Python, Node, Go and curl.
_UNREACHABLE = re.compile(
    r"[Nn]etwork is (?:unreachable|down)|ENETUNREACH|EAI_AGAIN|ENOTFOUND"
    r"|[Nn]ame resolution|[Nn]ame or service not known|[Nn]o such host"
    r"|[Cc]ould not resolve|getaddrinfo failed|dial tcp"
)

# How they complain about a socket that the sandbox refuses. A path behind it says that a file was
# refused.
_REFUSED_SOCKET = re.compile(
    r"[Oo]peration not permitted\b(?!.{0,20}[:,] ?\w* ?['\"/])"
    r"|\b(?:connect|socket|bind|listen) EPERM"
)

# How interpreters and shells complain about what they cannot find, with its name.
_NO_FILE = re.compile(r"can't open (?:file|input) '?([^':]+)|Cannot find module '(/[^']+)'")
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '([^']+)'|Cannot find (?:module|package) '([^/'][^']*)'"
)
_NO_PROGRAM = re.compile(r"sh: (?:line )?(?:\d+: )?([\w./-]+): (?:command )?not found")

# How much of an error's text is read.
_READ_CHARACTERS = 2000


def suggest_variable(environment: Environment, stderr: Iterable[str]) -> str:
    """Return how to give the program a variable that it misses on stderr, from the host or with a
    value; "" if it misses none."""
    stderr = tuple(stderr)
    words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", "\n".join(stderr)))
    missed = [
        name for name in environment.held_back if name in words and len(name) >= _SHORTEST_NAME
    ]
    if not missed:
        return _suggest_value(environment, stderr)
    name = missed[0]
    return (
        f"held back: {', '.join(missed)}. It is set here, and not passed on to the extension: use "
        f'-e {name}, or env = {{ {name} = {{ from = "{name}" }} }} in the config'
    )


def _suggest_value(environment: Environment, stderr: Iterable[str]) -> str:
    """Return how to set a variable that is set nowhere."""
    for line in stderr:
        found = _UNSET.search(line)
        name = found and (found[1] or found[2] or found[3])
        if name and name not in environment.variables:
            return (
                f"{name} is not set: use -e {name}=VALUE, env in the config, or set it where the "
                "host is started"
            )
    return ""


def suggest_grant_to_tool(plan: LaunchPlan, enforced: Mapping[str, Any], text: str) -> str:
    """Return the permission that a tool lacked, as the text of its error shows; "" if its sandbox
    is not the likely cause."""
    text = text[:_READ_CHARACTERS]
    is_refused = _UNREACHABLE.search(text) or _REFUSED_SOCKET.search(text)
    if is_refused and "netns" in str(enforced.get("network", "")):
        return "its sandbox has no network: permissions.network = true, if it may have one"
    return suggest_grant(plan, text.splitlines())


def find_missing(stderr: Iterable[str]) -> str:
    """Return which file, module or program is missing, as an interpreter or a shell reports it on
    stderr, and what to do; "" if none is."""
    text = "\n".join(stderr)
    if (found := _NO_FILE.search(text)) is not None:
        return f"there is no file {found[1] or found[2]}: correct its path, or the working folder"
    if (found := _NO_MODULE.search(text)) is not None:
        name = found[1] or found[2]
        return f"the module {name} is not installed for the interpreter of the command: install it"
    if (found := _NO_PROGRAM.search(text)) is not None:
        return f"there is no program {found[1]} on its PATH: install it, or correct its name"
    return ""


def suggest_network(
    enforced: Mapping[str, Any], help: str, stderr: Iterable[str], *, is_silent: bool, ended: bool
) -> str:
    """Return the help, with a note about a sandbox without network if the program is silent. One
    that has ended with other words on stderr did not wait for a network."""
    text = "\n".join(stderr)
    is_other = ended and text and not _UNREACHABLE.search(text)
    if not is_silent or is_other or "netns" not in str(enforced.get("network", "")):
        return help
    return (
        "its sandbox has no network, and a program that is fetched at its start (npx, uvx, docker) "
        f"waits for it: permissions.network = true, or install it first; or else: {help}"
    )
