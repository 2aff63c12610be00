"""The command-line option `--option KEY=VALUE`, for the subcommands of exthost that start one
extension.

It sets an option of the extension's dialect (the protocol that it speaks), as the table `options`
of an entry in a config does.
"""

import argparse
from dataclasses import replace
from typing import Any

from exthost.faces.cli.common import Args
from exthost.model.spec import Spec
from exthost.wire import jsontext


def add_dialect_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of its dialect, as under `options` in a config; may be repeated",
    )


def apply_dialect_options(args: Args, spec: Spec) -> Spec:
    """Return the spec (the description of an extension) with the options of the command line.
    `--option KEY` means `--option KEY=true`."""
    if not args.option:
        return spec
    options = dict(spec.options)
    for option in args.option:
        key, equals, value = option.partition("=")
        options[key] = parse_value(value if equals else "true")
    return replace(spec, options=options)


def parse_value(text: str) -> Any:
    """Return the value of this JSON text, or the text itself if it is not JSON."""
    try:
        return jsontext.decode(text.encode())
    except ValueError:  # not JSON, or not even UTF-8
        return text
