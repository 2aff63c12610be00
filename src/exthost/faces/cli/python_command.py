"""The command that runs exthost in another process."""

import sys

# With -P, Python does not import modules from the working folder. It may be one that extensions
# write, and a file `json.py` in it would run in place of Python's own module.
PYTHON_COMMAND = (sys.executable, "-P", "-m", "exthost")
