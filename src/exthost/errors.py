"""Every error that exthost raises. Each class stands for one party or step that is at fault.

Each error has a stable code (`exthost explain CODE` explains it; the texts are in `errors.toml`),
the id of its extension, one line of help that says what to do next, and evidence (the command line,
the exit status, the last lines of stderr, …). Exceptions of other libraries are translated to these
classes where exthost calls those libraries. On a terminal, an error looks like this:

    weather: forecast failed: unknown city [X0702]
      help: the tool reports this itself: check the arguments, or the log of the extension
"""

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
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
    """The facts behind an error. Every field is optional; an empty field is not printed.

    About the process: `argv` is its command line and `cwd` its working directory; `exit` says how
    it ended, such as "exited with 1"; `stderr` has the last lines that it wrote to stderr; `bytes`
    is its faulty output, as text. About a file, such as a config: `path` is the file, `line` the
    line in it (0 if unknown), and `key` the key. `details` are further facts, such as the names of
    missing programs. `answer` is the error reply of a CallFailed from another process.
    """

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
        """Return the fields that are not empty, for JSON."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value not in ((), "", 0) and value is not None
        }


# The evidence of an error about which nothing is known but its message.
NO_EVIDENCE = Evidence()


def _shorten(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return all lines if there are at most six. Otherwise return the first line, which often has
    the reason, and the last five. If the first line ends with a colon, the second line has the
    reason, and is returned as well."""
    if len(lines) <= 6:
        return lines
    head_lines = 2 if lines[0].rstrip().endswith(":") else 1
    return (*lines[:head_lines], "…", *lines[-5:])


class ExthostError(Exception):
    """The base class of all errors.

    code       the stable code of the error, such as X0702
    message    what happened, in one line; "it" is the extension
    extension  the id of the extension; "" if the error is not about one extension
    help       what to do next, in one line; "" if there is no advice
    evidence   the facts behind the error
    kind       the name of its class in this module; other modules may derive from that class
    exit_code  the exit status of the command line after this error
    """

    exit_code: ClassVar[int] = 7

    def __init__(
        self,
        code: str,
        message: str,
        *,
        extension: str = "",
        help: str = "",
        evidence: Evidence = NO_EVIDENCE,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.extension = extension
        self.help = help
        self.evidence = evidence

    @property
    def kind(self) -> str:
        # A subclass in another module, such as `MissingGuard`, has the kind of its base class.
        return next(cls.__name__ for cls in type(self).__mro__ if cls.__module__ == __name__)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as the command line's `--json` shows it."""
        return {
            "code": self.code,
            "kind": self.kind,
            "extension": self.extension,
            "message": self.message,
            "help": self.help,
            "evidence": self.evidence.as_dict(),
        }

    def public(self) -> "ExthostError":
        """Return a copy of the error that may be sent to a client over HTTP. It does not have what
        concerns only the operator: the argv, cwd, stderr, paths and output of the process, and
        advice for the operator. A message that contains one of these is replaced by a general
        one."""
        known = self.evidence
        secrets = {known.cwd, known.path, known.bytes, *known.argv, *known.stderr} - {""}
        error = copy.copy(self)
        error.__dict__.pop("__notes__", None)
        error.evidence = Evidence(exit=known.exit, key=known.key, answer=known.answer)
        general_message = _GENERAL_MESSAGES.get(self.kind)
        if general_message or any(secret in self.message for secret in secrets):
            error.message = general_message or "it failed"
            error.args = (error.message,)
        is_for_clients = isinstance(self, UsageError | NotFound)
        if not is_for_clients or any(secret in self.help for secret in secrets):
            error.help = ""
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, so that an error can be sent to another process."""
        return _unpickle, (type(self), self.args, self.__dict__)

    @property
    def headline(self) -> str:
        """The message with the name of the extension, since messages say only "it"."""
        if self.extension:
            return f"{self.extension}: {self.message}"
        for word, noun in (("it ", "the extension "), ("its ", "the extension's ")):
            if self.message.startswith(word):
                return noun + self.message.removeprefix(word)
        return self.message

    def __str__(self) -> str:
        """Return the error as text for a terminal. Control characters, which the extension may have
        sent, are escaped."""
        lines = [f"{self.headline} [{self.code}]"]
        if self.help:
            lines.append(f"  help: {self.help}")
        if self.evidence.exit:
            lines.append(f"  exit: {self.evidence.exit}")
        lines += [f"  stderr: {line}" for line in _shorten(self.evidence.stderr)]
        return escape_controls("\n".join(lines))


def escape_controls(text: str) -> str:
    """Return the text with its control characters escaped, so that text from an extension can
    neither move the cursor nor change the title of a terminal. Tabs and newlines stay."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in "\t\n"
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def escape_message(text: str) -> str:
    """Return a message as it is printed: its control characters are escaped, and each line after
    the first begins with `  | `, so that text from an extension does not look like a message of the
    host."""
    return escape_controls(text).rstrip("\n").replace("\n", "\n  | ")


def _unpickle(
    error_class: type[ExthostError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> ExthostError:
    error = error_class.__new__(error_class, *args)
    error.args = args  # OSError.__new__ does not set them
    error.__dict__.update(attributes)
    return error


class ConfigError(ExthostError):
    """A config file, or another setting of the operator, cannot be used."""

    exit_code = 3


class ManifestError(ExthostError):
    """A manifest of an extension cannot be used."""

    exit_code = 3


class Refused(ExthostError):
    """The host will not run the extension, send the call or write the file, because a requirement,
    a permission, the sandbox, a pin (a digest in the config), a rule or a hook forbids it."""

    exit_code = 4


class SpawnFailed(ExthostError, OSError):
    """The process could not be started. If `permanent` is true, another start cannot succeed."""

    exit_code = 5

    def __init__(
        self,
        code: str,
        message: str,
        *,
        permanent: bool = False,
        extension: str = "",
        help: str = "",
        evidence: Evidence = NO_EVIDENCE,
    ) -> None:
        super().__init__(code, message, extension=extension, help=help, evidence=evidence)
        self.permanent = permanent


class PlacementFailed(SpawnFailed):
    """No node could run the process, or its node was lost. The extension is not at fault: the start
    is repeated whatever its restart policy says."""


class HandshakeFailed(ExthostError):
    """The process started, but its handshake failed.

    If `permanent` is true, another start cannot succeed. If `process_ended` is true, the process
    ended by itself before the handshake was complete. If `has_read` is false, the process has not
    read everything that was sent to it. `other_options` are options of the dialect with which
    another start may succeed; `connect` tries it with them.
    """

    exit_code = 5
    other_options: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        code: str,
        message: str,
        *,
        permanent: bool = False,
        process_ended: bool = False,
        has_read: bool = True,
        extension: str = "",
        help: str = "",
        evidence: Evidence = NO_EVIDENCE,
    ) -> None:
        super().__init__(code, message, extension=extension, help=help, evidence=evidence)
        self.permanent = permanent
        self.process_ended = process_ended
        self.has_read = has_read


class ProtocolViolation(ExthostError):
    """The extension broke a rule of its dialect."""

    exit_code = 7


class CallFailed(ExthostError):
    """The tool or method failed. The extension sent an error reply (`error_code`, `error_message`,
    `data`), or a result that is marked as an error (`error_code` is None, `data` is the result)."""

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
        evidence: Evidence = NO_EVIDENCE,
    ) -> None:
        super().__init__(code, message, extension=extension, help=help, evidence=evidence)
        self.error_code = error_code
        self.error_message = error_message
        self.data = data

    def as_dict(self) -> dict[str, Any]:
        data = super().as_dict()
        data["evidence"] |= {
            "answer": {"code": self.error_code, "message": self.error_message, "data": self.data}
        }
        return data


class CallTimeout(ExthostError, TimeoutError):
    """The call did not end within its time limit."""

    exit_code = 6


class Cancelled(ExthostError):
    """The caller, or the host for the caller, cancelled the call."""

    exit_code = 130


class ExtensionGone(ExthostError):
    """The process ended, or closed a pipe, while it was needed."""

    exit_code = 7


class BreakerOpen(ExthostError):
    """Too many calls failed in a row, so the circuit breaker rejects calls. It lets the next call
    through after `seconds_left` seconds."""

    exit_code = 7
    seconds_left = 0.0


class NotFound(ExthostError, LookupError):
    """Nothing has this name."""

    exit_code = 2


class UsageError(ExthostError):
    """The caller used exthost in a way that is not possible."""

    exit_code = 2


# The messages of errors about the config and the start of extensions, for clients of a program.
_GENERAL_MESSAGES: Mapping[str, str] = {
    "ConfigError": "the host is not configured correctly",
    "ManifestError": "the extension has no usable manifest",
    "SpawnFailed": "the extension could not be started",
    "HandshakeFailed": "the extension could not be started",
    "ProtocolViolation": "the extension broke a rule of its protocol",
}
