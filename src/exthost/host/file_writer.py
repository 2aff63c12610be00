"""Writes the files of a result into a folder: only inside it, and all of them or none.

`exthost call --write` uses it. `file_merge` decides what the files contain.

Each path is resolved first, links included, and refused if it leads out of the folder. Then it is
opened from the descriptor of the folder without following any link, so that a link that is created
in between has no effect. New contents are written to temporary files in the same folders, and
renamed when all of them are complete: a concurrent reader sees the old file or the new one, and an
error before the first rename leaves no file.
"""

import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from exthost.dialects.calls import FileFragment
from exthost.errors import CallFailed, Evidence, UsageError
from exthost.host.file_merge import merge_fragments, path_refused_error

__all__ = ["is_protected", "write_files"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# Folders and files that other programs run or obey without asking, in lower case: what an
# extension writes there would be executed outside its sandbox.
_PROTECTED_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".vscode", ".idea", ".devcontainer", ".husky", ".github", ".ssh"),
        *(".config", ".local", ".cargo", ".vim", ".emacs.d", ".claude", ".codex", ".cursor"),
        *(".gemini", ".gnupg", ".direnv", ".mise", ".yarn"),
    )
)
_PROTECTED_FILES = frozenset(
    (
        *(".envrc", ".env", ".gitmodules", ".gitattributes", ".npmrc", ".yarnrc", ".pypirc"),
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login"),
        *(".vimrc", ".exrc", ".nvimrc", ".gdbinit", ".lldbinit", ".netrc", ".mcp.json"),
        *(".pre-commit-config.yaml", "sitecustomize.py", "usercustomize.py", "exthost.toml"),
        *(".gitconfig", ".yarnrc.yml", ".pnpmfile.cjs", ".pnp.cjs", ".mise.toml", "mise.toml"),
        *(".tool-versions", ".emacs", ".dir-locals.el", ".nvim.lua", ".lvimrc", ".tmux.conf"),
        *(".screenrc", ".xprofile", ".xinitrc", ".xsession", ".bazelrc", ".irbrc", ".pryrc"),
        # With it and a `config` a folder is a repository, whose settings git runs.
        "head",
    )
)


def write_files(
    fragments: Iterable[FileFragment], folder: str | Path, *, named: Collection[str] = ()
) -> tuple[str, ...]:
    """Merge these fragments and write the files into `folder`, which is created if needed. Return
    the paths written, relative to it. `named` are paths that may be written although other programs
    run or obey them. Raises Refused, CallFailed or UsageError."""
    allowed = {os.path.normpath(path) for path in named}
    root = os.path.realpath(folder)
    places: dict[str, str] = {}

    def existing(path: str) -> str | None:
        return _text(root, _resolved(root, path))

    try:
        files = merge_fragments(fragments, existing)
        for path in files:
            place = _resolved(root, path)
            if is_protected(place) and place not in allowed:
                raise path_refused_error(path, _PROTECTED)
            if place in places.values():
                raise CallFailed(
                    "X0721",
                    f"{path!r} of its result is a link to another file of it, {place!r}",
                    help="nothing was written; take the link away, or write to another folder",
                )
            places[path] = place
        _place_all(root, {places[path]: content.encode() for path, content in files.items()})
    except OSError as error:
        raise UsageError(
            "X1323",
            f"the files cannot be written to {folder}: {error.strerror or error}",
            help="check that the folder may be written to, and what is in the way",
            evidence=Evidence(path=str(error.filename or folder)),
        ) from None
    except UnicodeEncodeError:
        raise CallFailed("X0721", "a file of its result is not text", help="see --json") from None
    return tuple(files)


_PROTECTED = "other programs run or obey it; --write-protected PATH allows it"


def is_protected(path: str) -> bool:
    """Return whether other programs run or obey what is at this path."""
    *folders, name = path.lower().split("/")
    return name in _PROTECTED_FILES or not _PROTECTED_FOLDERS.isdisjoint((*folders, name))


def _resolved(root: str, path: str) -> str:
    """Return the real path, relative to the root. Raises Refused if it is outside."""
    real = os.path.realpath(f"{root}/{path}")
    if not real.startswith(f"{root.rstrip('/')}/"):
        raise path_refused_error(path, "a link leads it out of the folder")
    return real[len(root.rstrip("/")) + 1 :]


def _text(root: str, place: str) -> str | None:
    try:
        return Path(root, place).read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise CallFailed(
            "X0721", f"{place} is there and is not text: nothing can be merged into it"
        ) from None


def _place_all(root: str, files: dict[str, bytes]) -> None:
    Path(root).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        top = os.open(root, _FOLDER)
        stack.callback(os.close, top)
        staged: list[tuple[int, str, str]] = []
        for place, content in files.items():
            *folders, name = place.split("/")
            inside = stack.enter_context(_inside(top, folders))
            beside = f".{name[:200]}.{secrets.token_hex(6)}"
            stack.callback(_remove, inside, beside)
            _write(inside, name, beside, content)
            staged.append((inside, beside, name))
        for inside, beside, name in staged:
            os.rename(beside, name, src_dir_fd=inside, dst_dir_fd=inside)


@contextmanager
def _inside(top: int, folders: list[str]) -> Iterator[int]:
    """Open the folder below `top`, creating what is missing. Follows no link."""
    folder_fd = os.dup(top)
    try:
        for name in folders:
            try:
                os.mkdir(name, dir_fd=folder_fd)
            except FileExistsError:
                pass
            below = os.open(name, _FOLDER, dir_fd=folder_fd)
            os.close(folder_fd)
            folder_fd = below
        yield folder_fd
    finally:
        os.close(folder_fd)


def _write(inside: int, name: str, beside: str, content: bytes) -> None:
    """Write the content to a temporary file beside the existing one, with the same mode."""
    try:
        existing = os.stat(name, dir_fd=inside, follow_symlinks=False)
    except FileNotFoundError:
        existing = None
    if existing is not None and stat.S_ISDIR(existing.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder is in the way", name)
    with os.fdopen(os.open(beside, _NEW, 0o666, dir_fd=inside), "wb") as file:
        if existing is not None:
            os.fchmod(file.fileno(), existing.st_mode & 0o777)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove(inside: int, beside: str) -> None:
    try:
        os.unlink(beside, dir_fd=inside)
    except FileNotFoundError:
        pass
