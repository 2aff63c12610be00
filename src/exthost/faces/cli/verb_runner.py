"""Runs one verb (a subcommand of exthost): parses its arguments, and turns an error into a message
and an exit code.

The arguments after `--` are the command line of an extension. They are split off before argparse
parses the rest.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from exthost.errors import ExthostError, UsageError
from exthost.faces.cli.common import Args, discard_stream, forget_shown_lines, print_error
from exthost.faces.cli.verbs import BROKEN_PIPE, COMMAND_VERBS, INTERRUPTED, VERBS
from exthost.model.names import nearest
from exthost.process.own_process import deleted_working_folder

if TYPE_CHECKING:
    from exthost.faces.cli.quick_call import BegunCall

# The beginning of argparse's message about missing arguments.
_REQUIRED = "the following arguments are required: "

# Words of similar programs, and the verb that does the same here.
_USUAL_WORDS = {
    "ps": "status", "ls": "list", "version": "--version", "log": "logs", "tail": "logs -f",
    "kill": "stop", "exec": "call", "serve": "gateway", "rm": "remove", "delete": "remove",
    "update": "reload", "config": "validate", "test": "check", "init": "new", "create": "new",
    "search": "tools", "show": "info", "describe": "inspect", "get": "status", "halt": "down",
    "daemon": "up -d", "help": "--help", "health": "doctor", "monitor": "top",
}  # fmt: skip

_LEAVE_FOLDER = "change to a folder that exists: cd ~"


class _Parser(argparse.ArgumentParser):
    """The parser of a verb. Its errors are UsageErrors that suggest what was meant."""

    def parse_verb_arguments(
        self, arguments: list[str], command: list[str], names: list[str]
    ) -> Args:
        """Return the parsed arguments. Those after `--` are `command`; or, if the verb takes no
        command, `names`, the first of which begins with a hyphen. Raises UsageError."""
        if names:
            takes_names = any(not action.option_strings for action in self._actions)
            if not (takes_names and names[0].startswith("-")):
                raise UsageError(
                    "X1316",
                    "this verb takes no command after --",
                    help="exthost inspect -- COMMAND ARGS…",
                )
            return self.parse_args([*arguments, "--", *names], namespace=Args(command=command))
        if not arguments:  # argparse would name the missing options alone
            names = [_argument_name(action) for action in self._required_actions()]
            self._refuse_missing(names)
        # Intermixed, because a positional argument such as k=v may follow an option.
        return self.parse_intermixed_args(arguments, namespace=Args(command=command))

    def error(self, message: str) -> NoReturn:
        if message.startswith(_REQUIRED):
            # argparse also names the arguments that can be left out.
            optional = {action.metavar for action in self._actions if action.nargs in ("*", "?")}
            names = message.removeprefix(_REQUIRED).split(", ")
            self._refuse_missing([name for name in names if name not in optional])
        unknown = message.partition("unrecognized arguments: ")[2]
        option = unknown.split(" ")[0].partition("=")[0]
        near = nearest(option, self._option_string_actions) if option.startswith("-") else None
        hint = f"did you mean {near}?" if near else f"see {self.prog} --help"
        takes_command = "--dialect" in self._option_string_actions
        if unknown and takes_command and not option.startswith("-"):
            hint = f"a command stands after --; {hint}"
        raise UsageError("X1316", message, help=hint)

    def print_help(self, file: Any = None) -> None:
        """Print the help. Unlike argparse, raise OSError if it cannot be written."""
        sys.stdout.write(self.format_help())
        sys.stdout.flush()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(action.choices or ())
        if not choices or value in choices:
            return
        near = nearest(str(value), map(str, choices))
        raise UsageError(
            "X1316",
            f"{_argument_name(action)}: {value!r} is not one of {', '.join(map(str, choices))}",
            help=f"did you mean {near}?" if near else f"see {self.prog} --help",
        )

    def _required_actions(self) -> list[argparse.Action]:
        return [
            action for action in self._actions if action.required and action.nargs not in ("*", "?")
        ]

    def _refuse_missing(self, names: list[str]) -> None:
        """Raise UsageError that names these missing arguments. Do nothing if there are none."""
        if not names:
            return
        verb = "is" if len(names) == 1 else "are"
        raise UsageError(
            "X1316", f"{' and '.join(names)} {verb} missing", help=self.epilog or self._form()
        )

    def _form(self) -> str:
        """Return the shortest command line that has every required argument, as advice."""
        words = []
        for action in self._required_actions():
            value = next(iter(action.choices or ()), action.metavar or action.dest.upper())
            words += [*action.option_strings[:1], str(value)]
        return f"write {self.prog} {' '.join(words)}; see {self.prog} --help"


def _argument_name(action: argparse.Action) -> str:
    """Return the name of an argument for a message, such as "-e/--env" or "NAME"."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return "/".join(action.option_strings) or metavar or action.dest


def run_verb(verb: str, arguments: list[str], begun: BegunCall | None = None) -> int:
    """Parse the arguments of a verb and run it. If that fails, print the error. Return the exit
    code. `begun` is the call that the verb `call` continues with."""
    module, parser = make_verb_parser(verb)
    wants_json = _has_json_option(arguments)
    forget_shown_lines()
    try:
        verb_arguments, command = _split_command(arguments)
        names: list[str] = []
        if verb not in COMMAND_VERBS:
            names, command = command, []
        parsed = parser.parse_verb_arguments(verb_arguments, command, names)
        wants_json = parsed.json  # also for a beginning of the option, such as --js
        parsed.begun = begun
        code = int(module.run(parsed))
        sys.stdout.flush()
        return code
    except ExthostError as error:
        folder = deleted_working_folder()
        if folder is not None and folder not in error.message:
            note = f"the working folder {folder} has been deleted; {_LEAVE_FOLDER}"
            details = (*error.evidence.details, note)
            error.evidence = replace(error.evidence, details=details)
        print_error(error, wants_json)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if error.filename is not None:  # not an error of writing to stdout
            file_error = UsageError(
                "X1399",
                f"{error.filename} cannot be used: {error.strerror}",
                help="check its type and its permissions",
            )
            print_error(file_error, wants_json)
            return file_error.exit_code
        folder = deleted_working_folder()
        if folder is not None and isinstance(error, FileNotFoundError):
            message = f"the working folder {folder} has been deleted"
            folder_error = UsageError("X1398", message, help=_LEAVE_FOLDER)
            print_error(folder_error, wants_json)
            return folder_error.exit_code
        return report_write_error(error)


def make_verb_parser(verb: str) -> tuple[Any, _Parser]:
    """Return the module of a verb, and the parser of its arguments."""
    module: Any = importlib.import_module(f"exthost.faces.cli.{verb}")
    parser = _Parser(prog=f"exthost {verb}", description=module.__doc__, add_help=True)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    module.add_options(parser)
    return module, parser


def report_unknown_verb(verb: str, arguments: Sequence[str]) -> int:
    """Report an unknown verb; return the exit code."""
    near = _USUAL_WORDS.get(verb) or nearest(verb, VERBS)
    hint = f"did you mean {near}?" if near else "see exthost --help"
    error = UsageError("X1316", f"there is no verb {verb!r}", help=hint)
    print_error(error, _has_json_option(arguments))
    return error.exit_code


def report_write_error(error: OSError) -> int:
    """Report that stdout cannot be written, unless its reader has closed it, as `head` does. Return
    the exit code."""
    discard_stream(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    write_error = UsageError(
        "X1379",
        f"the output cannot be written: {error.strerror or error}",
        help="is the disk full? is there a limit of file sizes (ulimit -f)? what was asked may "
        "have been done all the same",
    )
    print_error(write_error, wants_json=False)
    return write_error.exit_code


def _has_json_option(arguments: Sequence[str]) -> bool:
    """Return whether --json is among the arguments. After `--` it belongs to the extension."""
    return "--json" in takewhile(lambda argument: argument != "--", arguments)


def _split_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before `--` and those after it."""
    if "--" not in arguments:
        return arguments, []
    index = arguments.index("--")
    command = arguments[index + 1 :]
    if not command:
        raise UsageError("X1316", "there is no command after --", help="write -- COMMAND ARGS…")
    return arguments[:index], command
