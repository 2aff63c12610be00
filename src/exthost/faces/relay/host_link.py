"""Finds the control socket of a config's host, and joins the host as a client of its MCP service.

The relay, which is `exthost gateway` on stdio, uses this to connect an MCP client to a host that
runs. `exthost call` uses only `connect`.

`connect` finds the socket. `join` sends one request and reads one line. The host does not join a
client of another version. Otherwise it sends the names of the environment variables that its config
refers to, each with a salted digest of the host's value. This process compares them with its own
variables, so that no value is sent.
"""

import os
from _socket import AF_UNIX, SOCK_STREAM, socket

from exthost._version import __version__
from exthost.host.control.peer_credentials import is_same_user, is_sandboxed, peer_pid
from exthost.host.control.socket_path import digest, is_own_folder, socket_paths

# A host that is neither stopped nor hung answers at once.
JOIN_SECONDS = 10.0

_READ_BYTES = 64 * 1024


class Unjoinable(Exception):
    """The reason why this client cannot join the host that runs, as a sentence."""


class HostLink:
    """A connection to a host that has accepted this client.

    socket    the connected socket
    pid       the process of the host
    is_stale  whether the config has changed since the host read it, and the host does not reload it
              by itself
    """

    __slots__ = ("is_stale", "pid", "socket")

    def __init__(self, connected: socket, pid: int, *, is_stale: bool) -> None:
        self.socket = connected
        self.pid = pid
        self.is_stale = is_stale


def connect(config: str) -> "tuple[socket | None, str]":
    """Return a socket that is connected to the host of this config, or None if no host listens.
    Return also a sentence about a socket that was found and is not in use, or "". Raises
    Unjoinable."""
    note = ""
    for path in socket_paths(config, os.environ):
        folder = path.rpartition("/")[0]
        if not is_own_folder(folder):
            if os.path.lexists(path):
                raise Unjoinable(f"the socket {path} is in a folder of another user")
            continue
        connected = socket(AF_UNIX, SOCK_STREAM)
        try:
            connected.settimeout(JOIN_SECONDS)
            connected.connect(path)
        except FileNotFoundError:
            connected.close()
            continue
        except ConnectionRefusedError:
            connected.close()
            note = f"the socket {path} is left over from a host that has crashed"
            continue
        except OSError as error:
            connected.close()
            raise Unjoinable(
                f"the socket {path} cannot be used: {error.strerror or error}"
            ) from None
        if not is_same_user(connected):
            connected.close()
            raise Unjoinable(f"the socket {path} is one of another user")
        if is_sandboxed(connected):
            connected.close()
            raise Unjoinable(f"at the socket {path} is a sandboxed process instead of a host")
        return connected, ""
    return None, note


def join(connected: socket, plain_names: bool) -> HostLink:
    """Join the host at the other end. Raises Unjoinable, and ConnectionError if the host has ended;
    the socket is closed then."""
    pid = peer_pid(connected) or 0
    flag = "true" if plain_names else "false"
    request = (
        f'{{"verb":"gateway","params":{{"pid":{os.getpid()},"version":"{__version__}",'
        f'"plain_names":{flag}}}}}\n'
    )
    try:
        connected.sendall(request.encode())
        reply = b""
        while not reply.endswith(b"\n"):
            data = connected.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError
            reply += data
        return _read_reply(reply, connected, pid)
    except TimeoutError:
        connected.close()
        raise Unjoinable(
            f"the host, process {pid}, did not answer within {JOIN_SECONDS:g} s"
        ) from None
    except BaseException:
        connected.close()
        raise


def _read_reply(reply: bytes, connected: socket, pid: int) -> HostLink:
    """Read the reply of the host: the word "joined", whether its config is stale, the salt, and the
    variables, separated by tabs; or an error as JSON."""
    word, *fields = reply.rstrip(b"\n").split(b"\t")
    if word != b"joined":
        if b'"X1378"' in reply:  # the code of the error that the host is ending
            raise ConnectionResetError
        raise Unjoinable(f"the host, process {pid}, refuses it: {_error_message(reply)}")
    is_stale, salt, *variables = fields
    names = [os.fsdecode(name) for name in _differing(salt, variables)]
    if names:
        verb = "differ" if len(names) > 1 else "differs"
        raise Unjoinable(
            f"{', '.join(names)} {verb} between this client and the host, process {pid}, that runs"
        )
    return HostLink(connected, pid, is_stale=is_stale == b"1")


def _differing(salt: bytes, variables: "list[bytes]") -> "list[bytes]":
    """Return the names of the variables whose values differ from those of the host."""
    names = []
    for variable in variables:
        name_hex, _, host_digest = variable.partition(b"=")
        name = bytes.fromhex(name_hex.decode())
        value = os.environb.get(name)
        own = "-" if value is None else digest(salt + b"\0" + name + b"\0" + value)
        if own != host_digest.decode():
            names.append(name)
    return names


def _error_message(reply: bytes) -> str:
    import json

    try:
        error = json.loads(reply)["error"]
        return f"{error['message']} [{error['code']}]"
    except (ValueError, KeyError, TypeError):
        return "it does not know the request"
