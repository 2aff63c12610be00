"""The compiled program of the splicer, the process that moves large transfers (see `splicer`).

`make init` builds it from `splicer.c` for each architecture and writes `splicercode.toml`.
"""

from exthost.model.package_tables import read_program

PROGRAM = read_program("exthost.process", "splicercode.toml")
SPLICER = PROGRAM.code
