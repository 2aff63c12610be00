"""One vector, and the files that hold them."""

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
from exthost.spec import Limits, Spec

__all__ = ["TABLES", "Vector", "load_vectors", "package_vectors"]

TABLES = ("read", "handshake", "refusal", "operation", "meaning", "value")

# A child here imports half of the package before it answers.
_GENEROUS = {"start": 120.0, "handshake": 60.0, "call": 60.0}


@dataclass(frozen=True)
class Vector:
    """One table of a vector file."""

    file: str
    module: str
    table: str
    row: dict[str, Any]
    first_handshake: dict[str, Any] | None = None
    manifest: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.row['name']}"

    @property
    def dialect(self) -> Dialect:
        dialect = importlib.import_module(self.module).DIALECT
        assert isinstance(dialect, Dialect)
        return dialect

    def json(self, key: str, default: Any = None) -> Any:
        return json.loads(self.row[key]) if key in self.row else default

    def spec(self, argv: tuple[str, ...] = ("scripted",)) -> Spec:
        """The extension that this vector is about, with its manifest."""
        spec = Spec(
            id="scripted",
            argv=argv,
            dialect=self.dialect.name,
            cwd=str(Path.cwd()),
            # The child imports the dialect and needs the variables for that, whatever its policy.
            env_policy="filtered",
            config=self.json("config", {}),
            options=self.json("options", {}),
            limits=Limits(**(_GENEROUS | self.row.get("limits", {}))),
        )
        text = self.row.get("manifest", self.manifest)
        if not text:
            return spec
        format = find.find_manifest_format(self.dialect.name)
        assert format is not None and format.join is not None
        return format.join(spec, ManifestFile(path="/manifest", folder="/", data=text.encode()))


def package_vectors(package: DialectPackage) -> tuple[Vector, ...]:
    """Return the vectors that come with a dialect's package, of all files; none if it names none.
    Raises what `load_vectors` raises."""
    if not package.vectors:
        return ()
    folder = resources.files(package.vectors).joinpath("vectors")
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".toml")),
        key=lambda file: file.name,
    )
    return tuple(vector for file in files for vector in load_vectors(file))


def load_vectors(path: Traversable) -> tuple[Vector, ...]:
    """Return the vectors of this file; none if it does not name a dialect's module. Raises
    ValueError for a table that nobody plays."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    module = tables.pop("module", None)
    if module is None:
        return ()
    manifest = tables.pop("manifest", "")
    if unknown := tables.keys() - set(TABLES):
        raise ValueError(f"{path} has tables that nobody plays: {', '.join(sorted(unknown))}")
    first = next(iter(tables.get("handshake", ())), None)
    return tuple(
        Vector(path.name.removesuffix(".toml"), module, table, row, first, manifest)
        for table, rows in tables.items()
        for row in rows
    )
