"""What a manifest format is: which files are its manifests, and what their bytes mean.

A dialect with manifests fills in one `ManifestFormat`. Discovery walks once for all formats and
knows nothing else about any. When a format seems to need a special case in the walk, a part is
missing here.

**Which files** is data, not code, so that the watcher and the listings can read it too: file
names, the folder they must lie in, whether the program itself is the manifest.

**What they mean** is a pure function from `Found` to a verdict:

- `Accepted`: the extension as wanted, and what is worth a warning without being fatal;
- `Rejected`: every error of this manifest, the most important first (people are shown the first,
  and all with `--all`). Raising a ManifestError is the same as rejecting with that one;
- None: a file of that name, but no extension; passed over in silence, or left to the next format
  that claims the name.

A format does no I/O. What else it needs to see, it asks of `Found`: a file beside the manifest,
or whether the extension's folder holds a file. It need not fill in `origin` and `cwd`: where it
leaves them unsaid, discovery writes the manifest's path and the extension's folder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from exthost.errors import Evidence, ManifestError
from exthost.spec import Spec

__all__ = ["Accepted", "ManifestFormat", "Found", "Rejected", "Remark", "Verdict", "invalid"]


def _nothing_beside(name: str) -> bytes | None:
    return None


def _holds_nothing(path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One manifest as it lies on disk. Paths are absolute, with "/" between their parts.

    folder      the extension's own folder; not always the one that holds the manifest
    data        the manifest's bytes; empty when the program itself is the manifest
    root_index  which search path it was found in
    sibling     the bytes of a file beside the manifest, by its plain name; None: there is none.
                Raises ManifestError if it is there and cannot be read
    holds       whether the extension's folder has a regular file at this relative path
    """

    path: str
    folder: str
    data: bytes = b""
    root_index: int = 0
    sibling: Callable[[str], bytes | None] = _nothing_beside
    holds: Callable[[str], bool] = _holds_nothing

    @property
    def name(self) -> str:
        """The manifest's file name."""
        return self.path.rpartition("/")[2]

    @property
    def folder_name(self) -> str:
        """The last part of the extension's folder; some formats take the id from it."""
        return self.folder.rpartition("/")[2]


class Remark(NamedTuple):
    """A warning about a place: `file` beside the manifest, "" for the manifest itself."""

    text: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """It is an extension. `also` are further ones that this manifest brings along (MCP servers
    declared in it): they come, and are pruned or disabled, together with `spec`."""

    spec: Spec
    also: tuple[Spec, ...] = ()
    warnings: tuple[str | Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """It means to be an extension and cannot be used."""

    errors: tuple[ManifestError, ...]

    def __post_init__(self) -> None:
        if not self.errors:
            raise ValueError("a rejection without an error tells nobody what to mend")


Verdict: TypeAlias = Accepted | Rejected | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFormat:
    """One format, whole.

    names       exact file names; one that ends in "*" stands for every name that begins so
    parent      the name of the folder the manifest must lie in. The extension's folder is then
                the one above it
    executable  the program itself is the manifest: only files with an execute bit, never read.
                Such an extension owns that file alone and not the folder, in which many of its
                kind may lie side by side
    lists_tools whether a manifest names the tools, so that a handshake could differ from it
    homes       the folders in which the system of this dialect itself looks for extensions, the
                strongest last; a search path `$DIALECT` stands for them
    join        for formats whose manifests a config entry may name (`manifest = "path"`): the
                entry, completed by its manifest. What the entry says goes before it
    """

    dialect: str
    names: tuple[str, ...]
    read: Callable[[Found], Verdict]
    parent: str = ""
    executable: bool = False
    lists_tools: bool = True
    homes: tuple[str, ...] = ()
    join: Callable[[Spec, Found], Spec] | None = None

    def claims(self, name: str, parent: str) -> bool:
        """Whether a file of this name, in a folder of that name, could be one of its manifests."""
        if self.parent and self.parent != parent:
            return False
        return any(
            name.startswith(known[:-1]) if known.endswith("*") else name == known
            for known in self.names
        )


def invalid(
    found: Found,
    message: str,
    *,
    key: str = "",
    line: int = 0,
    extension: str = "",
    help: str = "",
) -> ManifestError:
    """What is wrong in this manifest, and where; for a format's `Rejected`, or to be raised."""
    return ManifestError(
        "X0202",
        message,
        extension=extension,
        help=help,
        evidence=Evidence(path=found.path, line=line, key=key),
    )
