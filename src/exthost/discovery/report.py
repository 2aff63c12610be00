"""What a search for extensions comes back with: values, and nothing that acts.

A problem is a `Diagnostic` and never an exception: one broken manifest must not hide the others.
Errors are about a manifest that is lost by them; warnings about anything else worth knowing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from exthost.errors import ManifestError
from exthost.model import Spec

__all__ = ["Candidate", "Diagnostic", "Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One thing that a person should know, and the file or folder it is about.

    `extension` is the id, where it is known. `more` holds the further errors of the same
    manifest, told only when asked for: the first is usually the cause of the rest.
    """

    level: Literal["error", "warning"]
    path: str
    message: str
    code: str = ""
    help: str = ""
    extension: str = ""
    line: int = 0
    key: str = ""
    more: tuple["Diagnostic", ...] = ()

    @classmethod
    def of(cls, errors: tuple[ManifestError, ...], path: str) -> "Diagnostic":
        """The errors of one manifest, the first of them leading."""
        first, *rest = (
            cls(
                level="error",
                path=error.evidence.path or path,
                message=error.message,
                code=error.code,
                help=error.help,
                extension=error.extension,
                line=error.evidence.line,
                key=error.evidence.key,
            )
            for error in errors
        )
        return replace(first, more=tuple(rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An extension found, not yet admitted.

    path        its manifest, by the path it was reached on
    folder      its own folder, likewise
    home        the real path of what belongs to it alone: its folder, or its one executable.
                Nesting is judged by this, so that a link cannot hide it
    root_index  which search path it was found in, counted from 0
    dialect     the format that accepted it
    also        further extensions its manifest brings along; they share its fate
    """

    spec: Spec
    path: str
    folder: str
    home: str
    root_index: int
    dialect: str
    also: tuple[Spec, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.spec.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole outcome.

    scanned   manifests that were looked at, whatever came of them
    disabled  extensions left out because the `disabled` list names them
    invalid   manifests that could not be read or used
    """

    candidates: tuple[Candidate, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    scanned: int = 0
    disabled: int = 0
    invalid: int = 0

    def every_diagnostic(self) -> Iterator[Diagnostic]:
        """Each problem on its own, the further ones of a manifest right after its first."""
        for diagnostic in self.diagnostics:
            yield diagnostic
            yield from diagnostic.more
