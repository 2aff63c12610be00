"""Makes `python -m exthost.faces.cli` the same as `exthost`."""

import sys

from exthost.faces.cli import main

if __name__ == "__main__":
    sys.exit(main())
