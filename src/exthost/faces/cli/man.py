"""Print the manual page exthost(1), made from the verbs and their options.

exthost man > /usr/local/share/man/man1/exthost.1
exthost man | man -l -
"""

import argparse
from collections.abc import Iterator, Sequence

from exthost._version import __version__
from exthost.faces.cli.common import Args, show_json, show_text
from exthost.faces.cli.verb_table import Verb, read_verbs
from exthost.faces.cli.verbs import EXIT_CODES

_VARIABLES = (
    ("EXTHOST_HOME", "The folder of logs, stored settings and, if needed, the socket of a host."),
    ("EXTHOST_GATEWAY_TOKEN", "The token that the HTTP services require."),
    ("NO_COLOR", "If it is set, nothing is coloured."),
    ("NOTIFY_SOCKET", "Where to report to systemd that the host is ready; systemd sets it."),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: Args) -> int:
    text = "\n".join(manual_page(read_verbs()))
    if args.json:
        show_json({"page": text})
    else:
        show_text(text)
    return 0


def manual_page(verbs: Sequence[Verb]) -> Iterator[str]:
    """Yield the lines of the page, in the man macros of troff."""
    yield f'.TH EXTHOST 1 "" "exthost {__version__}" "User Commands"'
    yield from (".SH NAME", r"exthost \- one host for extensions that run as child processes")
    yield from (".SH SYNOPSIS", ".B exthost")
    yield from (r".I VERB", r"[OPTIONS] [\-\- COMMAND ARGS...]")
    yield ".SH DESCRIPTION"
    yield _escape_troff(
        "Runs extensions: programs that exchange messages on stdin and stdout, in one of several "
        "dialects. The host starts them, calls their tools, restarts those that end, and keeps "
        "untrusted ones in a sandbox. Data is written to stdout and messages to stderr. Every verb "
        "accepts --json."
    )
    yield ".SH VERBS"
    for verb in verbs:
        yield from (f".SS {_escape_troff(verb.name)}", ".B " + _escape_troff(verb.usage), ".PP")
        yield from _paragraphs(verb.help_text)
        for option in verb.options:
            names = ", ".join(option.names)
            term = f"{names} {option.placeholder}".strip()
            if not term or option.names == ("-h", "--help"):
                continue
            # The macro .TP needs a line after the term, so an option without a help gets a dash.
            yield from (
                ".TP",
                f".B {_escape_troff(term)}",
                _escape_troff(" ".join(option.help.split()) or "-"),
            )
    yield ".SH EXIT STATUS"
    yield from _term_list(
        [(str(code), f"{meaning[0].upper()}{meaning[1:]}.") for code, meaning in EXIT_CODES.items()]
    )
    yield ".SH ENVIRONMENT"
    yield from _term_list(_VARIABLES)
    yield from (".SH FILES", ".TP", ".B exthost.toml", "The config, in the current folder.")


def _term_list(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", f".B {_escape_troff(name)}", _escape_troff(text))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a verb's help. Indented lines are examples and are not wrapped."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        if all(line.startswith("  ") for line in lines):
            yield from (".nf", *map(_escape_troff, lines), ".fi", ".PP")
        else:
            yield from (_escape_troff(" ".join(paragraph.split())), ".PP")


def _escape_troff(text: str) -> str:
    """Return the text escaped, so that troff prints it unchanged."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    escaped = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
