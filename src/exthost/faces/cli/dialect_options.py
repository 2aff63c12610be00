"""`--option KEY=VALUE`: an option of the dialect, for the one extension that a verb starts."""

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
    """Return the spec with the options of the command line. `--option KEY` sets a flag."""
    if not args.option:
        return spec
    pairs = [option if "=" in option else f"{option}=true" for option in args.option]
    options = {key: parse_value(value) for key, _, value in (pair.partition("=") for pair in pairs)}
    return replace(spec, options={**spec.options, **options})


def parse_value(text: str) -> Any:
    """Return the value of this JSON text, or the text itself if it is not JSON."""
    try:
        return jsontext.decode(text.encode())
    except ValueError:  # not JSON, or not even UTF-8
        return text
