"""The page of the command line, from the parsers of its verbs."""

import argparse
import importlib

from exthost.faces.cli.verbs import EXIT_CODES, VERB_GROUPS, VERBS
from scripts.reference.markdown import code, page, table
from scripts.reference.source_code import docstring

_INTRODUCTION = """\
Standard output is data, standard error is for people. Every verb takes `--json`. A command of an
extension stands after `--`. `exthost VERB --help` prints what is written here. When a host of the
config runs, the verbs that call or look are its clients; `--standalone` starts a process of its own.

Colours are used only on a terminal, unless `NO_COLOR` is set.
"""


def cli_page() -> str:
    """Return the page."""
    codes = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
    parts = [_INTRODUCTION, table(("Exit code", ""), codes)]
    for name, verbs in VERB_GROUPS.items():
        rows = [(f"[`{verb}`](#{verb})", summary) for verb, summary in verbs.items()]
        parts.append(table((name.capitalize(), ""), rows))
    for verb in VERBS:
        module = importlib.import_module(f"exthost.faces.cli.{verb}")
        parser = argparse.ArgumentParser(prog=f"exthost {verb}", add_help=False)
        module.add_options(parser)
        arguments = [action for action in parser._actions if action.help != argparse.SUPPRESS]
        parts += [
            f"## {verb}",
            f"```text\n{docstring(module)}\n```",
            table(("Argument", ""), [(_name(action), _help(action)) for action in arguments]),
        ]
    return page("Command line", *parts)


def _name(action: argparse.Action) -> str:
    placeholder = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        placeholder = "|".join(map(str, action.choices))
    if not action.option_strings:
        optional = action.nargs in ("?", "*")
        many = " …" if action.nargs in ("*", "+") else ""
        return code(f"[{placeholder}{many}]" if optional else f"{placeholder}{many}")
    takes_value = action.nargs != 0
    names = ", ".join(action.option_strings)
    return code(f"{names} {placeholder}" if takes_value else names)


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")
