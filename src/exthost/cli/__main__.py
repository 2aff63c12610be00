"""Makes `python -m exthost.cli` the same as `exthost`."""

import sys

from exthost.cli import main

if __name__ == "__main__":
    sys.exit(main())
