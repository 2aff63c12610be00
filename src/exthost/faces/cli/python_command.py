"""The command that runs exthost in another process: `exthost up -d` starts the host with it,
`exthost top` its views, and `exthost unit` writes it into the systemd unit."""

import sys

# With -P, Python does not import modules from the working folder. It may be one that extensions
# write, and a file `json.py` in it would run in place of Python's own module.
PYTHON_COMMAND = (sys.executable, "-P", "-m", "exthost")
