"""The accesses of a program that was observed: the files that it used, and the addresses that it
connected to.

`exthost learn` runs a program to find out which permissions it needs. The module also defines how
an observed system call is read (`ObservedCall`). All values are frozen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from exthost.model.empty_mapping import empty_mapping

FileUse: TypeAlias = Literal["look", "list", "read", "execute", "write", "create"]
"""How a program used a path.

look     it read the attributes or the target of a link, or made it its working folder
list     it opened a folder
read     it opened a file to read
execute  it executed a file
write    it opened an existing file to write, or changed its attributes
create   it created, renamed or deleted something at this path
"""


class PathArgument(NamedTuple):
    """Where a system call has a path: the index of the path among its arguments, and that of the
    folder (a file descriptor) that a relative path begins at; None for the working folder."""

    path: int
    folder: int | None = None


class ObservedCall(NamedTuple):
    """How an observed system call is read. `openat(folder, path, flags)`, for example, is
    `ObservedCall("openat", "open", (PathArgument(path=1, folder=0),), flags=2)`.

    name     the name of the call
    use      how it uses its paths; "open" if its flags decide, "connect", "bind" or "send" for a
             call with an address
    paths    its paths
    address  the index of its address, which is followed by the length
    flags    the index of its flags, for "open"
    """

    name: str
    use: FileUse | Literal["open", "connect", "bind", "send"]
    paths: tuple[PathArgument, ...] = ()
    address: int = 0
    flags: int = 0


class Destination(NamedTuple):
    """An address that a program connected to. `name` is the name that it had looked up to get the
    address; "" if no look-up was seen."""

    address: str
    port: int
    protocol: Literal["tcp", "udp"] = "tcp"
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What was observed of all processes of a program.

    files         how each path was used, in the order of first use; the paths are absolute and
                  normalized, and existed or were created
    created       the paths that did not exist before the program used them
    destinations  the addresses that it connected or sent to
    names         the names that it looked up
    listeners     the ports that it bound, as "tcp 8080"
    unix_sockets  the paths of Unix sockets that it connected to
    unseen        how many calls could not be read: the program protected its memory, or there were
                  more than are kept
    """

    files: Mapping[str, frozenset[FileUse]] = field(default_factory=empty_mapping)
    created: frozenset[str] = frozenset()
    destinations: tuple[Destination, ...] = ()
    names: tuple[str, ...] = ()
    listeners: tuple[str, ...] = ()
    unix_sockets: tuple[str, ...] = ()
    unseen: int = 0
