"""The first process of a namespace, compiled. `make init` builds it from `init.c` for each
architecture and writes `initcode.toml`."""

from exthost.model.package_tables import read_program

PROGRAM = read_program("exthost.launch.sandbox", "initcode.toml")
INIT = PROGRAM.code
