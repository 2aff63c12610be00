"""Finds the command that compiles a program, from the files of its project. Runs nothing.

If the program of an extension does not exist because it was not compiled, the error of its start
names this command, such as `go build -o server .`.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from exthost.process.small_files import read_start


class BuildCommand(NamedTuple):
    """A command that writes a program, and the folder in which it runs."""

    argv: tuple[str, ...]
    folder: Path

    @property
    def text(self) -> str:
        """The command as a person types it."""
        return self.argv[2] if self.argv[:2] == ("sh", "-c") else shlex.join(self.argv)


# It installs the compiler first; if that is installed already, npm notices it within a second.
_NPM_BUILD = ("sh", "-c", "npm install --silent && npm run --silent build")


def find_build_command(program: Path) -> BuildCommand | None:
    """Return the command that compiles this program, which may not exist yet: one of Go beside its
    go.mod, one of Rust in the folder `target` of its project, or one of JavaScript beside its
    source in TypeScript and its package.json. None if it is none of these."""
    folder = program.parent
    if program.suffix == ".js":
        is_compiled = program.with_suffix(".ts").is_file() and (folder / "package.json").is_file()
        return BuildCommand(_NPM_BUILD, folder) if is_compiled else None
    if not program.suffix and not _is_script(program) and (folder / "go.mod").is_file():
        return BuildCommand(("go", "build", "-o", program.name, "."), folder)
    if folder.name in ("release", "debug") and folder.parent.name == "target":
        project = folder.parent.parent
        if (project / "Cargo.toml").is_file():
            profile = ("--release",) if folder.name == "release" else ()
            return BuildCommand(("cargo", "build", *profile, "--quiet"), project)
    return None


def _is_script(program: Path) -> bool:
    """Return whether this is a script, which a compiler must not replace."""
    try:
        return read_start(str(program), 2) == b"#!"
    except (OSError, ValueError):  # no file has a name with a NUL character
        return False
