"""The compiled program of "our init", the first process in the namespaces of an extension.

`make init` builds it from `init.c` for each architecture and writes `initcode.toml`.
"""

from exthost.model.package_tables import read_program

PROGRAM = read_program("exthost.launch.sandbox", "initcode.toml")
INIT = PROGRAM.code
