"""A program like `exthost` that waits ten minutes for an extension to end, instead of some seconds.

It is for tests of a host that is stopping: an extension that does not end keeps the host in this
state until the test kills it, however slow the machine is. The change concerns extensions of the
dialect morphir.
"""

import sys
from dataclasses import replace

from exthost.dialects.morphir import dialect as morphir
from exthost.faces.cli import main
from exthost.model.shutdown_steps import CloseStdin

PATIENCE_SECONDS = 600

if __name__ == "__main__":
    traits = replace(morphir.DIALECT.traits, shutdown_steps=(CloseStdin(wait=PATIENCE_SECONDS),))
    morphir.DIALECT = replace(morphir.DIALECT, traits=traits)
    sys.exit(main())
