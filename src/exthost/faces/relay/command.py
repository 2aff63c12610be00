"""`exthost gateway` on stdio: joins the running host of its config, or starts one, and relays the
lines of the client to the host.

An MCP client (an editor or agent) starts this program as its MCP server. The host, which does the
work, is another process, so that all clients share the processes of the extensions.

Where joining is impossible, the reason is written to stderr, and the caller runs a host of its own
instead, as with `--own`. A config that cannot be read is not such a reason: the other host could
not read it, either.
"""

import os
import sys

from exthost.faces.relay.host_link import HostLink, Unjoinable, connect, join

DEFAULT_CONFIG = "exthost.toml"

# How long to try to start a host while another one has the lock of the config, because it is
# starting or ending; and the pause between two attempts.
_START_SECONDS = 20.0
_RETRY_SECONDS = 0.1


class _Ended(Exception):
    """The host that this program has started ended before it accepted clients. `code` is its exit
    code and `text` is its stderr."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class _NotInstalled(Unjoinable):
    """No host runs, and one that this program starts could not serve MCP."""


def read_plain_options(arguments: "list[str]") -> "tuple[str, bool] | None":
    """Return the path of the config and whether there is --plain-names. Return None for other
    arguments, which the parser of the command line reads, and if there is no such config, which the
    command line reports."""
    config, plain_names = "", False
    rest = iter(arguments)
    for argument in rest:
        if argument == "--plain-names":
            plain_names = True
        elif argument == "--config":
            config = next(rest, "")
            if not config:
                return None
        elif argument.startswith("--config=") and len(argument) > len("--config="):
            config = argument.partition("=")[2]
        else:
            return None
    config = config or DEFAULT_CONFIG
    return (config, plain_names) if os.path.isfile(config) else None  # noqa: PTH113


def run_relay(config: str, plain_names: bool) -> "int | None":
    """Relay until the client ends. Return the exit code; None if this client needs a host of its
    own, after saying why."""
    # `signal` also imports `enum`, which takes longer.
    from _signal import SIGTERM, signal  # type: ignore[import-not-found]

    config = os.path.abspath(config)  # noqa: PTH100
    try:
        link = _join_or_start(config, plain_names)
    except _NotInstalled:
        return None  # the command line reports it
    except Unjoinable as reason:
        _say(f"{reason}; it runs its own host instead (--own)")
        return None
    except _Ended as ended:
        sys.stderr.write(ended.text)
        return ended.code
    assert link is not None
    if link.is_stale:
        _say(
            f"the config has changed since the host, process {link.pid}, read it: "
            "exthost reload applies it"
        )
    from exthost.faces.relay.line_relay import LineRelay, NoNextHost

    def find_host(may_start: bool) -> "HostLink | None":
        try:
            return _join_or_start(config, plain_names, may_start=may_start)
        except Unjoinable as reason:
            raise NoNextHost(f"the next host cannot be joined: {reason}") from None
        except _Ended as ended:
            sys.stderr.write(ended.text)
            raise NoNextHost("the next host did not start; its reason is on stderr") from None

    signal(SIGTERM, _on_sigterm)
    try:
        LineRelay(link, find_host).run()
    except SystemExit:
        return 0
    return 0


def _on_sigterm(*_: object) -> None:
    raise SystemExit(0)


def _join_or_start(config: str, plain_names: bool, *, may_start: bool = True) -> "HostLink | None":
    """Join the host of this config. If none runs, start one, or return None without `may_start`.
    Raises Unjoinable and _Ended."""
    deadline: float | None = None
    while True:
        connected, note = connect(config)
        if connected is not None:
            try:
                return join(connected, plain_names)
            except OSError:
                pass  # the host is ending at this moment
        if not may_start:
            return None
        if note and deadline is None:
            _say(f"{note}; it is replaced")
        from importlib.util import find_spec
        from time import monotonic, sleep

        if find_spec("mcp") is None:
            raise _NotInstalled("the packages of the gateway are not installed")
        from exthost.host.control.host_start import ANOTHER_RUNS, CANNOT_SHARE, start_host

        if deadline is None:
            deadline = monotonic() + _START_SECONDS
        elif monotonic() > deadline:
            raise Unjoinable("a host has the lock of this config, and no socket where it should be")
        code, text = start_host(config)
        if code == CANNOT_SHARE:
            raise Unjoinable(text.strip())
        if code == ANOTHER_RUNS:  # another client starts one, or one is ending
            sleep(_RETRY_SECONDS)
        elif code != 0:
            raise _Ended(code, text)
        else:
            sys.stderr.write(text)


def _say(sentence: str) -> None:
    sys.stderr.write(f"exthost: {sentence}\n")
    sys.stderr.flush()
