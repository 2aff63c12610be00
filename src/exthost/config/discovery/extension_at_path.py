"""Finds the extension at a path that a user named, as in `exthost check ./weather`: a manifest, or
a folder with a manifest or an `exthost.toml`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from exthost.config import DEFAULT_CONFIG, DiscoverySettings
from exthost.config.discovery.configfile import find_extensions, read_config, spec_from_manifest
from exthost.config.discovery.search import discover
from exthost.dialects import find
from exthost.errors import NotFound, UsageError
from exthost.model.spec import Spec


def spec_at(path: Path) -> Spec:
    """Return the extension of a manifest, or the only extension in a folder.

    Raises ManifestError if the extension cannot be used, NotFound if there is no extension, and
    UsageError if the folder contains several.
    """
    path = path.resolve()
    formats = find.load_manifest_formats()
    # A search finds manifests by their file names only. A TOML file of any other name is read as a
    # manifest because the caller named it.
    if path.suffix == ".toml" and not any(
        format.matches(path.name, path.parent.name) for format in formats
    ):
        return spec_from_manifest(path)
    folder = path if path.is_dir() else path.parent
    # In some formats the manifest is in a subfolder of a fixed name (`format.parent`). The
    # extension's folder is then the folder above.
    if any(format.parent == folder.name for format in formats):
        folder = folder.parent
    # Depth 2 includes the files in such a subfolder.
    report = discover(DiscoverySettings(search_paths=(str(folder),), max_depth=2), formats)
    candidates = [
        candidate
        for candidate in report.candidates
        if path.is_dir() or Path(candidate.path).resolve() == path
    ]
    if candidates:
        return _only_one([candidate.spec for candidate in candidates], path)
    if path.is_dir() and (path / DEFAULT_CONFIG).is_file():
        return _only_one(find_extensions(read_config(str(path / DEFAULT_CONFIG))).specs, path)
    errors = [diagnostic for diagnostic in report.diagnostics if diagnostic.level == "error"]
    if len(errors) == 1:
        raise errors[0].as_error()
    if path.is_dir():
        message = f"{path} is not an extension: it has no manifest and no {DEFAULT_CONFIG}"
        help = "name another folder; a program without a manifest is run with -- COMMAND ARGS…"
    else:
        message = f"{path} is not a manifest"
        command = f"python3 {path.name}" if path.suffix == ".py" else "COMMAND ARGS…"
        help = f"a program without a manifest is run with -- {command}"
    others = "".join(f"; {diagnostic.message}" for diagnostic in report.diagnostics)
    raise NotFound("X1206", message + others, help=help)


def _only_one(specs: Sequence[Spec], path: Path) -> Spec:
    """Return the only extension of a folder. Raises UsageError if there are several or none."""
    if len(specs) == 1:
        return specs[0]
    config = shlex.quote(str(path / DEFAULT_CONFIG))
    if not specs:
        message = f"{path} has no extension"
        help = f"`exthost add NAME --dialect D --config {config} -- COMMAND` adds one"
    else:
        message = f"{path} has several extensions: {', '.join(spec.id for spec in specs)}"
        help = (
            f"name one instead of the folder, with --config {config}; a verb that takes only a "
            "FOLDER needs one with a single extension"
        )
    raise UsageError("X1316", message, help=help)
