"""The result of a search for extensions, as values.

A problem is a `Diagnostic` and never an exception: one broken manifest must not hide the others. An
error means that a manifest cannot be used; everything else is a warning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from exthost.dialects.manifest_format import Remark
from exthost.errors import Evidence, ManifestError
from exthost.model.empty_mapping import empty_mapping
from exthost.model.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem.

    level      "error" if a manifest cannot be used, otherwise "warning"
    path       the file or folder that the problem is about; "" if it is about none
    message    what is wrong
    code       the error code, such as X0202
    help       what to do about it
    extension  the id of the extension; "" if it is unknown
    line       the line in the file; 0 if it is unknown
    key        the key in the file, such as `restart.strategy`; "" if it is unknown
    more       the further errors of the same manifest. They are printed only on request, because
               the first error is usually the cause of the others
    is_mistake whether the author of the file has something to correct
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
    is_mistake: bool = True

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
        """Return the problem as an exception, for a caller that needs this very extension."""
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

    spec              the extension that the manifest describes
    path              the path of its manifest, as the walk reached it: it may contain symlinks
    folder            the path of its folder, as the walk reached it: it may contain symlinks
    home              the real path of the extension's folder; for a program without a manifest,
                      whose folder may contain other extensions, the real path of the program.
                      `filters.prune` compares these paths, so that a symlink cannot hide that one
                      extension is inside another
    root_index        the index of its root among all roots; a smaller one takes precedence
    dialect           the dialect (the protocol of an extension) of the format that accepted it
    additional_specs  further extensions that its manifest declares, such as MCP servers; the
                      filters keep or remove them together with `spec`
    warnings          mistakes in the manifest that do not prevent the use of the extension
    """

    spec: Spec
    path: str
    folder: str
    home: str
    root_index: int
    dialect: str
    additional_specs: tuple[Spec, ...] = ()
    warnings: tuple[str | Remark, ...] = ()

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def all_specs(self) -> tuple[Spec, ...]:
        """The extensions of the package."""
        return (self.spec, *self.additional_specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedManifest:
    """A manifest that cannot be used. Calls that its hooks would judge are refused, unless the
    operator has disabled its extension, ignores its folder or removes it.

    diagnostic  its errors
    path, folder, home, root_index, dialect
                as in `Candidate`
    hooks       what can be read of its hooks (`ManifestFormat.read_hooks`); None if extensions of
                its dialect have no hooks
    """

    diagnostic: Diagnostic
    path: str
    folder: str
    home: str
    root_index: int
    dialect: str
    hooks: Spec | None = None

    @property
    def has_id(self) -> bool:
        """Whether its id can be read."""
        return bool(self.diagnostic.extension)

    @property
    def ids(self) -> frozenset[str]:
        """The names by which an operator may refer to it: its id, as far as it can be read, and the
        name of its folder."""
        hooks_id = self.hooks.id if self.hooks is not None else ""
        folder_name = self.folder.rpartition("/")[2]
        return frozenset({self.diagnostic.extension, hooks_id, folder_name} - {""})


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """The result of a whole search.

    candidates           the extensions that are used, in the order in which they start
    diagnostics          the problems; for a manifest with several errors, only the first, with the
                         others in its `more`
    scanned              the number of files that could be manifests
    disabled_count       the number of extensions that the `disabled` list removed
    disabled_candidates  the extensions that the `disabled` list removed
    invalid              the number of manifests that could not be read or used
    rejected             those of them that the filters keep: they are not disabled, not nested in
                         another extension, and no earlier search path has an extension of their id
    rivals               by id, the extensions that are not used because another one in the same
                         search path has that id
    searched             the folders that were searched, as the config names them
    """

    candidates: tuple[Candidate, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    scanned: int = 0
    disabled_count: int = 0
    disabled_candidates: tuple[Candidate, ...] = ()
    invalid: int = 0
    rejected: tuple[RejectedManifest, ...] = ()
    rivals: Mapping[str, tuple[Candidate, ...]] = field(default_factory=empty_mapping)
    searched: tuple[str, ...] = field(default=(), compare=False)

    def every_diagnostic(self) -> Iterator[Diagnostic]:
        """Yield every problem, including those in `more`, which follow the first error of their
        manifest."""
        for diagnostic in self.diagnostics:
            yield diagnostic
            yield from diagnostic.more
