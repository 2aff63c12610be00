"""The settings that every extension may have, each declared once: a field of `SharedSettings`, or
of a group such as `Limits`, is also a key of a config.

A field is declared with its type, its description, an example and the default; the last three are
for the documentation. `start: float | None = setting(POSITIVE_DURATION, "How long …", '"60s"')` in
`Limits` is the key `start` in

    [extensions.limits]
    start = "60s"

An `[[extensions]]` entry, `[overrides.<id>]` and `[defaults]` all have the keys of `SETTING_KEYS`.
`settings` merges the values of the three places. All values are frozen. `None` means that a setting
is not set; the default of the dialect is then used (`_Settings.over`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple, Self

from exthost.model.documents.header_injection import INJECTIONS, HeaderInjection
from exthost.model.documents.keys import (
    ANY_TEXT_LIST,
    DURATION,
    FLAG,
    JSON_TABLE,
    POSITIVE_DURATION,
    SIZE,
    TEXT,
    TEXT_LIST,
    VARIABLES,
    Key,
    ValueType,
    integer_at_least,
    keys_of,
    one_of,
    setting,
    table_type,
)
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import (
    describe_type,
    integer_reader,
    quote_text,
    read_json_table,
    read_table,
    read_text,
    read_text_list,
)
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.network_rules import BadHost, parse_entry

# How many hosts `permissions.network` can list. A longer list is a reason for network = true.
_MAX_HOSTS = 200

# The value of `max_retries` for no limit. None would mean that the setting is not set.
UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A group of settings. None means that a setting is not set."""

    @cache  # noqa: B019 - few and small values, which many extensions share
    def over(self, defaults: Self) -> Self:
        """Return these settings, with the value of `defaults` for each setting that is not set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        set_here = {name: value for name, value in values.items() if value is not None}
        return replace(defaults, **set_here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(_Settings):
    """Limits of one extension.

    start, handshake, call, write and stop are timeouts in seconds. idle is the number of seconds
    without a call after which the process is ended. cpu is seconds of processor time. max_message,
    fsize, store (what the extension may keep in the host's store) and result (the text of a result)
    are bytes. max_in_flight (open calls), nofile (open files) and nproc (processes) are counts.
    """

    start: float | None = setting(
        POSITIVE_DURATION,
        "How long starting the process and its handshake may take together.",
        '"60s"',
    )
    handshake: float | None = setting(
        POSITIVE_DURATION, "How long the handshake may take.", '"30s"'
    )
    call: float | None = setting(
        POSITIVE_DURATION, "How long a call may take if the caller sets no timeout.", '"10s"'
    )
    idle: float | None = setting(
        POSITIVE_DURATION,
        "After how long without a call the process is ended; the next call starts another.",
        '"5m"',
        "(never)",
    )
    write: float | None = setting(
        POSITIVE_DURATION,
        "How long a process may leave its stdin unread before it is ended.",
        '"30s"',
    )
    stop: float | None = setting(
        DURATION,
        "How long a process has to end before SIGKILL; also how long calls "
        "may continue when the extension is drained.",
        '"10s"',
    )
    max_message: int | None = setting(
        SIZE, "The largest message that the process may send.", '"64MiB"'
    )
    max_in_flight: int | None = setting(
        integer_at_least(1), "How many calls a process has at a time; more wait.", "8"
    )
    cpu: float | None = setting(
        POSITIVE_DURATION, "Processor time of all its processes together.", '"60s"', "(no limit)"
    )
    nofile: int | None = setting(
        integer_at_least(1),
        "Open files of each process.",
        "64",
        "(no limit; 1024 in a sandbox)",
    )
    fsize: int | None = setting(
        SIZE, "The largest file that it may write.", '"100MB"', "(no limit)"
    )
    nproc: int | None = setting(
        integer_at_least(1), "How many processes it may have.", "16", "(no limit; 512 in a sandbox)"
    )
    store: int | None = setting(SIZE, "How much it may store through the host.", '"16MiB"')
    result: int | None = setting(
        SIZE,
        "How much text of a result a model reads; the beginning and the end are kept.",
        '"40KB"',
        '(no limit; "100KB" in a gateway with mode = "search")',
    )


def _read_retries(value: Any, place: Place) -> int | None:
    """Read a whole number, or "unlimited"."""
    return UNLIMITED if value == "unlimited" else integer_reader(0)(value, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(_Settings):
    """When a process that ended is started again, and how often.

    `max_retries` is 0 for no retry and UNLIMITED for no limit. Delays are in seconds. With a
    `window`, only the retries of the last `window` seconds are counted; without one, all since the
    last reset. `forgiven_by` is what resets the count: "uptime" (the extension was ready for 60 s)
    or "call" (it answered a call).
    """

    strategy: str | None = setting(
        one_of("never", "immediate", "exponential", "on-demand"),
        "When a process that ended is started again; on-demand: by the next call.",
        '"exponential"',
    )
    initial_delay: float | None = setting(
        DURATION, "The delay before the first restart; it doubles.", '"1s"'
    )
    max_delay: float | None = setting(DURATION, "The longest delay.", '"30s"')
    max_retries: int | None = setting(
        ValueType(
            _read_retries,
            'whole number or "unlimited"',
            {"anyOf": [{"type": "integer", "minimum": 0}, {"const": "unlimited"}]},
        ),
        "How many restarts there are before the extension has failed for good.",
        "3",
    )
    window: float | None = setting(
        POSITIVE_DURATION,
        "Only restarts within this time count; without it, all since it last ran well.",
        '"10m"',
        "(none)",
    )
    forgiven_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker(_Settings):
    """The circuit breaker, which stops calls to an extension that keeps failing.

    It opens for `open` seconds after `failures` failures in a row. Then it is half-open: one call
    at a time is sent as a probe. `successes` successful probes close it, and a failure opens it for
    twice as long, at most `max_open` seconds. `count_error_replies` is whether an error reply is a
    failure.
    """

    failures: int | None = setting(
        integer_at_least(1), "After how many failures in a row calls are refused.", "5"
    )
    open: float | None = setting(
        POSITIVE_DURATION, "For how long, before a new process is tried; it doubles.", '"10s"'
    )
    max_open: float | None = setting(POSITIVE_DURATION, "The longest such time.", '"2m"')
    successes: int | None = setting(
        integer_at_least(1),
        "How many calls must then succeed until all calls are let through.",
        "2",
    )
    count_error_replies: bool | None = setting(
        FLAG, "Whether an error reply, or a result marked as an error, is a failure.", "true"
    )


# A larger whole number is not exact as a float.
_MAX_AMOUNT = 2**53


def _read_amounts(value: Any, place: Place) -> tuple[tuple[str, float], ...] | None:
    """Read a table of name → amount. Return pairs, because settings must be hashable."""
    table = read_json_table(value, place)
    if table is None:
        return None
    for name, amount in table.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            place.at(name).add_problem(
                WRONG_VALUE, f"must be a number, not {describe_type(amount)}"
            )
            return None
        if not 0 <= amount <= _MAX_AMOUNT:
            place.at(name).add_problem(WRONG_VALUE, f"must be between 0 and {_MAX_AMOUNT}")
            return None
    return tuple((name, float(amount)) for name, amount in table.items())


_AMOUNTS = ValueType(
    _read_amounts,
    "table of amounts",
    {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
)


def _read_labels(value: Any, place: Place) -> tuple[tuple[str, str], ...] | None:
    """Read a table of name → text. Return pairs, because settings must be hashable."""
    table = read_json_table(value, place)
    if table is None:
        return None
    for name, text in table.items():
        if not isinstance(text, str):
            place.at(name).add_problem(WRONG_VALUE, f"must be text, not {describe_type(text)}")
    return tuple((name, text) for name, text in table.items() if isinstance(text, str))


_LABELS = ValueType(
    _read_labels,
    "table of texts",
    {"type": "object", "additionalProperties": {"type": "string"}},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(_Settings):
    """How many processes one extension may have at a time, and where.

    `engine` places them on other nodes (machines); None starts them on this machine. A node has at
    most `per_node` of them, and must have the free `resources` and the `labels`. With `spread`, the
    node with the fewest processes is chosen first. `files` is "sent" if the folder of the extension
    is sent to the nodes, and "runtime-env" if Ray sends it (`cluster.runtime_env`). With `image`,
    Ray runs the processes in containers of that image.
    """

    min: int | None = setting(
        integer_at_least(0), "How many processes are started, and kept when idle.", "1", "1"
    )
    max: int | None = setting(
        integer_at_least(1), "How many processes there are at most.", "4", "1"
    )
    engine: str | None = setting(
        one_of("ray", "local"),
        "How its processes are placed on other nodes: by a Ray cluster, or nodes simulated here.",
        '"ray"',
        "(this machine)",
    )
    per_node: int | None = setting(
        integer_at_least(1), "How many of them one node has at most.", "4", "(no limit)"
    )
    resources: tuple[tuple[str, float], ...] | None = setting(
        _AMOUNTS, "The resources that each of them needs.", "{ CPU = 1 }", "{ }"
    )
    spread: bool | None = setting(
        FLAG, "Whether the node with the fewest gets the next one.", "true", "true"
    )
    labels: tuple[tuple[str, str], ...] | None = setting(
        _LABELS, "The labels that its nodes must have.", '{ zone = "a" }', "{ }"
    )
    files: str | None = setting(
        one_of("present", "sent", "runtime-env"),
        "Whether its folder is at the same path on every node, is sent there by the host, or is in "
        "the `working_dir` of `cluster.runtime_env`.",
        '"sent"',
        '"present"',
    )
    image: str | None = setting(
        TEXT,
        "The container image in which Ray runs its processes.",
        '"registry.example.org/text:1.2"',
        "(no container)",
    )


def _read_network(value: Any, place: Place) -> bool | tuple[str, ...] | None:
    """Read true, false, or a list of hosts. An empty list is false."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, list | tuple):
        help = "put it in [ ]" if isinstance(value, str) else ""
        kind = describe_type(value)
        place.add_problem(WRONG_VALUE, f"must be true, false or a list of hosts, not {kind}", help)
        return None
    if len(value) > _MAX_HOSTS:
        place.add_problem(WRONG_VALUE, f"must have at most {_MAX_HOSTS} hosts")
        return None
    hosts = []
    for index, item in enumerate(value):
        text = read_text(item, place.at(index))
        if text is None:
            continue
        try:
            hosts.append(parse_entry(text).text)
        except BadHost as error:
            place.at(index).add_problem(WRONG_VALUE, f"{quote_text(text)}: {error}")
    return tuple(dict.fromkeys(hosts)) or False


_NETWORK = ValueType(
    _read_network,
    "true, false or list of text",
    {"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "string"}}]},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The permissions of an extension. Access that is not granted here is denied.

    `max_memory` is in bytes, `max_execution_time` in seconds; None means no limit.
    """

    network: bool | tuple[str, ...] = setting(
        _NETWORK,
        "The hosts that it can connect to: `true` for all, `false` for none, or a list of names, "
        "addresses and ports.",
        '["api.example.com:443", "*.example.org"]',
        "false",
        unset=False,
    )
    filesystem: tuple[str, ...] = setting(
        TEXT_LIST,
        "Paths that it sees, read-only unless they end in :rw.",
        '["/srv/data", "/srv/out:rw"]',
        "[]",
        unset=(),
    )
    max_memory: int | None = setting(
        SIZE, "Memory of all its processes together.", '"512MB"', "(no limit)"
    )
    max_execution_time: float | None = setting(
        POSITIVE_DURATION, "The longest time of each call.", '"30s"', "(no limit)"
    )


# The keys of a table that says what happens when hooks of one kind fail.
_ON_FAILURE: Mapping[str, Key] = {
    "on_failure": Key(
        one_of("closed", "open"),
        "Whether a call that a hook could not judge is refused (closed) or let through.",
        '"closed"',
        '"closed"',
    )
}


# The keys of the section `[hooks]` of a config.
_HOST_HOOK_KEYS: Mapping[str, Key] = {
    **_ON_FAILURE,
    "required": Key(
        TEXT_LIST,
        "The ids of required guards: without one of them no tool is called.",
        '["policy"]',
        "[]",
    ),
}


class HostHooks(NamedTuple):
    """The section `[hooks]`: what happens when a hook fails (see `hook_policy`), and the ids of the
    required guards: the extensions that must be there, because their hooks judge tool calls."""

    policy: Mapping[str, str]
    required: tuple[str, ...] = ()


def read_host_hooks(value: Any, place: Place) -> HostHooks:
    """Read the section `[hooks]`."""
    if not isinstance(value, Mapping):
        return HostHooks(hook_policy(value, place))
    table = dict(value)
    required = read_table(
        {"required": table.pop("required", [])}, place, {"required": _HOST_HOOK_KEYS["required"]}
    )
    return HostHooks(hook_policy(table, place, _HOST_HOOK_KEYS), required.get("required") or ())


def hook_policy(value: Any, place: Place, keys: Mapping[str, Key] = _ON_FAILURE) -> dict[str, str]:
    """Read what happens to a call when a hook fails: kind of hook → "closed" or "open".

    `{ on_failure = "closed" }` is for all kinds, and becomes the key "*". A table such as
    `{ before_message = { on_failure = "open" } }` is for one kind. `keys` are those that an error
    suggests.
    """
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
        return {}
    policies: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(key, str) and key.startswith("before_"):
            policy = read_table(item, place.at(key), _ON_FAILURE).get("on_failure")
        else:
            # `on_failure`, or an unknown key, which `read_table` reports.
            policy, key = read_table({key: item}, place, keys).get("on_failure"), "*"
        if policy is not None:
            policies[key] = policy
    return policies


# A name of a tool that every model API accepts. The registered name also has a prefix.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_PATTERN_CHARS = 1000


def _read_patterns(value: Any, place: Place) -> tuple[str, ...] | None:
    """Read a list of patterns of names."""
    patterns = read_text_list(value, place)
    for number, pattern in enumerate(value if patterns else ()):
        if isinstance(pattern, str):
            check_pattern(pattern, place.at(number))
    return patterns


def check_pattern(pattern: str, place: Place) -> None:
    """Add a problem if a pattern is too long."""
    if len(pattern) > _MAX_PATTERN_CHARS:
        text = f"a pattern has at most {_MAX_PATTERN_CHARS} characters, and this has {len(pattern)}"
        place.add_problem(WRONG_VALUE, text)


def _read_new_names(value: Any, place: Place) -> tuple[tuple[str, str], ...] | None:
    """Read a table of name → new name. Return pairs, because settings must be hashable."""
    pairs = _read_labels(value, place)
    old_names: dict[str, str] = {}  # by the new names
    for old, new in pairs or ():
        if not _TOOL_NAME.fullmatch(new):
            text = "a new name has 1 to 64 letters, digits, _ and -"
            place.at(old).add_problem(WRONG_VALUE, text)
        elif new in old_names:
            text = f"{old_names[new]!r} gets the same name"
            place.at(old).add_problem(WRONG_VALUE, text, "change it")
        old_names[new] = old
    return pairs


PATTERNS = ValueType(
    _read_patterns,
    "list of patterns",
    {"type": "array", "items": {"type": "string", "pattern": r"\S", "maxLength": 1000}},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings(_Settings):
    """Which tools of an extension exist for the host, and under which names (see `tool_choice`).
    None for `allow` means all; `rename` and `describe` are pairs."""

    allow: tuple[str, ...] | None = setting(
        PATTERNS, "Only tools whose names fit one of these patterns exist.", '["get_*"]', "(all)"
    )
    deny: tuple[str, ...] | None = setting(
        PATTERNS, "Tools whose names fit one of these patterns do not exist.", '["*_delete"]', "[]"
    )
    rename: tuple[tuple[str, str], ...] | None = setting(
        ValueType(
            _read_new_names,
            "table of names",
            {
                "type": "object",
                "additionalProperties": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            },
        ),
        "New names, by the names that the extension has for its tools.",
        '{ search = "search_wiki" }',
        "{}",
    )
    describe: tuple[tuple[str, str], ...] | None = setting(
        _LABELS,
        "New descriptions, by the names that the extension has for its tools.",
        '{ search = "Search the wiki of the team." }',
        "{}",
    )


def _group_type(group: type[_Settings]) -> ValueType:
    """Return the type of a table that is read as this group of settings."""
    keys = keys_of(group)
    return table_type(keys, lambda value, place: group(**read_table(value, place, keys)))


def _read_pool(value: Any, place: Place) -> Pool:
    pool = Pool(**read_table(value, place, keys_of(Pool)))
    if pool.min is not None and pool.max is not None and pool.min > pool.max:
        place.add_problem(WRONG_VALUE, f"min ({pool.min}) must not be more than max ({pool.max})")
    return pool


def _read_permissions(value: Any, place: Place) -> Permissions | None:
    # None means that a value is wrong. It is left out, because None is not a valid value of
    # Permissions.
    read = read_table(value, place, keys_of(Permissions))
    return Permissions(**{key: item for key, item in read.items() if item is not None})


def _read_sha256(value: Any, place: Place) -> str | None:
    """Read a digest: 64 hexadecimal digits. Return it in lower case."""
    digits = set("0123456789abcdefABCDEF")
    if not isinstance(value, str) or len(value) != 64 or not digits.issuperset(value):
        if not isinstance(value, str):
            actual = f"is {describe_type(value)}"
        elif len(value) != 64:
            actual = f"is {len(value)} characters"
        else:
            actual = "has a character that is not one"
        place.add_problem(
            WRONG_VALUE, f"must be the 64 hexadecimal digits of a SHA-256, and {actual}"
        )
        return None
    return value.lower()


_DIGEST_SCHEMA: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_DIGEST = '"' + "0123456789abcdef" * 4 + '"'
_SHA256_TYPE = ValueType(_read_sha256, "SHA-256 in hexadecimal", _DIGEST_SCHEMA)


class Pins(NamedTuple):
    """The SHA-256 digests that the files and tools of an extension must have. "" is not checked."""

    program: str = ""
    interpreter: str = ""
    package: str = ""
    manifest: str = ""
    tools: str = ""


PINS: Mapping[str, Key] = {
    "program": Key(_SHA256_TYPE, "The digest of the code that its command runs.", _DIGEST),
    "interpreter": Key(_SHA256_TYPE, "The digest of the interpreter that reads the code.", _DIGEST),
    "package": Key(_SHA256_TYPE, "The digest of all files of its folder.", _DIGEST),
    "manifest": Key(_SHA256_TYPE, "The digest of the manifest.", _DIGEST),
    "tools": Key(_SHA256_TYPE, "The digest of the tools that it offers.", _DIGEST),
}

_PINS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(PINS, _DIGEST_SCHEMA),
    "additionalProperties": False,
}


def _read_pins(value: Any, place: Place) -> str | Pins | None:
    """Read one digest, or a table of digests."""
    if not isinstance(value, Mapping):
        return _read_sha256(value, place)
    read = read_table(value, place, PINS)
    return Pins(**{key: item for key, item in read.items() if item is not None})


# The types of `hooks` in an entry of an extension, and of the section `[hooks]`.
HOOKS = ValueType(
    hook_policy,
    "table, and tables by kind of hook",
    {
        "patternProperties": {
            "^before_": {
                "type": "object",
                "properties": {"on_failure": _ON_FAILURE["on_failure"].type.schema},
                "additionalProperties": False,
            }
        },
    },
    keys=_ON_FAILURE,
)

HOST_HOOKS = replace(
    HOOKS,
    read=read_host_hooks,
    description="table, and tables by kind of hook",
    keys=_HOST_HOOK_KEYS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettings:
    """The settings that every extension may have: those of a `Spec`, and of one place of a config
    (`settings.Settings`). None, or an empty mapping, means that a setting is not set."""

    limits: Limits = setting(
        _group_type(Limits),
        "Limits of time, size and number.",
        '{ call = "10s" }',
        unset=Limits(),
    )
    restart: Restart = setting(
        _group_type(Restart),
        "When its process is restarted.",
        '{ strategy = "exponential", max_retries = 3 }',
        unset=Restart(),
    )
    breaker: Breaker = setting(
        _group_type(Breaker),
        "When an extension that keeps failing gets no more calls for a while.",
        '{ failures = 5, open = "10s" }',
        unset=Breaker(),
    )
    pool: Pool = setting(
        table_type(keys_of(Pool), _read_pool),
        "How many processes it has.",
        "{ min = 1, max = 4 }",
        unset=Pool(),
    )
    permissions: Permissions | None = setting(
        table_type(keys_of(Permissions), _read_permissions),
        "The permissions of its sandbox; with this table, it has no others.",
        '{ network = false, filesystem = ["/srv/data"] }',
        "(no sandbox)",
    )
    sandbox: str | None = setting(
        one_of("strict", "best-effort", "landlock", "off"),
        "Whether permissions that cannot be enforced here refuse it; landlock: a weaker sandbox "
        "that needs no namespaces.",
        '"best-effort"',
        '"strict"',
    )
    env: Mapping[str, str] = setting(
        VARIABLES,
        "Environment variables for it: texts, or references to a variable of the host (`from`), a "
        "file, the output of a command, or an entry of the keyring.",
        '{ MODE = "fast", API_KEY = { from = "CONVERT_API_KEY" }, TOKEN = { file = "token" } }',
        "{}",
        unset=EMPTY_MAPPING,
        repr=False,  # its values may be secrets
    )
    inject: tuple[HeaderInjection, ...] | None = setting(
        INJECTIONS,
        "A header with a secret that its proxy adds to plain HTTP requests; it does not get the "
        "variable itself.",
        '{ host = "api.example.com", header = "Authorization: Bearer {TOKEN}" }',
        "(none)",
    )
    env_policy: str | None = setting(
        one_of("filtered", "minimal", "declared"),
        "Which of the host's variables it gets: all that do not look secret, a short list, or "
        "those under `env` alone.",
        '"minimal"',
    )
    cwd: str | None = setting(
        TEXT, "The folder in which it runs.", '"/srv/app"', "(the config's folder)"
    )
    sha256: str | Pins | None = setting(
        ValueType(
            _read_pins,
            "SHA-256 in hexadecimal, or table of them",
            {"anyOf": [_DIGEST_SCHEMA, _PINS_SCHEMA]},
            keys=PINS,
        ),
        "The digest that the code of its program must have, or several digests.",
        _DIGEST,
        "(not checked)",
    )
    retry: str | None = setting(
        one_of("never", "once"),
        "Whether a call that died with its process is sent once more.",
        '"once"',
    )
    start: str | None = setting(
        one_of("eager", "lazy"), "Whether it starts with the host or at its first use.", '"lazy"'
    )
    lifetime: str | None = setting(
        one_of("tree", "plain"),
        "Whether all its descendants end with it; needs a PID namespace.",
        '"plain"',
        '"tree"',
    )
    start_method: str | None = setting(
        one_of("execute", "template"),
        "How its processes are started: template forks a Python program from a process that has "
        "imported its modules before.",
        '"template"',
        '"execute"',
    )
    isolation: str | None = setting(
        one_of("process", "call"),
        "Whether each call has a process of its own, which never saw another call.",
        '"call"',
        '"process"',
    )
    on_weaker: str | None = setting(
        one_of("refuse", "warn"),
        "Whether it runs on a machine that cannot contain it as intended.",
        '"refuse"',
        '"warn"',
    )
    share: bool | None = setting(
        FLAG,
        "Whether the clients of `exthost gateway` share its processes; false: each client has its "
        "own.",
        "false",
        "(true, unless it is known to keep state or asks its client)",
    )
    hooks: Mapping[str, str] = setting(
        HOOKS,
        "The effect of a failed hook.",
        '{ on_failure = "closed", before_message = { on_failure = "open" } }',
        unset=EMPTY_MAPPING,
    )
    tools: ToolSettings = setting(
        _group_type(ToolSettings),
        "Which of its tools exist, and under which names.",
        '{ allow = ["get_*"], deny = ["*_delete"] }',
        "(all)",
        unset=ToolSettings(),
    )
    options: Mapping[str, Any] = setting(
        JSON_TABLE,
        "Options of its dialect.",
        '{ host_version = "1.2.0" }',
        "{}",
        unset=EMPTY_MAPPING,
    )


SETTING_KEYS: Mapping[str, Key] = {
    **keys_of(SharedSettings),
    "args": Key(ANY_TEXT_LIST, "The arguments of its program.", '["--verbose"]', "[]"),
}
