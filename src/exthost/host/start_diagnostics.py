"""Why extensions that were wanted did not start, as diagnostics."""

from collections.abc import Iterable

from exthost.discovery.report import Diagnostic
from exthost.errors import ExthostError, Refused
from exthost.extension.extension import Extension


def start_diagnostics(extensions: Iterable[Extension]) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each of these that has a cause of not being ready."""
    return tuple(
        _diagnostic(extension, extension.cause)
        for extension in extensions
        if extension.cause is not None
    )


def _diagnostic(extension: Extension, cause: ExthostError) -> Diagnostic:
    return Diagnostic(
        level="warning" if isinstance(cause, Refused) else "error",
        path=extension.spec.origin,
        message=f"{extension.id}: {cause.message}",
        code=cause.code,
        help=cause.help,
        extension=extension.id,
    )
