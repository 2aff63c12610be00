"""Proposes the smallest `permissions` for a program, from what `exthost learn` observed of it.

The module is pure: `PathFacts` answers what it must know about the file system. Each path that the
program used is in a tier:

    system      visible to every sandboxed program, such as /usr
    runtime     the interpreter, its packages, the files of version and package managers
    own folder  the program itself, its script and its folder
    data        everything else that it needs: this must be granted
    secrets     never granted, and listed as a warning: keys, credentials, profiles of browsers,
                other projects, folders with files of many programs

The paths of the first three tiers are visible without a grant. A program decides what it uses while
it is observed, so it can ask for anything. Therefore a proposal never contains the last tier,
and only a person puts a proposal into a config.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from exthost.launch.sandbox.strict import VisiblePath
from exthost.model.observed_access import Destination, FileUse, Observations

Network: TypeAlias = bool | tuple[str, ...]
"""`permissions.network`: all or nothing, or a list of "host:port"."""


# If a program reads this many files of a folder, the folder is proposed in their place.
_FILES_OF_A_FOLDER = 4

# The longest list of examples in a reason.
_MAX_EXAMPLES = 3

# Hidden folders that many programs share, so that a runtime in one says nothing about the rest.
_SHARED_FOLDERS = (".local", ".config", ".cache")

# Programs read settings here that they can do without.
_SYSTEM_SETTINGS = "/etc"

_PRIVATE_MOUNTS = ("/tmp", "/dev/shm")
_WRITING: frozenset[FileUse] = frozenset({"write", "create"})
_READING: frozenset[FileUse] = frozenset({"read", "execute"})


class Tier(StrEnum):
    """What a path is to a program."""

    SYSTEM = "system"
    RUNTIME = "runtime"
    OWN_FOLDER = "own folder"
    DATA = "data"
    SECRETS = "secrets"


# The tier of a visible path, by its source. Every other source is a runtime.
_TIERS = {
    "system": Tier.SYSTEM,
    "package": Tier.OWN_FOLDER,
    "own folder": Tier.OWN_FOLDER,
    "argument": Tier.OWN_FOLDER,
    "state": Tier.OWN_FOLDER,
}


class PathFacts(Protocol):
    """What is known about paths of this machine."""

    def real_path(self, path: str) -> str:
        """Return the path with all symbolic links resolved."""

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder at this path."""

    def secret(self, path: str) -> str:
        """Return why the host does not suggest to grant a path, such as "an SSH key"; "" if it may
        suggest that."""

    def hidden(self, path: str) -> str:
        """Return the hidden folder that a path is in, or the path if only its owner can read it; ""
        if neither is the case."""

    def unwritable(self, folder: str) -> str:
        """Return why the host does not suggest to make a folder writable; "" if it may suggest
        that."""

    def secret_inside(self, folder: str) -> str:
        """Return the name of an entry of a folder that looks like a secret; "" if there is
        none."""

    def project(self, path: str) -> str:
        """Return the folder of the project that a path belongs to; "" if it belongs to none."""

    def installation(self, program: str) -> str:
        """Return the folder that a program was installed in with its libraries; "" if there is
        none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known about an extension beside the observations.

    visible  the paths that it sees without any grant
    private  the folders that are empty in the sandbox, and that it may write
    named    the paths that a person named: in its command, its variables or the calls
    own      the folders that belong to it: its working folder, that of its config
    """

    visible: Sequence[VisiblePath] = ()
    private: Sequence[str] = ()
    named: Sequence[str] = ()
    own: Sequence[str] = ()


class Grant(NamedTuple):
    """A path to grant, and the reason."""

    path: str
    may_write: bool
    reason: str

    @property
    def entry(self) -> str:
        """The entry of `permissions.filesystem`."""
        return f"{self.path}:rw" if self.may_write else self.path


class Withheld(NamedTuple):
    """Something that the program used, and that is not granted."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposal for `permissions`.

    network         whether it needs the network, or which hosts
    network_reason  why
    grants          the paths to grant
    optional        further paths, which it only looked at, or can probably do without
    seen            by tier, how many paths it used that are visible without a grant, and some
                    examples of them
    withheld        what it used and is not granted
    warnings        other remarks for a person
    """

    network: Network = False
    network_reason: str = ""
    grants: tuple[Grant, ...] = ()
    optional: tuple[Grant, ...] = ()
    seen: Mapping[Tier, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    withheld: tuple[Withheld, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def filesystem(self) -> tuple[str, ...]:
        """The value of `permissions.filesystem`."""
        return tuple(grant.entry for grant in self.grants)

    def with_optional(self) -> "Proposal":
        """Return the proposal with the optional paths."""
        return replace(self, grants=tuple(_outermost([*self.grants, *self.optional])), optional=())

    def as_data(self) -> dict[str, Any]:
        """Return the proposal as data for users."""
        return {
            "network": self.network if isinstance(self.network, bool) else list(self.network),
            "network_reason": self.network_reason,
            "filesystem": list(self.filesystem),
            "reasons": [
                {"entry": g.entry, "tier": "data", "reason": g.reason} for g in self.grants
            ],
            "visible": {tier.value: count for tier, (count, _) in self.seen.items()},
            "withheld": [item._asdict() for item in self.withheld],
            "warnings": list(self.warnings),
        }


def propose(observations: Observations, situation: Situation, facts: PathFacts) -> Proposal:
    """Return the smallest permissions with which the program could have done what was observed."""
    sorter = _Sorter(observations, situation, facts)
    for path, uses in observations.files.items():
        sorter.sort(path, uses)
    network, reason = _propose_network(observations)
    grants = _outermost(sorter.grants())
    entries = [grant.path for grant in grants]
    visible = [item.path for item in situation.visible]
    optional = [
        grant
        for grant in _outermost(sorter.optional)
        # A folder above a visible path exists in the sandbox.
        if not any(_is_below(path, grant.path) for path in (*visible, *entries))
        and not any(_is_below(grant.path, path) for path in entries)
    ]

    def is_granted(path: str) -> bool:
        return any(_is_below(path, entry) for entry in entries)

    withheld = [item for item in sorter.withheld.values() if not is_granted(item.path)]
    withheld += [
        Withheld(path, "a Unix socket: without network, no socket can be connected")
        for path in observations.unix_sockets
    ]
    warnings = [
        f"{grant.path} contains {inside}, which looks like a secret"
        for grant in grants
        if facts.is_folder(grant.path) and (inside := facts.secret_inside(grant.path))
    ]
    warnings += [
        f"it can read {path}, because it is in a folder that it needs: {secret}"
        for path in sorter.withheld
        if is_granted(path) and (secret := facts.secret(path))
    ]
    connected = {destination.name for destination in observations.destinations}
    warnings += [
        f"it looked up {name}, and connected to none of its addresses"
        for name in observations.names
        if name not in connected
    ]
    if observations.unseen:
        warnings.append(
            f"{observations.unseen} of its system calls could not be read, so something may be "
            "missing here"
        )
    return Proposal(
        network=network,
        network_reason=reason,
        grants=tuple(grants),
        optional=tuple(optional),
        seen={
            tier: (len(paths), tuple(paths)[:_MAX_EXAMPLES]) for tier, paths in sorter.seen.items()
        },
        withheld=tuple(withheld),
        warnings=tuple(warnings),
    )


class _Sorter:
    """Sorts the used paths into tiers, and collects what follows for the proposal: `grants()`,
    `optional`, `withheld` and `seen` (see `Proposal`)."""

    def __init__(self, observations: Observations, situation: Situation, facts: PathFacts) -> None:
        self._created = observations.created
        self._situation = situation
        self._facts = facts
        self._named = [facts.real_path(path) for path in situation.named]
        self._own = [facts.real_path(path) for path in situation.own]
        self._read_files: dict[str, str] = {}  # the reason by path
        self._grants: list[Grant] = []
        self.optional: list[Grant] = []
        self.withheld: dict[str, Withheld] = {}
        self.seen: dict[Tier, dict[str, None]] = {}

    def sort(self, path: str, uses: frozenset[FileUse]) -> None:
        """Put a path into its tier, given all uses of it."""
        real_path = self._facts.real_path(path)
        if uses & _WRITING and not self._is_bytecode(real_path):
            if not self._is_temporary(path):
                self._sort_written(path, real_path, uses)
            return
        visible = next(
            (item for item in self._situation.visible if _is_below(real_path, item.path)), None
        )
        if visible is not None:
            tier = _TIERS.get(visible.source, Tier.RUNTIME)
            self.seen.setdefault(tier, {})[visible.path] = None
            return
        if self._is_of_manager(real_path):
            self.seen.setdefault(Tier.RUNTIME, {})[self._facts.hidden(real_path)] = None
            return
        if self._is_new(path) or real_path in self._private() or real_path == "/":
            return
        if uses & _READING:
            self._sort_read(real_path, uses)
        elif "list" in uses:
            self._sort_listed(real_path)
        elif not self._find_problem(real_path):
            self.optional.append(Grant(real_path, may_write=False, reason="it looked at it"))

    def _private(self) -> tuple[str, ...]:
        return (*_PRIVATE_MOUNTS, *self._situation.private)

    def _is_temporary(self, path: str) -> bool:
        """Return whether the program can create this path in a file system of its own: it is new,
        and so are all folders between it and /tmp, or it is in a cache that the sandbox
        replaces."""
        if any(
            _is_below(path, folder)
            for folder in self._situation.private
            if folder not in _PRIVATE_MOUNTS
        ):
            return True
        return self._is_new(path) and posixpath.dirname(self._topmost_new(path)) in _PRIVATE_MOUNTS

    def _topmost_new(self, path: str) -> str:
        """Return the outermost folder of a path that the program created, or the path itself."""
        while posixpath.dirname(path) in self._created:
            path = posixpath.dirname(path)
        return path

    def _is_new(self, path: str) -> bool:
        """Return whether the program created this path, or a folder above it."""
        return any(_is_below(path, created) for created in self._created)

    @staticmethod
    def _is_bytecode(path: str) -> bool:
        return "/__pycache__" in path or path.endswith(".pyc")

    def _sort_read(self, path: str, uses: frozenset[FileUse]) -> None:
        """Sort a path that was read or executed, and that is not visible without a grant."""
        reason = "it executed it" if "execute" in uses else "it read it"
        if problem := self._find_problem(path):
            self._withhold(path, f"{problem}; {reason}")
            return
        if named := self._named_folder(path):
            used = _relative_name(path, named)
            self._grants.append(
                Grant(named, may_write=False, reason=f"a person named it; it used {used}")
            )
            return
        prefix = self._facts.installation(path) if "execute" in uses else ""
        if prefix and not self._find_problem(prefix):
            self._grants.append(
                Grant(prefix, may_write=False, reason=f"it executed {_relative_name(path, prefix)}")
            )
        elif _is_below(path, _SYSTEM_SETTINGS) and path not in self._named:
            self.optional.append(
                Grant(path, may_write=False, reason=f"{reason}, a setting of the system")
            )
        else:
            self._read_files[path] = reason

    def _sort_listed(self, path: str) -> None:
        """Sort a folder that was only listed."""
        contains_visible = any(_is_below(item.path, path) for item in self._situation.visible)
        problem = self._find_problem(path)
        if problem:
            if not contains_visible or self._facts.secret(path):
                self._withhold(path, f"{problem}; it listed it")
            return
        # The folder of a script is only optional, for example: an interpreter lists it even if it
        # has no modules.
        grant = Grant(path, may_write=False, reason="it listed it")
        (self.optional if contains_visible else self._grants).append(grant)

    def _sort_written(self, path: str, real_path: str, uses: frozenset[FileUse]) -> None:
        """Sort a path that was written, created, renamed or deleted."""
        if any(
            item.access == "write" and _is_below(real_path, item.path)
            for item in self._situation.visible
        ):
            return
        target, reason = real_path, "it wrote it"
        # A file that the program itself made is not a secret of a person, even if it is hidden or
        # only its owner can read it. Its folder may be.
        find_file_problem = self._facts.secret if path in self._created else self._find_problem
        if "create" in uses or self._is_new(path):
            path = self._topmost_new(path)
            target = self._facts.real_path(path)
            reason = f"it created, renamed or deleted {posixpath.basename(target)}"
            if not (path in self._created and self._facts.is_folder(target)):
                target = posixpath.dirname(target)
        problem = self._find_problem(target) or find_file_problem(real_path)
        if problem := problem or self._facts.unwritable(target):
            self._withhold(real_path, f"{problem}; {reason}")
        else:
            self._grants.append(Grant(target, may_write=True, reason=reason))

    def _withhold(self, path: str, reason: str) -> None:
        self.withheld.setdefault(path, Withheld(path, reason))

    def _named_folder(self, path: str) -> str:
        """Return the folder that a person named and that contains this path; "" if there is
        none."""
        return next(
            (
                named
                for named in self._named
                if _is_below(path, named)
                and self._facts.is_folder(named)
                and not self._find_problem(named)
            ),
            "",
        )

    def _find_problem(self, path: str) -> str:
        """Return why a path must not be proposed; "" if nothing speaks against it."""
        has_home_sign = any(part.startswith("~") for part in path.split("/"))
        if path.endswith((":rw", ":ro")) or has_home_sign or not path.isprintable():
            return "its name cannot be written in a config"
        if secret := self._facts.secret(path):
            return secret
        if self._facts.hidden(path):
            return "hidden, or only its owner can read it"
        is_named = any(_is_below(path, named) for named in self._named)
        project = "" if is_named else self._facts.project(path)
        is_own = any(_is_below(project, own) or _is_below(own, project) for own in self._own)
        return f"a file of another project ({project})" if project and not is_own else ""

    def _is_of_manager(self, path: str) -> bool:
        """Return whether a path belongs to a version or package manager of which the sandbox shows
        a part: a hidden folder with a runtime in it, such as ~/.pyenv."""
        folder = self._facts.hidden(path)
        if not folder or posixpath.basename(folder) in _SHARED_FOLDERS or self._facts.secret(path):
            return False
        return any(
            _is_below(item.path, folder) and _TIERS.get(item.source, Tier.RUNTIME) is Tier.RUNTIME
            for item in self._situation.visible
        )

    def grants(self) -> Iterator[Grant]:
        """Yield what must be granted. Several files of a folder become the folder."""
        yield from self._grants
        by_folder: dict[str, list[str]] = {}
        for path in self._read_files:
            by_folder.setdefault(posixpath.dirname(path), []).append(path)
        for folder, paths in by_folder.items():
            problem = self._find_problem(folder) or self._facts.secret_inside(folder)
            if len(paths) >= _FILES_OF_A_FOLDER and not problem:
                names = _examples(posixpath.basename(path) for path in paths)
                yield Grant(
                    folder, may_write=False, reason=f"it read {len(paths)} files in it: {names}"
                )
            else:
                for path in paths:
                    yield Grant(path, may_write=False, reason=self._read_files[path])


def _propose_network(observations: Observations) -> tuple[Network, str]:
    """Return the proposal for `permissions.network`, and the reason."""
    streams = [item for item in observations.destinations if item.protocol == "tcp"]
    known = {item.address for item in streams} | {item.name for item in streams if item.name}
    # Libraries connect UDP sockets to the addresses of a name to compare routes, and send nothing.
    datagrams = [
        item
        for item in observations.destinations
        if item.protocol == "udp" and item.port and not known & {item.address, item.name}
    ]
    if observations.listeners:
        return True, f"it listens on {_examples(observations.listeners)}"
    if datagrams:
        return True, f"it uses UDP: {_examples(map(_format_destination, datagrams))}"
    if not streams:
        return False, "it connected to nothing"
    hosts = tuple(dict.fromkeys(map(_format_destination, streams)))
    return hosts, f"it connected to {_examples(hosts)}"


def _format_destination(destination: Destination) -> str:
    host = destination.name or destination.address
    return f"[{host}]:{destination.port}" if ":" in host else f"{host}:{destination.port}"


def _outermost(grants: Iterable[Grant]) -> list[Grant]:
    """Return the grants without those that another grant contains, each path once."""
    by_path: dict[str, Grant] = {}
    for grant in grants:
        known = by_path.get(grant.path)
        if known is None or (grant.may_write and not known.may_write):
            by_path[grant.path] = grant

    def is_contained(grant: Grant) -> bool:
        return any(
            other.path != grant.path
            and _is_below(grant.path, other.path)
            and (other.may_write or not grant.may_write)
            for other in by_path.values()
        )

    return sorted(grant for grant in by_path.values() if not is_contained(grant))


def relative_to(folder: str) -> Callable[[Grant], Grant]:
    """Return a function that writes the path of a grant relative to this folder, if it is in the
    folder."""

    def change(grant: Grant) -> Grant:
        if not folder or not _is_below(grant.path, folder):
            return grant
        return grant._replace(path=posixpath.relpath(grant.path, folder))

    return change


def _relative_name(path: str, folder: str) -> str:
    """Return a path relative to a folder that contains it, for a text; "it" for the folder."""
    return posixpath.relpath(path, folder) if path != folder else "it"


def _examples(items: Iterable[str]) -> str:
    all_items = list(items)
    more = len(all_items) - _MAX_EXAMPLES
    return ", ".join(all_items[:_MAX_EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
