"""The verbs and their options as data: what completions and the manual page are made from.

Read from the same parsers that read the command line, so neither can differ from it.
"""

import argparse
import inspect
from typing import NamedTuple

from exthost.cli.common import verb_parser
from exthost.cli.verbs import VERBS


class Option(NamedTuple):
    """An option, or an argument if it has no names. `placeholder` is "" if it takes no value."""

    names: tuple[str, ...]
    placeholder: str
    help: str
    choices: tuple[str, ...] = ()


class Verb(NamedTuple):
    """A verb. `about` is the text of its help; `takes_name` whether an extension is named."""

    name: str
    summary: str
    about: str
    usage: str
    options: tuple[Option, ...]

    @property
    def takes_name(self) -> bool:
        arguments = [option.placeholder for option in self.options if not option.names]
        return any(word in ("NAME", "TARGET") for word in arguments)


def read_verbs() -> tuple[Verb, ...]:
    """Return every verb, in the order of the help."""
    return tuple(_read_verb(name, summary) for name, summary in VERBS.items())


def _read_verb(name: str, summary: str) -> Verb:
    module, parser = verb_parser(name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    options = tuple(_read_option(action) for action in actions)
    return Verb(name, summary, inspect.cleandoc(module.__doc__ or ""), usage, options)


def _read_option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    placeholder = ""
    if action.nargs != 0:
        shown = action.metavar if isinstance(action.metavar, str) else ""
        placeholder = shown or "|".join(choices) or action.dest.upper()
    return Option(tuple(action.option_strings), placeholder, action.help or "", choices)
