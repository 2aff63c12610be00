"""Finds out from the stderr of a program, or the error of a tool, what it lacks, and suggests how
to provide it: an environment variable, a permission, a file, a module, the network. The suggestion
becomes a part of the error of a failed start or call. After `KeyError: 'API_TOKEN'`, for example,
the error says how to set that variable.

The patterns below match the usual error messages of interpreters, shells and libraries.
"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exthost.launch.command_code import find_code
from exthost.launch.grant_advice import suggest_folder_of_module, suggest_grant
from exthost.launch.managers import find_runner
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.launch_plan import LaunchPlan, Wrapper
from exthost.model.network_rules import BadHost, NetworkRules, parse_host
from exthost.process.build_command import find_build_command
from exthost.process.environment import Environment

# The verbs that have the option -e. The user may have run another verb, or none.
_VERBS_WITH_VARIABLES = "exthost call, inspect, check, dev or learn"

# Names of variables that are shorter are not looked for: they occur by chance in any text.
_MIN_NAME_LENGTH = 4

# Messages about an environment variable that is not set: Python's KeyError, and common phrases with
# the name before or after them. In a phrase only a name with an underscore is recognised; any other
# could be an ordinary word in capitals.
_UNSET_VARIABLE = re.compile(
    r"KeyError: '([A-Z][A-Z0-9_]{3,})'"
    r"|\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b.{0,40}\b(?:not set|be set|is required|is missing|undefined)"
    r"|\b(?:[Mm]issing|[Ss]et|[Rr]equires?)\b.{0,40}\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
)

# Messages about an unreachable network, of Linux, Python, Node, Go and curl, and about one that uv
# or npm was asked not to use.
_UNREACHABLE_NETWORK = re.compile(
    r"[Nn]etwork is (?:unreachable|down)|ENETUNREACH|EAI_AGAIN|ENOTFOUND"
    r"|[Nn]ame resolution|[Nn]ame or service not known|[Nn]o such host"
    r"|[Cc]ould not resolve|getaddrinfo failed|dial tcp"
    r"|network was disabled|[Nn]etwork connectivity is disabled|ENOTCACHED"
)

# The name of the host in such a message.
_UNRESOLVED_HOST = re.compile(
    r"(?:ENOTFOUND|EAI_AGAIN|resolve host:?|resolve|lookup|host=|host:)\s*['\"]?"
    r"([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+)"
)
# The message does not contain the port, so it is assumed to be one of these.
_USUAL_PORTS = (443, 80)

# Messages about a server whose certificate is signed by an unknown authority, of OpenSSL, Node, Go
# and Rust, and the variables that name the file of further authorities.
_UNKNOWN_AUTHORITY = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|UNABLE_TO_(?:VERIFY_LEAF|GET_ISSUER)|UnknownIssuer"
    r"|self[- ]signed certificate|issuer certificate|unknown authority"
)
_AUTHORITY_VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)

# The variables that name a proxy. Programs read them in capitals and in small letters.
_PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")

# Messages about a socket that the sandbox refuses. If a path follows "Operation not permitted", a
# file was refused, not a socket.
_REFUSED_SOCKET = re.compile(
    r"[Oo]peration not permitted\b(?!.{0,20}[:,] ?\w* ?['\"/])"
    r"|\b(?:connect|socket|bind|listen) EPERM"
)

# Messages of interpreters and shells about a missing file, module or program. A group has its name.
# No file has a NUL or half of a surrogate pair in its name.
_NO_FILE = re.compile(
    r"can't open (?:file|input) '?([^':\0\ud800-\udfff]+)|Cannot find module '(/[^']+)'"
    r"|cannot load such file -- (/\S+)"
)
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '([^']+)'|Cannot find (?:module|package) '([^/'][^']*)'"
    r"|cannot load such file -- ([^/\s]\S*)|Can't locate (\S+)\.pm in @INC"
)
_NO_PROGRAM = re.compile(r"sh: (?:line )?(?:\d+: )?([\w./-]+): (?:command )?not found")

# Messages about memory that the system refuses, of Python, C and C++, Node, Go, Rust and Java.
_NO_MEMORY = re.compile(
    r"^MemoryError|[Cc]annot allocate memory|std::bad_alloc|heap out of memory"
    r"|runtime: out of memory|memory allocation of \d+ bytes failed|java\.lang\.OutOfMemoryError"
    r"|Could not reserve enough space",
    re.MULTILINE,
)

# The variables that name folders with modules.
_MODULE_VARIABLES = ("PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERL5LIB")

# How much of the text of a tool's error is searched.
_READ_CHARACTERS = 2000


def suggest_variable(
    environment: Environment, stderr: Iterable[str], enforced: Mapping[str, Any] = EMPTY_MAPPING
) -> str:
    """Return how to provide an environment variable whose absence the program reports on stderr; ""
    if it reports none. A variable that the host has, and did not pass on, is suggested first.
    `enforced` are the restrictions in force, by permission."""
    stderr = tuple(stderr)
    identifiers = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", "\n".join(stderr)))
    lacking = [
        name
        for name in environment.held_back
        if name in identifiers and len(name) >= _MIN_NAME_LENGTH
    ]
    if not lacking and not _has_no_network(enforced):
        lacking = _held_back_for_network(environment, "\n".join(stderr))
    if not lacking:
        return _suggest_value(environment, stderr)
    name = lacking[0]
    verb = "It is" if len(lacking) == 1 else "They are"
    return (
        f"held back: {', '.join(lacking)}. {verb} set here, but not passed to the extension: "
        f'use env = {{ {name} = {{ from = "{name}" }} }} in the config, or -e {name} of '
        f"{_VERBS_WITH_VARIABLES}"
    )


def _held_back_for_network(environment: Environment, text: str) -> list[str]:
    """Return the variables that the host did not pass on, and without which a program that
    downloads something may fail as this text says."""
    wanted: list[str] = []
    if _UNKNOWN_AUTHORITY.search(text):
        wanted += _AUTHORITY_VARIABLES
    if _UNREACHABLE_NETWORK.search(text):
        for name in _PROXY_VARIABLES:
            wanted += (name, name.lower())
    return [name for name in wanted if name in environment.held_back]


def _has_no_network(enforced: Mapping[str, Any]) -> bool:
    """Return whether the sandbox has a network namespace of its own, without the host's network."""
    return "netns" in str(enforced.get("network", ""))


def _explain_unreachable(enforced: Mapping[str, Any], text: str) -> str:
    """Return why a host could not be reached from a sandbox, and the line of the config to add.
    `text` is the message of the program."""
    if not (entries := enforced.get("hosts")):
        return "its sandbox has no network: permissions.network = true, if it may have one"
    match = _UNRESOLVED_HOST.search(text)
    try:
        host = parse_host(next(filter(None, match.groups()))) if match is not None else ""
    except BadHost:
        host = ""
    name = str(host) or "the host"
    if host and any(NetworkRules(entries).find_entry(host, port) for port in _USUAL_PORTS):
        return (
            f"its sandbox reaches {name} only through the proxy that HTTPS_PROXY names, and the "
            "program did not use it: configure the program to use that proxy, or set "
            "permissions.network = true"
        )
    return (
        f"its sandbox reaches only {', '.join(entries)}, through the proxy that HTTPS_PROXY names: "
        f'add "{host or "HOST"}:443" to permissions.network, if it may reach {name}'
    )


def _suggest_value(environment: Environment, stderr: Iterable[str]) -> str:
    """Return how to set an environment variable that the program reports as not set, and that the
    host does not have either; "" if there is none."""
    for line in stderr:
        match = _UNSET_VARIABLE.search(line)
        name = match and (match[1] or match[2] or match[3])
        if name and name not in environment.variables:
            return (
                f"{name} is not set: use env in the config, set it where the host is started, or "
                f"use -e {name}=VALUE of {_VERBS_WITH_VARIABLES}"
            )
    return ""


def suggest_grant_to_tool(wrapper: Wrapper, enforced: Mapping[str, Any], text: str) -> str:
    """Return the permission that a tool lacked, judging by the text of its error; "" if the sandbox
    is not the likely cause. `enforced` are the restrictions in force, by permission."""
    text = text[:_READ_CHARACTERS]
    is_refused = _UNREACHABLE_NETWORK.search(text) or _REFUSED_SOCKET.search(text)
    if is_refused and _has_no_network(enforced):
        return _explain_unreachable(enforced, text)
    return suggest_grant(wrapper, text.splitlines())


def suggest_memory(max_memory: int | None, stderr: Iterable[str]) -> str:
    """Return advice to raise the limit of memory, if there is a limit and the program reports that
    it got no memory; otherwise ""."""
    if max_memory is None or not _NO_MEMORY.search("\n".join(stderr)):
        return ""
    return (
        f"it needs more memory than permissions.max_memory allows, which is "
        f"{max_memory / 2**20:g} MiB: raise it, or make the program use less"
    )


def find_missing(stderr: Iterable[str], argv: Sequence[str] = (), cwd: str | None = None) -> str:
    """Return which file, module or program is missing according to stderr, and what to do; "" if an
    interpreter or a shell reports none. `argv` is the command, and `cwd` its working folder."""
    text = "\n".join(stderr)
    if (match := _NO_FILE.search(text)) is not None:
        name = next(filter(None, match.groups()))
        if "~" in name.split("/"):
            return f"there is no file {name}: only a shell replaces ~; write the whole path"
        # Only a file of the command is suggested to be built: the extension wrote the message.
        if any(os.path.realpath(Path(cwd or ".", word)) == os.path.realpath(name) for word in argv):
            build = find_build_command(Path(name))
            if build is not None:
                folder = shlex.quote(str(build.folder))
                return f"{name} is not built yet: cd {folder} && {build.text}"
        return f"there is no file {name}: correct its path, or the working folder"
    if name := _missing_module(text):
        package, dot, _ = name.partition(".")
        if dot and f"ModuleNotFoundError: No module named '{name}'" in text:
            # Python reports the package itself if that is what is missing.
            return (
                f"the package {package} has no module {name}: the program needs another "
                f"version of it, or another file is named {package}; stderr may show more"
            )
        return f"the module {name} is not installed for the interpreter of the command: install it"
    if (match := _NO_PROGRAM.search(text)) is not None:
        return f"there is no program {match[1]} on its PATH: install it, or correct its name"
    script = find_code(argv, cwd, EMPTY_MAPPING).path if argv else ""
    if os.path.exists(script) and not (os.path.isfile(script) or os.path.isdir(script)):  # noqa: PTH110, PTH112, PTH113
        return f"{script} is a pipe, a socket or a device: name a file with code"
    return ""


def find_hidden_module(plan: LaunchPlan, environment: Environment, stderr: Iterable[str]) -> str:
    """Return how to show a sandboxed program the module that it does not find; "" if it has no
    sandbox, or reports no such module."""
    text = "\n".join(stderr)
    name = _missing_module(text)
    if plan.wrapper is None or not plan.wrapper.is_strict:
        return ""
    # Ruby reports a missing module with an absolute path as a missing file: the third group.
    file = _NO_FILE.search(text)
    missing = name or (file[3] if file is not None else "")
    if not missing:
        return ""
    if advice := suggest_folder_of_module(plan.wrapper, plan.argv, missing):
        return advice
    if not name:
        return ""
    variable = next((name for name in _MODULE_VARIABLES if name in environment.held_back), "")
    reference = f'env = {{ {variable} = {{ from = "{variable}" }} }}'
    return (
        f"the module {name} is not installed for the interpreter of the command, or its sandbox "
        "hides it: install it, or add its folder to permissions.filesystem"
        + (f"; {variable} is set here, and passed on with {reference}" if variable else "")
    )


def _missing_module(text: str) -> str:
    match = _NO_MODULE.search(text)
    return next(filter(None, match.groups())) if match is not None else ""


def suggest_network(
    enforced: Mapping[str, Any],
    help: str,
    stderr: Iterable[str],
    *,
    is_silent: bool,
    ended: bool,
    argv: Sequence[str] = (),
) -> str:
    """Return `help`, preceded by a note about the network if the lack of a network may be why the
    program wrote no message.

    argv       the command, if the note should say how to install what the command downloads
    is_silent  whether the program wrote nothing to stdout
    ended      whether it has exited; if it has, and reported another error on stderr, it was not
               waiting for the network, and the note is left out"""
    text = "\n".join(stderr)
    is_unreachable = _UNREACHABLE_NETWORK.search(text) is not None
    if not is_silent or (ended and text and not is_unreachable):
        return help
    if enforced.get("hosts"):
        return f"{_explain_unreachable(enforced, text)}; or else: {help}"
    runner = find_runner(argv[0]) if argv else None
    command = runner.install(argv[1:]) if runner is not None else ""
    if not _has_no_network(enforced):
        if is_unreachable:
            install = f", or install it first ({command})" if command else ""
            return f"it cannot reach the network: see its stderr, and check the connection{install}"
        if runner is not None and not ended:
            name = argv[0].rpartition("/")[2]
            return (
                f"{name} downloads the package at its start, and waits for the network: is its "
                f"registry reachable? install it first{f' ({command})' if command else ''}, or "
                f"raise limits.handshake; or else: {help}"
            )
        return help
    return (
        "its sandbox has no network, and a program that is fetched at its start (npx, uvx, docker) "
        "waits for it: permissions.network = true, or install it first"
        f"{f' ({command})' if command else ''}; or else: {help}"
    )
