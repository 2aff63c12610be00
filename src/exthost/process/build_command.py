"""Finds the command that compiles a program, from the files of its project. Runs nothing."""

from pathlib import Path
from typing import NamedTuple


class BuildCommand(NamedTuple):
    """A command that writes a program, and the folder in which it runs."""

    argv: tuple[str, ...]
    folder: Path


def find_build_command(program: Path) -> BuildCommand | None:
    """Return the command that compiles this program, which may not exist yet: one of Go beside its
    go.mod, or one of Rust in the folder `target` of its project. None if it is neither."""
    folder = program.parent
    if (folder / "go.mod").is_file():
        return BuildCommand(("go", "build", "-o", program.name, "."), folder)
    if folder.name in ("release", "debug") and folder.parent.name == "target":
        project = folder.parent.parent
        if (project / "Cargo.toml").is_file():
            profile = ("--release",) if folder.name == "release" else ()
            return BuildCommand(("cargo", "build", *profile, "--quiet"), project)
    return None
