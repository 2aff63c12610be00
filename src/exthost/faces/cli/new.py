"""Create a new extension in the folder ./NAME: program, manifest or config, test and README."""

import argparse
import shlex
from pathlib import Path

from exthost_sdk.dialects import dialect_names
from exthost_sdk.errors import SdkUsageError
from exthost_sdk.languages import LANGUAGES
from exthost_sdk.scaffold import TEMPLATES, create

from exthost.errors import UsageError
from exthost.faces.cli.common import Args, say, show_json, write_help


class NewArgs(Args):
    """The parsed arguments of this verb (a subcommand of exthost)."""

    template: str | None
    lang: str


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: exthost new weather --dialect mcp"
    parser.add_argument("name", metavar="NAME", help="the name of the extension and of its folder")
    parser.add_argument(
        "--dialect", required=True, choices=dialect_names(), help="the dialect of the extension"
    )
    parser.add_argument(
        "--template",
        choices=list(TEMPLATES),
        help="the kind of example in it; default: tool, in cigen generator",
    )
    parser.add_argument(
        "--lang",
        choices=["python", *LANGUAGES],
        default="python",
        help="the language of its code; languages other than python have only the default template",
    )


def run(args: NewArgs) -> int:
    assert args.dialect is not None
    try:
        paths = create(args.name, args.dialect, args.template, args.lang)
    except SdkUsageError as error:
        help = error.help or "see `exthost new --help`"
        raise UsageError("X1329", str(error), help=help) from None
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename is None:
            # the working folder has been deleted
            raise
        raise UsageError(
            "X1329", f"{args.name} cannot be created: {error.strerror}", help=write_help(error)
        ) from None
    if args.json:
        show_json({"created": paths})
        return 0
    for path in paths:
        print(path)
    name = shlex.quote(args.name)
    if args.lang in LANGUAGES and (build := LANGUAGES[args.lang].build):
        project = Path(args.name).resolve().name
        say(f"build it: (cd {name} && {build.format(name=project)})")
    say(f"try it: exthost inspect {name}; its README explains the rest")
    return 0
