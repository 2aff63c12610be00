"""Reports the extensions that did not start, as diagnostics (see `discovery.report`)."""

from collections.abc import Iterable

from exthost.config.discovery.report import Diagnostic
from exthost.errors import ExthostError, Refused
from exthost.extension.extension import Extension
from exthost.session.failures import copy_error


def start_diagnostics(extensions: Iterable[Extension]) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each of these extensions that failed or was refused."""
    return tuple(
        _make_diagnostic(extension, extension.cause)
        for extension in extensions
        if extension.cause is not None
    )


def raise_first_problem(diagnostics: Iterable[Diagnostic], extensions: Iterable[Extension]) -> None:
    """Raise the first error among the diagnostics of discovery, or else that of the first extension
    that failed. Return if none failed."""
    for diagnostic in diagnostics:
        if diagnostic.level == "error":
            raise diagnostic.as_error()
    for extension in extensions:
        if extension.cause is not None:
            raise copy_error(extension.cause)


def _make_diagnostic(extension: Extension, cause: ExthostError) -> Diagnostic:
    return Diagnostic(
        level="warning" if isinstance(cause, Refused) else "error",
        path=extension.spec.origin,
        message=f"{extension.id}: {cause.message}",
        code=cause.code,
        help=cause.help,
        extension=extension.id,
    )
