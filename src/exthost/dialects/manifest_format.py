"""The interface of manifest formats: which files are manifests, and how each is read.

A dialect whose extensions have manifests fills in one `ManifestFormat`. Discovery walks the search
paths once for all formats, and knows nothing else about any of them. When a format seems to need a
special case in the walk, add a field here instead. For example, roder's format, which is imported
from its package by way of `DialectPackage.manifest`, is

    FORMAT = ManifestFormat(dialect="roder", names=("roder-extension.toml",), read=read, join=join)

**Which files** are manifests is data and not code, so that the file watcher and `exthost list` can
use it as well: file names, the name of the parent folder, and whether the program itself is the
manifest.

**How a manifest is read** is a function, `ManifestFormat.read`. It takes a `ManifestFile` and
returns a `Verdict`:

- `Accepted`: the extension, and warnings about mistakes that do not prevent its use;
- `Rejected`: every error in the manifest, the most important first. Users see the first one, or all
  with `--all`. A function that raises a ManifestError rejects the manifest with that one error;
- None: the file has the name of a manifest and describes no extension. It is ignored without a
  message, or read by the next format that has this file name.

The function does no I/O. It uses the methods of `ManifestFile` to read a file beside the manifest,
or to ask whether the extension's folder has a file. It may leave `origin` and `cwd` of the `Spec`
(the command and all settings of an extension) unset: discovery then sets them to the manifest's
path and the extension's folder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from exthost.errors import Evidence, ManifestError
from exthost.model.spec import Spec


def _no_sibling(name: str) -> bytes | None:
    return None


def _no_file(path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """The path and the contents of one manifest. Paths are absolute, with "/" as separator.

    path          the manifest's path
    folder        the extension's folder; not always the folder of the manifest
    data          the manifest's bytes; empty if the program itself is the manifest
    root_index    the index of the search path in which discovery found the manifest
    read_sibling  returns the bytes of a file beside the manifest, given its file name, or None if
                  there is no such file. Raises ManifestError if the file cannot be read
    has_file      returns whether the extension's folder has a regular file at a relative path
    """

    path: str
    folder: str
    data: bytes = b""
    root_index: int = 0
    read_sibling: Callable[[str], bytes | None] = _no_sibling
    has_file: Callable[[str], bool] = _no_file

    @property
    def name(self) -> str:
        """The manifest's file name."""
        return self.path.rpartition("/")[2]

    @property
    def folder_name(self) -> str:
        """The name of the extension's folder. Some formats use it as the extension's id."""
        return self.folder.rpartition("/")[2]


class Remark(NamedTuple):
    """A warning about one file.

    text  the warning
    file  the name of a file beside the manifest; "" for the manifest itself
    line  the number of the line that the warning is about; 0 if unknown
    is_mistake  whether the author has something to correct. A part that this host does not offer
          is not a mistake
    """

    text: str
    file: str = ""
    line: int = 0
    is_mistake: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The verdict on a valid manifest.

    spec      the extension that the manifest describes
    also      further extensions that the manifest declares, such as MCP servers. They are added,
              disabled and removed together with `spec`
    warnings  mistakes that do not prevent the use of the extension
    """

    spec: Spec
    also: tuple[Spec, ...] = ()
    warnings: tuple[str | Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """The verdict on a manifest that has errors, so that its extension cannot be used."""

    errors: tuple[ManifestError, ...]

    def __post_init__(self) -> None:
        if not self.errors:
            raise ValueError("Rejected needs at least one error")


Verdict: TypeAlias = Accepted | Rejected | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFormat:
    """The manifest format of one dialect.

    dialect      the name of the dialect
    names        file names of manifests. A name that ends in "*" matches every file name that
                 begins with the part before it
    read         returns the verdict on one manifest
    parent       the name of the folder that must contain the manifest; "" for any folder. If it is
                 set, the extension's folder is the parent of that folder
    executable   whether the program itself is the manifest. Only files with an execute bit match,
                 and their contents are not read. Such an extension owns only that file and not the
                 folder, because the folder may contain several extensions
    lists_tools  whether a manifest lists the extension's tools, so that `exthost doctor`
                 reports a handshake that announces others
    homes        the folders in which the dialect's own system looks for extensions, in ascending
                 priority. The search path `$DIALECT` stands for these folders
    find_homes   returns these folders, given the environment variables of the host, if the system
                 has variables that change them; None if it has none
    read_hooks   returns what can be read of the hooks of a manifest that `read` rejects, as an
                 extension without a command: its id, its hooks and their filters. If the hooks
                 cannot be read, it has `has_unknown_hooks`. Does not raise. While such an extension
                 is refused, its hooks cannot judge a call, so the call is refused. None if every
                 hook of the dialect is unknown until its manifest is read
    join         returns the spec of a config entry that names its manifest (`manifest = "path"`),
                 completed with the contents of that manifest; settings of the entry take
                 precedence. None if a config entry cannot name a manifest of this format
    """

    dialect: str
    names: tuple[str, ...]
    read: Callable[[ManifestFile], Verdict]
    parent: str = ""
    executable: bool = False
    lists_tools: bool = True
    homes: tuple[str, ...] = ()
    read_hooks: Callable[[ManifestFile], Spec] | None = None
    find_homes: Callable[[Mapping[str, str]], tuple[str, ...]] | None = None
    join: Callable[[Spec, ManifestFile], Spec] | None = None

    def homes_in(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the folders of `homes`, as these environment variables of the host change them."""
        return self.homes if self.find_homes is None else self.find_homes(environ)

    def matches(self, name: str, parent: str) -> bool:
        """Return whether a file of this name, in a folder named `parent`, may be a manifest."""
        if self.parent and self.parent != parent:
            return False
        return any(
            name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
            for pattern in self.names
        )


def manifest_error(
    file: ManifestFile,
    message: str,
    *,
    key: str = "",
    line: int = 0,
    extension: str = "",
    help: str = "",
) -> ManifestError:
    """Return the error for a mistake in a manifest, to be raised or put into `Rejected`."""
    return ManifestError(
        "X0202",
        message,
        extension=extension,
        help=help,
        evidence=Evidence(path=file.path, line=line, key=key),
    )
