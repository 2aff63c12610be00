"""The result of a search for extensions, as values.

A problem is a `Diagnostic` and never an exception: one broken manifest must not hide the others. An
error means that a manifest cannot be used; everything else is a warning.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from exthost.dialects.manifest_format import Remark
from exthost.errors import Evidence, ManifestError
from exthost.spec import Spec

__all__ = ["Candidate", "Diagnostic", "Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem, and the file or folder it is about.

    `extension` is the id, if it is known. `more` has the further errors of the same manifest, which
    are shown only on request: the first error is usually the cause of the others.
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
        """Return the diagnostic of one manifest's first error, with the others in `more`."""
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

    def as_error(self) -> ManifestError:
        """Return the problem as an exception, for a caller that asked for this one extension."""
        details = tuple(other.message for other in self.more)
        return ManifestError(
            self.code,
            self.message,
            extension=self.extension,
            help=self.help,
            evidence=Evidence(path=self.path, line=self.line, key=self.key, details=details),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A discovered extension, before the filters.

    path        the path of its manifest, as the walk reached it: it may contain symlinks
    folder      the path of its folder, as the walk reached it
    home        the real path of what belongs to this extension alone: its folder, or its executable
                if it has no folder. `filters.prune` compares these paths, so that a symlink cannot
                hide that one extension is inside another
    root_index  the index of its search path; a smaller one takes precedence
    dialect     the dialect of the format that accepted it
    also        further extensions that its manifest contains; they are kept or removed with it
    """

    spec: Spec
    path: str
    folder: str
    home: str
    root_index: int
    dialect: str
    also: tuple[Spec, ...] = ()
    warnings: tuple[str | Remark, ...] = ()

    @property
    def id(self) -> str:
        return self.spec.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a whole search.

    candidates  the extensions that are used, in the order in which they start
    scanned     the number of manifests that were read, valid or not
    disabled    the number of extensions that the `disabled` list removed
    off         the extensions that the `disabled` list removed
    invalid     the number of manifests that could not be read or used
    """

    candidates: tuple[Candidate, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    scanned: int = 0
    disabled: int = 0
    off: tuple[Candidate, ...] = ()
    invalid: int = 0

    def every_diagnostic(self) -> Iterator[Diagnostic]:
        """Yield each problem by itself; the further errors of a manifest follow its first."""
        for diagnostic in self.diagnostics:
            yield diagnostic
            yield from diagnostic.more
