"""The page of the command line, from the parsers of its verbs."""

import argparse
import importlib

from exthost.faces.cli.verbs import VERB_GROUPS, VERBS
from scripts.reference.markdown import code, page, table
from scripts.reference.source_code import docstring

_INTRODUCTION = """\
Standard output is data, standard error is for people. Every verb takes `--json`. A command of an
extension stands after `--`. `exthost VERB --help` prints what is written here. When a host of the
config runs, the verbs that call or look are its clients; `--standalone` starts a process of its own.

| Exit code | |
| --- | --- |
| 0 | ok |
| 1 | the extension answered with an error, or its result is marked as one |
| 2 | usage, not found, arguments that do not fit the schema |
| 3 | a config or manifest is invalid |
| 4 | refused: a requirement, a permission, the sandbox or a pin forbids it |
| 5 | did not start or complete the handshake |
| 6 | a call timed out |
| 7 | the process died or broke the protocol, or its breaker is open |
| 130 | Ctrl-C |

Colours are used only on a terminal, unless `NO_COLOR` is set.
"""


def cli_page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
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
