"""`python3 -m exthost_sdk new NAME --dialect D`: make a new extension in ./NAME."""

import argparse
import sys

from exthost_sdk.dialects import dialect_names
from exthost_sdk.errors import SdkUsageError
from exthost_sdk.scaffold import TEMPLATES, create


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m exthost_sdk", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    new = verbs.add_parser("new", help="make a new extension in a folder of its name")
    new.add_argument("name", metavar="NAME")
    new.add_argument("--dialect", required=True, choices=dialect_names())
    new.add_argument("--template", choices=list(TEMPLATES))
    args = parser.parse_args()
    try:
        paths = create(args.name, args.dialect, args.template)
    except (SdkUsageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
