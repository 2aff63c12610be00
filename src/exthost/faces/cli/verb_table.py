"""The verbs and their options as data, from which shell completions and the manual page are made.

The data is read from the argparse parsers of the command line, so that both always agree.
"""

import argparse
import inspect
from typing import NamedTuple

from exthost.faces.cli.verb_runner import make_verb_parser
from exthost.faces.cli.verbs import VERBS


class VerbOption(NamedTuple):
    """An option, or a positional argument if `names` is empty. `placeholder` represents the value
    in the help, such as FILE; it is "" for an option without a value. `choices` are the allowed
    values; empty if any value is allowed."""

    names: tuple[str, ...]
    placeholder: str
    help: str
    choices: tuple[str, ...] = ()


class Verb(NamedTuple):
    """A verb (a subcommand of `exthost`). `summary` is its line in `exthost --help`, `help_text` is
    the text of its own help, `usage` is the usage line of its help, and `options` are its options
    and arguments. `takes_name` is whether an argument names an extension."""

    name: str
    summary: str
    help_text: str
    usage: str
    options: tuple[VerbOption, ...]

    @property
    def takes_name(self) -> bool:
        arguments = [option.placeholder for option in self.options if not option.names]
        return any(argument in ("NAME", "TARGET") for argument in arguments)


def read_verbs() -> tuple[Verb, ...]:
    """Return every verb, in the order of the help."""
    return tuple(_read_verb(name, summary) for name, summary in VERBS.items())


def _read_verb(name: str, summary: str) -> Verb:
    module, parser = make_verb_parser(name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    options = tuple(_read_option(action) for action in actions)
    return Verb(name, summary, inspect.cleandoc(module.__doc__ or ""), usage, options)


def _read_option(action: argparse.Action) -> VerbOption:
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    placeholder = ""
    if action.nargs != 0:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        placeholder = metavar or "|".join(choices) or action.dest.upper()
    return VerbOption(tuple(action.option_strings), placeholder, action.help or "", choices)
