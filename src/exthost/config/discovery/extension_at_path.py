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
    if len(candidates) == 1:
        return candidates[0].spec
    if candidates:
        folders = " or ".join(shlex.quote(candidate.folder) for candidate in candidates[:2])
        raise _not_one_error([candidate.spec for candidate in candidates], path, f"name {folders}")
    if path.is_dir() and (path / DEFAULT_CONFIG).is_file():
        specs = find_extensions(read_config(str(path / DEFAULT_CONFIG))).specs
        if len(specs) == 1:
            return specs[0]
        config = shlex.quote(str(path / DEFAULT_CONFIG))
        if specs:
            help = (
                f"name one instead of the folder, with --config {config}; a verb that takes only "
                "a FOLDER needs one with a single extension"
            )
        else:
            help = f"`exthost add NAME --dialect D --config {config} -- COMMAND` adds one"
        raise _not_one_error(specs, path, help)
    errors = [diagnostic for diagnostic in report.diagnostics if diagnostic.level == "error"]
    if len(errors) == 1:
        raise errors[0].as_error()
    if errors and path.is_dir():
        message = f"{path} has {len(errors)} manifests, and all of them have errors"
        help = "name the folder of one of them"
    elif path.is_dir():
        message = f"{path} is not an extension: it has no manifest and no {DEFAULT_CONFIG}"
        help = "name another folder; a program without a manifest is run with -- COMMAND ARGS…"
    else:
        message = f"{path} is not a manifest"
        command = f"python3 {path.name}" if path.suffix == ".py" else "COMMAND ARGS…"
        help = f"a program without a manifest is run with -- {command}"
    others = "".join(f"; {item.path}: {item.message}" for item in report.diagnostics)
    raise NotFound("X1206", message + others, help=help)


def _not_one_error(specs: Sequence[Spec], path: Path, help: str) -> UsageError:
    """Return the error for a folder that has several extensions, or none."""
    names = ", ".join(spec.id for spec in specs)
    message = f"{path} has several extensions: {names}" if specs else f"{path} has no extension"
    return UsageError("X1316", message, help=help)
