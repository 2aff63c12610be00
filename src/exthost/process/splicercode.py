"""The process that moves large transfers, compiled. `make init` builds it from `splicer.c` for each
architecture and writes `splicercode.toml`."""

import base64
from collections.abc import Mapping

from exthost.model.package_tables import read_tables

_TABLES = read_tables("exthost.process", "splicercode.toml")

SOURCE_SHA256: str = _TABLES["source_sha256"]
# By the machine's name, as uname has it.
SPLICER: Mapping[str, bytes] = {
    machine: base64.b85decode("".join(program["code"].split()))
    for machine, program in _TABLES["programs"].items()
}
SPLICER_SHA256: Mapping[str, str] = {
    machine: program["sha256"] for machine, program in _TABLES["programs"].items()
}
# The target of the compiler, its version, and the version of the linker.
BUILT_BY: Mapping[str, tuple[str, ...]] = {
    machine: tuple(program["built_by"]) for machine, program in _TABLES["programs"].items()
}
