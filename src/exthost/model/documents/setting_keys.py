"""`SETTING_KEYS`: the keys that every extension may have in a config.

An `[[extensions]]` entry, `[overrides.<id>]` and `[defaults]` all have these keys. `settings`
merges the values of the three places.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

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
    one_of,
    table_type,
)
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import (
    describe_type,
    integer_reader,
    read_json_table,
    read_table,
)
from exthost.model.spec import UNLIMITED, Breaker, Limits, Permissions, Pins, Pool, Restart

LIMITS: Mapping[str, Key] = {
    "start": Key(
        POSITIVE_DURATION,
        "How long starting the process and its handshake may take together.",
        '"60s"',
    ),
    "handshake": Key(POSITIVE_DURATION, "How long the handshake may take.", '"30s"'),
    "call": Key(
        POSITIVE_DURATION, "How long a call may take if the caller sets no timeout.", '"10s"'
    ),
    "idle": Key(
        POSITIVE_DURATION,
        "After how long without a call the process is ended; the next call starts another.",
        '"5m"',
        "(never)",
    ),
    "write": Key(
        POSITIVE_DURATION,
        "How long a process may leave its stdin unread before it is ended.",
        '"30s"',
    ),
    "stop": Key(
        DURATION,
        "How long a process has to end after it was asked to, before SIGKILL; also how long calls "
        "may go on when the extension is drained.",
        '"10s"',
    ),
    "max_message": Key(SIZE, "The largest message that the process may send.", '"64MiB"'),
    "max_in_flight": Key(
        integer_at_least(1), "How many calls a process has at a time; more wait.", "8"
    ),
    "cpu": Key(
        POSITIVE_DURATION, "Processor time of all its processes together.", '"60s"', "(no limit)"
    ),
    "nofile": Key(
        integer_at_least(1),
        "Open files of each process.",
        "64",
        "(no limit; 1024 in a sandbox)",
    ),
    "fsize": Key(SIZE, "The largest file that it may write.", '"100MB"', "(no limit)"),
    "nproc": Key(
        integer_at_least(1), "How many processes it may have.", "16", "(no limit; 512 in a sandbox)"
    ),
    "store": Key(SIZE, "How much it may store through the host.", '"16MiB"'),
}


def _read_retries(value: Any, place: Place) -> int | None:
    """Read a whole number, or "unlimited"."""
    return UNLIMITED if value == "unlimited" else integer_reader(0)(value, place)


RESTART: Mapping[str, Key] = {
    "strategy": Key(
        one_of("never", "immediate", "exponential", "on-demand"),
        "When a process that ended is started again; on-demand: by the next call.",
        '"exponential"',
    ),
    "initial_delay": Key(DURATION, "The delay before the first restart; it doubles.", '"1s"'),
    "max_delay": Key(DURATION, "The longest delay.", '"30s"'),
    "max_retries": Key(
        ValueType(
            _read_retries,
            'whole number or "unlimited"',
            {"anyOf": [{"type": "integer", "minimum": 0}, {"const": "unlimited"}]},
        ),
        "How many restarts there are before the extension has failed for good.",
        "3",
    ),
    "window": Key(
        POSITIVE_DURATION,
        "Only restarts within this time count; without it, all since it last ran well.",
        '"10m"',
        "(none)",
    ),
}

BREAKER: Mapping[str, Key] = {
    "failures": Key(
        integer_at_least(1), "After how many failures in a row calls are refused.", "5"
    ),
    "open": Key(
        POSITIVE_DURATION, "For how long, before a fresh process is tried; it doubles.", '"10s"'
    ),
    "max_open": Key(POSITIVE_DURATION, "The longest such time.", '"2m"'),
    "successes": Key(
        integer_at_least(1),
        "How many calls must then succeed until all calls are let through.",
        "2",
    ),
    "count_error_replies": Key(
        FLAG, "Whether an error reply, or a result marked as an error, is a failure.", "true"
    ),
}


def _read_amounts(value: Any, place: Place) -> tuple[tuple[str, float], ...] | None:
    """Read a table of name → amount. Return pairs, because settings must be hashable."""
    read = read_json_table(value, place)
    if read is None:
        return None
    for name, amount in read.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
            place.at(name).add_problem(WRONG_VALUE, f"an amount is wanted, not {amount!r}")
    return tuple((name, float(n)) for name, n in read.items() if isinstance(n, int | float))


_AMOUNTS = ValueType(
    _read_amounts,
    "table of amounts",
    {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
)


def _read_labels(value: Any, place: Place) -> tuple[tuple[str, str], ...] | None:
    """Read a table of name → text. Return pairs, because settings must be hashable."""
    read = read_json_table(value, place)
    if read is None:
        return None
    for name, text in read.items():
        if not isinstance(text, str):
            place.at(name).add_problem(WRONG_VALUE, f"a text is wanted, not {text!r}")
    return tuple((name, text) for name, text in read.items() if isinstance(text, str))


_LABELS = ValueType(
    _read_labels,
    "table of texts",
    {"type": "object", "additionalProperties": {"type": "string"}},
)

POOL: Mapping[str, Key] = {
    "min": Key(
        integer_at_least(0), "How many processes are started, and kept when idle.", "1", "1"
    ),
    "max": Key(integer_at_least(1), "How many processes there are at most.", "4", "1"),
    "engine": Key(
        one_of("ray", "local"),
        "What places its processes on other nodes: a Ray cluster, or nodes simulated here.",
        '"ray"',
        "(this machine)",
    ),
    "per_node": Key(
        integer_at_least(1), "How many of them one node has at most.", "4", "(no limit)"
    ),
    "resources": Key(_AMOUNTS, "What each of them needs of its node.", "{ CPU = 1 }", "{ }"),
    "spread": Key(FLAG, "Whether the node with the fewest gets the next one.", "true", "true"),
    "labels": Key(_LABELS, "The labels that its nodes must have.", '{ zone = "a" }', "{ }"),
    "files": Key(
        one_of("present", "sent"),
        "Whether its folder is at the same path on every node, or is sent there.",
        '"sent"',
        '"present"',
    ),
}

PERMISSIONS: Mapping[str, Key] = {
    "network": Key(FLAG, "Whether it may use the network.", "false", "false"),
    "filesystem": Key(
        TEXT_LIST,
        "Paths that it sees, read-only unless they end in :rw.",
        '["/srv/data", "/srv/out:rw"]',
        "[]",
    ),
    "max_memory": Key(SIZE, "Memory of all its processes together.", '"512MB"', "(no limit)"),
    "max_execution_time": Key(
        POSITIVE_DURATION, "The longest time of each call.", '"30s"', "(no limit)"
    ),
}

_ON_FAILURE: Mapping[str, Key] = {
    "on_failure": Key(
        one_of("closed", "open"),
        "Whether a call that a hook could not judge is refused (closed) or let through.",
        '"closed"',
        '"closed"',
    )
}


_HOST_HOOK_KEYS: Mapping[str, Key] = {
    **_ON_FAILURE,
    "required": Key(
        TEXT_LIST,
        "The guards that must be there, by their ids: without one of them no tool is called.",
        '["policy"]',
        "[]",
    ),
}


class HostHooks(NamedTuple):
    """The section `[hooks]`: what happens when a hook fails (see `hook_policy`), and the ids of the
    guards that must be there."""

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
        place.add_problem(WRONG_VALUE, f"must be a table, and is {describe_type(value)}")
        return {}
    read: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(key, str) and key.startswith("before_"):
            policy = read_table(item, place.at(key), _ON_FAILURE).get("on_failure")
        else:
            # `on_failure`, or an unknown key, which `read_table` reports.
            policy, key = read_table({key: item}, place, keys).get("on_failure"), "*"
        if policy is not None:
            read[key] = policy
    return read


def _read_pool(value: Any, place: Place) -> Pool:
    pool = Pool(**read_table(value, place, POOL))
    if pool.min is not None and pool.max is not None and pool.min > pool.max:
        place.add_problem(WRONG_VALUE, f"min ({pool.min}) must not be more than max ({pool.max})")
    return pool


def _read_permissions(value: Any, place: Place) -> Permissions | None:
    # None means that a value is wrong. It is left out, because None is not a valid value of
    # Permissions.
    read = read_table(value, place, PERMISSIONS)
    return Permissions(**{key: item for key, item in read.items() if item is not None})


def _read_sha256(value: Any, place: Place) -> str | None:
    digits = set("0123456789abcdefABCDEF")
    if not isinstance(value, str) or len(value) != 64 or not digits.issuperset(value):
        actual = (
            f"is {len(value)} characters"
            if isinstance(value, str)
            else f"is {describe_type(value)}"
        )
        place.add_problem(
            WRONG_VALUE, f"must be the 64 hexadecimal digits of a SHA-256, and {actual}"
        )
        return None
    return value.lower()


_DIGEST_SCHEMA: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_DIGEST = '"' + "0123456789abcdef" * 4 + '"'
_SHA256_TYPE = ValueType(_read_sha256, "SHA-256 in hexadecimal", _DIGEST_SCHEMA)

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

SETTING_KEYS: Mapping[str, Key] = {
    "limits": Key(
        table_type(LIMITS, lambda value, place: Limits(**read_table(value, place, LIMITS))),
        "Limits of time, size and number.",
        '{ call = "10s" }',
    ),
    "restart": Key(
        table_type(RESTART, lambda value, place: Restart(**read_table(value, place, RESTART))),
        "What happens when its process ends.",
        '{ strategy = "exponential", max_retries = 3 }',
    ),
    "breaker": Key(
        table_type(BREAKER, lambda value, place: Breaker(**read_table(value, place, BREAKER))),
        "When an extension that keeps failing gets no more calls for a while.",
        '{ failures = 5, open = "10s" }',
    ),
    "pool": Key(table_type(POOL, _read_pool), "How many processes it has.", "{ min = 1, max = 4 }"),
    "permissions": Key(
        table_type(PERMISSIONS, _read_permissions),
        "What its sandbox grants it; with this table, it has nothing else.",
        '{ network = false, filesystem = ["/srv/data"] }',
        "(no sandbox)",
    ),
    "sandbox": Key(
        one_of("strict", "best-effort", "off"),
        "Whether permissions that cannot be enforced here refuse it.",
        '"best-effort"',
        '"strict"',
    ),
    "env": Key(
        VARIABLES,
        "Environment variables for it, or names of the host's own.",
        '{ MODE = "fast", API_KEY = { from = "CONVERT_API_KEY" } }',
        "{}",
    ),
    "env_policy": Key(
        one_of("filtered", "minimal", "declared"),
        "Which of the host's variables it gets: all that do not look secret, a short list, or "
        "those under `env` alone.",
        '"minimal"',
    ),
    "cwd": Key(TEXT, "The folder in which it runs.", '"/srv/app"', "(the config's folder)"),
    "args": Key(ANY_TEXT_LIST, "The arguments of its program.", '["--verbose"]', "[]"),
    "sha256": Key(
        ValueType(
            _read_pins,
            "SHA-256 in hexadecimal, or table of them",
            {"anyOf": [_DIGEST_SCHEMA, _PINS_SCHEMA]},
            keys=PINS,
        ),
        "The digest that the code of its program must have, or several digests.",
        _DIGEST,
        "(not checked)",
    ),
    "retry": Key(
        one_of("never", "once"),
        "Whether a call that died with its process is sent once more.",
        '"once"',
    ),
    "start": Key(
        one_of("eager", "lazy"), "Whether it starts with the host or at its first use.", '"lazy"'
    ),
    "lifetime": Key(
        one_of("tree", "plain"),
        "Whether all its descendants end with it; needs a PID namespace.",
        '"plain"',
        '"tree"',
    ),
    "on_weaker": Key(
        one_of("refuse", "warn"),
        "What happens where the machine contains it less than intended.",
        '"refuse"',
        '"warn"',
    ),
    "share": Key(
        FLAG,
        "Whether the clients of `exthost gateway` share its processes; false: each client has its "
        "own.",
        "false",
        "(true, unless it is known to keep state or asks its client)",
    ),
    "hooks": Key(
        HOOKS,
        "What happens when one of its hooks fails.",
        '{ on_failure = "closed", before_message = { on_failure = "open" } }',
    ),
    "options": Key(
        JSON_TABLE,
        "Options of its dialect.",
        '{ host_version = "1.2.0" }',
        "{}",
    ),
}
