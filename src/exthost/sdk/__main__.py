"""`python3 -m exthost.sdk new NAME --dialect D`: make a new extension in ./NAME."""

import sys

from exthost_sdk.__main__ import main

sys.exit(main())
