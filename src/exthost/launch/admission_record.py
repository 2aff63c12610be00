"""The result of an admission: the files that an extension sees in its sandbox. `admission` decides
about them before the first start, and the later starts use the same result.

A module of its own, because most extensions have no sandbox: their starts need this value, and not
the modules that compute it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from exthost.launch.sandbox.strict import View


class RecordedFile(NamedTuple):
    """The state of a file or folder at the time of admission.

    path           the path as configured
    real_path      the same path with all symlinks resolved
    device, inode  the identity of the file or folder; both are 0 if it could not be opened
    """

    path: str
    real_path: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The decisions for every start of an extension.

    view   the files that the extension sees; None without a sandbox
    files  the visible paths except those of the system (such as /usr), and the paths of the command
           line; each must be the same file at every start
    """

    view: View | None = None
    files: tuple[RecordedFile, ...] = ()


NOT_SANDBOXED = Admission()
