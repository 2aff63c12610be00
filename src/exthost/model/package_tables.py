"""Reads the TOML files that are data of this distribution, beside the modules that use them.

For example, `read_tables("exthost", "errors.toml")` returns the explanations of the error codes.
"""

import tomllib
from collections.abc import Mapping
from pkgutil import get_data
from typing import Any, NamedTuple


def read_tables(package: str, file: str) -> dict[str, Any]:
    """Return the document in a TOML file of an importable package."""
    return tomllib.loads(read_text(package, file))


def read_text(package: str, file: str) -> str:
    """Return the text of a file of an importable package."""
    # Not `importlib.resources`, whose import takes longer than reading all tables.
    data = get_data(package, file)
    assert data is not None, f"{file} is installed with {package}"
    return data.decode()


class CompiledProgram(NamedTuple):
    """A program in C that is part of this distribution. The keys of the mappings are names of
    machines, as uname has them.

    source_sha256  the digest of the source
    code           the program
    sha256         its digest
    built_by       the target of the compiler, its version, and the version of the linker
    """

    source_sha256: str
    code: Mapping[str, bytes]
    sha256: Mapping[str, str]
    built_by: Mapping[str, tuple[str, ...]]


def read_program(package: str, file: str) -> CompiledProgram:
    """Return the program that `make init` has written to a TOML file of a package."""
    import base64

    tables = read_tables(package, file)
    programs = tables["programs"]
    return CompiledProgram(
        tables["source_sha256"],
        {name: base64.b85decode("".join(programs[name]["code"].split())) for name in programs},
        {name: programs[name]["sha256"] for name in programs},
        {name: tuple(programs[name]["built_by"]) for name in programs},
    )
