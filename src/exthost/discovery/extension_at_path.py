"""Finds the extension at a path: a manifest, or a folder with a manifest or an `exthost.toml`."""

from collections.abc import Sequence
from pathlib import Path

from exthost.config import DEFAULT_CONFIG, DiscoverySettings
from exthost.dialects import find
from exthost.discovery.configfile import find_extensions, read_config, spec_from_manifest
from exthost.discovery.search import discover
from exthost.errors import NotFound, UsageError
from exthost.spec import Spec


def spec_at(path: Path) -> Spec:
    """Return the extension of a manifest, or the only extension in a folder.

    Raises ManifestError if it cannot be used, NotFound if there is none, and UsageError if there
    are several.
    """
    path = path.resolve()
    formats = find.load_manifest_formats()
    if path.suffix == ".toml" and not any(
        form.matches(path.name, path.parent.name) for form in formats
    ):
        return spec_from_manifest(path)
    folder = path if path.is_dir() else path.parent
    # Some formats have the manifest in a subfolder of a fixed name. The extension is the folder
    # above that.
    if any(form.parent == folder.name for form in formats):
        folder = folder.parent
    report = discover(DiscoverySettings(search_paths=(str(folder),), max_depth=2), formats)
    real = path.resolve()
    candidates = [
        candidate
        for candidate in report.candidates
        if path.is_dir() or Path(candidate.path).resolve() == real
    ]
    if candidates:
        return _only_one([candidate.spec for candidate in candidates], path)
    if path.is_dir() and (path / DEFAULT_CONFIG).is_file():
        return _only_one(find_extensions(read_config(str(path / DEFAULT_CONFIG))).specs, path)
    errors = [diagnostic for diagnostic in report.diagnostics if diagnostic.level == "error"]
    if len(errors) == 1:
        raise errors[0].as_error()
    messages = [diagnostic.message for diagnostic in report.diagnostics]
    raise NotFound(
        "X1206",
        f"{path} holds no extension that this version knows" + "".join(f"; {m}" for m in messages),
        help="a bare program is run with -- COMMAND ARGS…",
    )


def _only_one(specs: Sequence[Spec], path: Path) -> Spec:
    """Return the only extension of a folder. Raises UsageError if there are several or none."""
    if len(specs) == 1:
        return specs[0]
    names = ", ".join(spec.id for spec in specs) or "none"
    raise UsageError(
        "X1316",
        f"{path} holds several extensions: {names}" if specs else f"{path} holds no extension",
        help=f"name one, with --config {path / DEFAULT_CONFIG}",
    )
