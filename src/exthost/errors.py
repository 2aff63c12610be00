"""Every error a user can meet: one shallow tree, cut by whose fault it is.

Each error carries a stable code (`exthost explain CODE` tells more; the texts are in
`errors.toml`), the extension it is about, one line of help that says what to do next, and the
evidence: what the child last wrote to stderr, how it ended, what was run where, which bytes
offended. Foreign errors are translated into these once, at the border where they arise.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

__all__ = [
    "BreakerOpen",
    "CallFailed",
    "CallTimeout",
    "Cancelled",
    "ConfigError",
    "Evidence",
    "ExthostError",
    "ExtensionGone",
    "HandshakeFailed",
    "ManifestError",
    "NotFound",
    "ProtocolViolation",
    "Refused",
    "SpawnFailed",
    "UsageError",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen. Every member is optional; an empty one is left out when shown."""

    argv: tuple[str, ...] = ()
    cwd: str = ""
    exit: str = ""
    stderr: tuple[str, ...] = ()
    bytes: str = ""
    path: str = ""
    line: int = 0
    key: str = ""
    details: tuple[str, ...] = ()
    answer: Any = None

    def as_dict(self) -> dict[str, Any]:
        """The members that hold something, for JSON."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value not in ((), "", 0) and value is not None
        }


NOTHING = Evidence()


class ExthostError(Exception):
    """The root. `kind` is the leaf's name; `exit_code` is what the command line returns for it."""

    exit_code: ClassVar[int] = 7

    def __init__(
        self,
        code: str,
        message: str,
        *,
        extension: str = "",
        help: str = "",
        evidence: Evidence = NOTHING,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.extension = extension
        self.help = help
        self.evidence = evidence

    @property
    def kind(self) -> str:
        return type(self).__name__

    def as_dict(self) -> dict[str, Any]:
        """The error as the command line's `--json` shows it."""
        return {
            "code": self.code,
            "kind": self.kind,
            "extension": self.extension,
            "message": self.message,
            "help": self.help,
            "evidence": self.evidence.as_dict(),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """An error may be sent to another process, as any exception may."""
        return _revived, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        """The error as text that can be printed: control characters, which a child may have sent,
        are escaped."""
        about = f"{self.extension}: " if self.extension else ""
        lines = [f"{about}{self.message} [{self.code}]"]
        if self.help:
            lines.append(f"  help: {self.help}")
        if self.evidence.exit:
            lines.append(f"  exit: {self.evidence.exit}")
        lines += [f"  stderr: {line}" for line in self.evidence.stderr[-5:]]
        return escape_controls("\n".join(lines))


def escape_controls(text: str) -> str:
    """Return the text of a child with its control characters escaped, so that it can neither move
    the cursor nor change the title of a terminal. Tabs and line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\t\n" else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


def _revived(
    kind: type[ExthostError], arguments: tuple[Any, ...], members: dict[str, Any]
) -> ExthostError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments  # an OSError is not given them by its __new__
    error.__dict__.update(members)
    return error


class ConfigError(ExthostError):
    """What the operator wrote cannot be used."""

    exit_code = 3


class ManifestError(ExthostError):
    """What the extension says about itself on disk cannot be used."""

    exit_code = 3


class Refused(ExthostError):
    """We will not run it: gate, permission, sandbox or pin."""

    exit_code = 4


class SpawnFailed(ExthostError, OSError):
    """The process could not be started. `permanent`: starting it again cannot help."""

    exit_code = 5

    def __init__(
        self,
        code: str,
        message: str,
        *,
        permanent: bool = False,
        extension: str = "",
        help: str = "",
        evidence: Evidence = NOTHING,
    ) -> None:
        super().__init__(code, message, extension=extension, help=help, evidence=evidence)
        self.permanent = permanent


class HandshakeFailed(ExthostError):
    """The process started, but it did not shake hands. `permanent`: starting it again cannot help.
    `process_ended`: the process ended by itself before the handshake was done."""

    exit_code = 5

    def __init__(
        self,
        code: str,
        message: str,
        *,
        permanent: bool = False,
        process_ended: bool = False,
        extension: str = "",
        help: str = "",
        evidence: Evidence = NOTHING,
    ) -> None:
        super().__init__(code, message, extension=extension, help=help, evidence=evidence)
        self.permanent = permanent
        self.process_ended = process_ended


class ProtocolViolation(ExthostError):
    """The peer broke the rules of its dialect."""

    exit_code = 7


class CallFailed(ExthostError):
    """The extension answered: no. What it said is in `error_code`, `error_message`, `data`."""

    exit_code = 1

    def __init__(
        self,
        code: str,
        message: str,
        *,
        error_code: int | str | None = None,
        error_message: str = "",
        data: Any = None,
        extension: str = "",
        help: str = "",
        evidence: Evidence = NOTHING,
    ) -> None:
        super().__init__(code, message, extension=extension, help=help, evidence=evidence)
        self.error_code = error_code
        self.error_message = error_message
        self.data = data

    def as_dict(self) -> dict[str, Any]:
        told = super().as_dict()
        told["evidence"] |= {
            "answer": {"code": self.error_code, "message": self.error_message, "data": self.data}
        }
        return told


class CallTimeout(ExthostError, TimeoutError):
    """No answer within the call's own limit."""

    exit_code = 6


class Cancelled(ExthostError):
    """The caller, or the host on its behalf, took the call back."""

    exit_code = 130


class ExtensionGone(ExthostError):
    """The process died or stopped talking while it was needed."""

    exit_code = 7


class BreakerOpen(ExthostError):
    """Too many failures in a row: not asked again until the breaker lets a probe through, which is
    in `seconds_left`."""

    exit_code = 7
    seconds_left = 0.0


class NotFound(ExthostError, LookupError):
    """Nothing of that name is here."""

    exit_code = 2


class UsageError(ExthostError):
    """The caller asked for something that cannot be asked."""

    exit_code = 2
