"""A test vector, and functions that load vectors from the TOML files of a dialect's package.

A vector is a test case of a dialect. Its table says what is tested: `read` that bytes are read as
the right messages, `handshake` that a handshake has the right result, and so on. A file:

    module = "exthost.dialects.morphir.dialect"

    [[read]]
    name = "a result of null"
    payload = '{"id":0,"result":null}'
    means = 'Reply {"id": 0, "result": null}'

`exthost.testing` describes all tables and keys.
"""

import importlib
import json
import tomllib
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.dialects.manifest_format import ManifestFile
from exthost.dialects.package import DialectPackage
from exthost.errors import UsageError
from exthost.model.spec import Limits, Spec

TABLES = ("read", "handshake", "refusal", "operation", "meaning", "value")

# In seconds. They are long because the scripted child, the process that plays the extension of a
# vector, imports half of exthost before it answers.
_DEFAULT_LIMITS = {"start": 120.0, "handshake": 60.0, "call": 60.0}


@dataclass(frozen=True)
class Vector:
    """One vector of a file.

    file             the name of the file, without its suffix
    module           the Python module that has the dialect as DIALECT
    table            the name of the vector's table, one of `TABLES`
    fields           the keys of that table, and their values
    first_handshake  the fields of the first handshake in the file, None if it has none
    manifest         the manifest of the file, for a vector without a field `manifest`
    """

    file: str
    module: str
    table: str
    fields: dict[str, Any]
    first_handshake: dict[str, Any] | None = None
    manifest: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.fields['name']}"

    @property
    def dialect(self) -> Dialect:
        dialect = importlib.import_module(self.module).DIALECT
        assert isinstance(dialect, Dialect)
        return dialect

    def json(self, key: str, default: Any = None) -> Any:
        """Return the value of a field that is a JSON text."""
        return json.loads(self.fields[key]) if key in self.fields else default

    def spec(self, argv: tuple[str, ...] = ("scripted",)) -> Spec:
        """Return the Spec of an extension with the settings and the manifest of this vector."""
        spec = Spec(
            id="scripted",
            argv=argv,
            dialect=self.dialect.name,
            cwd=str(Path.cwd()),
            # The dialect's default policy may be stricter, but the scripted child needs variables
            # such as PYTHONPATH to import the dialect.
            env_policy="filtered",
            config=self.json("config", {}),
            options=self.json("options", {}),
            limits=Limits(**(_DEFAULT_LIMITS | self.fields.get("limits", {}))),
        )
        manifest_text = self.fields.get("manifest", self.manifest)
        if not manifest_text:
            return spec
        format = find.find_manifest_format(self.dialect.name)
        assert format is not None and format.join is not None
        manifest = ManifestFile(path="/manifest", folder="/", data=manifest_text.encode())
        return format.join(spec, manifest)


def package_vectors(package: DialectPackage) -> tuple[Vector, ...]:
    """Return the vectors of all files of a dialect's package. Raises what `load_vectors` raises,
    and UsageError for an argument that is not the package of a dialect."""
    argument: object = package
    if not isinstance(argument, DialectPackage):
        raise UsageError(
            "X1338",
            f"the vectors of a DialectPackage are wanted, not of {argument!r:.60}",
            help="give the object PACKAGE of the dialect",
        )
    if not package.vectors:
        return ()
    folder = resources.files(package.vectors).joinpath("vectors")
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".toml")),
        key=lambda file: file.name,
    )
    return tuple(vector for file in files for vector in load_vectors(file))


def load_vectors(path: Traversable | str) -> tuple[Vector, ...]:
    """Return the vectors of a file. Raises ValueError for an unknown table, for a vector without a
    name or with a name that is not one line of text, and for a file that does not name its
    `module`."""
    path = Path(path) if isinstance(path, str) else path
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    # What remains after `module` and `manifest` are removed are the tables of vectors.
    module = tables.pop("module", None)
    if module is None:
        raise ValueError(f'{path} does not begin with module = "…", which has its dialect')
    manifest = tables.pop("manifest", "")
    if unknown := tables.keys() - set(TABLES):
        raise ValueError(f"{path} has unknown tables: {', '.join(sorted(unknown))}")
    for table, vectors in tables.items():
        if not isinstance(vectors, list) or not all(isinstance(item, dict) for item in vectors):
            raise ValueError(f"{path}: write [[{table}]] before each vector of this table")
        for fields in vectors:
            name = fields.get("name")
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise ValueError(f"{path}: a vector of the table {table} has the name {name!r:.60}")
    file = path.name.removesuffix(".toml")
    first_handshake = next(iter(tables.get("handshake", ())), None)
    return tuple(
        Vector(file, module, table, fields, first_handshake, manifest)
        for table, vectors in tables.items()
        for fields in vectors
    )
