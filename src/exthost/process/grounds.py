"""What an extension must be able to see in order to run, and what it was granted besides.

Programs behind shims are the normal case: a bare `python3` may be a link in a virtual environment
to an interpreter that a version manager keeps below somebody's home. So the way of each program is
followed, link by link and first line by first line, and what it stands on is shown read-only: the
environment, the interpreter's prefix, the version manager's root, the package cache. Never more
in silence: not /, not a home, not a temp root.

Looks at the file system and changes nothing. What was granted and cannot be is refused, with the
path to write instead.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.sandbox.strict import Ground

__all__ = ["Wish", "survey", "system"]

# Where every Linux keeps what programs of its own stand on.
_SYSTEM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)

# Of /etc only what loaders, libraries and name look-ups read; all of it is public. Each costs a
# tenth of a millisecond at every start.
_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
)
_NETWORK_FILES = (
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
)

# The kernel's own limit on links that lead to links.
_MOST_LINKS = 40

# A script whose interpreter is a script whose … : the kernel itself gives up sooner.
_MOST_INTERPRETERS = 5

# Never granted: they are the machine, not files.
_FORBIDDEN = ("/proc", "/sys", "/dev")

_TEMP_ROOTS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/var/run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be run, and what was granted: all that decides what must be seen.

    `argv[0]` is absolute; `folders` are its own (its manifest's, or the cwd that was set);
    `granted` are the entries of `filesystem` as they were written; `state` is a folder that it is
    given to write in.
    """

    extension: str
    argv: tuple[str, ...]
    cwd: str
    folders: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()
    network: bool = False
    state: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def survey(wish: Wish) -> Ground:
    """The ground for it. Raises Refused for a grant that cannot be."""
    standing = system(wish.network)
    seen = _Seen(standing)
    home = wish.env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    _run(seen, wish.argv[0], wish.env, home)
    for folder in wish.folders:
        if not _too_wide(folder, home):
            seen.show(folder)
    cwd = os.path.realpath(wish.cwd)
    for word in wish.argv:
        path = os.path.join(wish.cwd, word)  # noqa: PTH118
        if os.path.isfile(path):  # noqa: PTH113
            _own_file(seen, path, home)
    for entry in wish.granted:
        path, writes = _granted(entry, wish)
        (seen.write if writes else seen.read).add(path)
    state = os.path.realpath(wish.state) if wish.state else ""
    seen.read -= seen.write
    shown = (seen.read | seen.write).difference(standing.read)
    return Ground(
        read=tuple(sorted(_outermost(seen.read, seen.write))),
        write=tuple(sorted(seen.write)),
        links=tuple(sorted(seen.links.items())),
        cwd=cwd,
        state=state,
        open=all(map(_open_to_all, shown))
        and all(map(_writable_to_all, (*seen.write, *([state] if state else ())))),
    )


@cache
def system(network: bool = False) -> Ground:
    """What every program stands on, and no more. It stays the same for the life of a host."""
    seen = _Seen()
    for path in (*_SYSTEM_FOLDERS, *_SYSTEM_FILES, *(_NETWORK_FILES if network else ())):
        if os.path.exists(path):  # noqa: PTH110
            seen.show(path)
    read = tuple(sorted(_outermost(seen.read, set())))
    return Ground(read=read, links=tuple(sorted(seen.links.items())), cwd="/", open=True)


class _Seen:
    """Collects paths, and the links on the way to them."""

    def __init__(self, standing: Ground = Ground()) -> None:
        self.read = set(standing.read)
        self.write: set[str] = set()
        self.links = dict(standing.links)
        self.visited: set[str] = set()

    def show(self, path: str) -> str:
        """Show what is really there, and the way to it. Returns the real path; "" if none."""
        real, _ = self.walk(path)
        if real:
            self.read.add(real)
        return real

    def walk(self, path: str) -> tuple[str, list[str]]:
        """Note each link on the way; returns where it ends, "" if nowhere, and those links."""
        left = [part for part in path.split("/") if part]
        at, links = "", list[str]()
        while left:
            part = left.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                at = at.rpartition("/")[0]
                continue
            here = f"{at}/{part}"
            try:
                target = os.readlink(here)  # noqa: PTH115
            except FileNotFoundError:
                return "", links
            except OSError:  # no link
                at = here
                continue
            if len(links) == _MOST_LINKS:
                return "", links
            links.append(here)
            self.links[here] = target
            if target.startswith("/"):
                at = ""
            left = [one for one in target.split("/") if one] + left
        return at or "/", links


# -- what a program stands on ----------------------------------------------------------------


def _run(seen: _Seen, program: str, env: Mapping[str, str], home: str, depth: int = 0) -> None:
    """Follow a program to what it really runs."""
    if program in seen.visited or depth > _MOST_INTERPRETERS:
        return
    seen.visited.add(program)
    real, links = seen.walk(program)
    if not real:
        return
    seen.read.add(real)
    for way in dict.fromkeys((program, *links, real)):
        _environment(seen, way, env, home, depth)
    if prefix := installation(real, home):
        seen.show(prefix)
    for path in _caches(Path(real).name, Path(program).name, env, home):
        if os.path.exists(path):  # noqa: PTH110
            seen.show(path)
    for word in _first_line(real):
        if interpreter := _find(word, env):
            _run(seen, interpreter, env, home, depth + 1)


def installation(program: str, home: str) -> str:
    """The folder that a program was installed in along with what it needs; "" if it was not, or
    more is there than that."""
    prefix = Path(program).parent.parent
    installed = any((prefix / one).is_dir() for one in ("lib", "libexec", "share"))
    if Path(program).parent.name != "bin" or not installed or _too_wide(str(prefix), home):
        return ""
    return str(prefix)


def _environment(seen: _Seen, program: str, env: Mapping[str, str], home: str, depth: int) -> None:
    """Where a program stands in a virtual environment or among shims, that is needed whole."""
    folder = Path(program).parent
    if str(folder) in seen.visited:
        return
    seen.visited.add(str(folder))
    if folder.name == "shims" and not _too_wide(str(folder.parent), home):
        seen.show(str(folder.parent))
    settings = folder.parent / "pyvenv.cfg"
    if settings.is_file():
        seen.show(str(folder.parent))
        for path in _installed_in_place(folder.parent, home):
            seen.show(path)
        for line in settings.read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home":
                _run(seen, f"{value.strip()}/{Path(program).name}", env, home, depth + 1)
                _run(seen, f"{value.strip()}/python3", env, home, depth + 1)


def _installed_in_place(environment: Path, home: str) -> Iterator[str]:
    """Packages that a virtual environment only points to."""
    for pointer in environment.glob("lib/python3*/site-packages/*.pth"):
        for line in pointer.read_text("utf-8", "replace").splitlines():
            if line.startswith("/") and Path(line).is_dir() and not _too_wide(line, home):
                yield line


def _caches(real: str, name: str, env: Mapping[str, str], home: str) -> Iterator[str]:
    """Where runners keep what they run, and interpreters what a user installed."""
    names = {real, name}
    if names & {"npx", "npm", "npx-cli.js", "npm-cli.js"}:
        yield env.get("npm_config_cache") or f"{home}/.npm"
    if names & {"uv", "uvx"}:
        yield env.get("UV_CACHE_DIR") or f"{home}/.cache/uv"
        yield env.get("UV_PYTHON_INSTALL_DIR") or f"{home}/.local/share/uv"
    if any(one.startswith("python") for one in names):
        for folder in Path(home, ".local", "lib").glob("python3*"):
            yield str(folder)
        yield from _listed(env.get("PYTHONPATH", ""), home)
    if any(one.startswith("node") for one in names):
        yield from _listed(env.get("NODE_PATH", ""), home)


def _listed(paths: str, home: str) -> list[str]:
    found = [path for path in paths.split(os.pathsep) if path.startswith("/")]
    return [path for path in found if not _too_wide(path, home)]


def _first_line(program: str) -> list[str]:
    """The programs that a script's first line names: the interpreter, and what env is to find."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123
            line = file.readline(256)
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    words = os.fsdecode(line[2:].strip()).split()
    if words and Path(words[0]).name == "env":
        return [words[0], *[one for one in words[1:] if not one.startswith("-") and "=" not in one]]
    return words[:1]


def _find(word: str, env: Mapping[str, str]) -> str:
    if word.startswith("/"):
        return word
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, word)  # noqa: PTH118
        if folder and os.access(path, os.X_OK):
            return path
    return ""


# -- its own -----------------------------------------------------------------------------------


def _own_file(seen: _Seen, path: str, home: str) -> None:
    """A file that it is started with: shown with its folder, or alone where that is too much."""
    real = seen.show(path)
    if not real or any(real.startswith(f"{one}/") for one in _SYSTEM_FOLDERS):
        return
    folder = os.path.dirname(real)  # noqa: PTH120
    if not _too_wide(folder, home):
        seen.show(folder)
    if real.endswith((".js", ".mjs", ".cjs", ".ts")):
        for above in Path(real).parents:
            if _too_wide(str(above), home):
                break
            if (above / "node_modules").is_dir():
                seen.show(str(above / "node_modules"))
                if (above / "package.json").is_file():
                    seen.show(str(above / "package.json"))
                break


def _too_wide(folder: str, home: str) -> bool:
    """Whether showing this folder would show what is not the extension's: /, what stands directly
    below it (/etc, /home, /var), a home or what stands above one, a temp root."""
    real = os.path.realpath(folder)
    homes = {os.path.realpath(home), f"{os.path.realpath(home)}/.local"}
    if real.count("/") < 2 or real in homes or real in _TEMP_ROOTS:
        return True
    if any(one.startswith(f"{real}/") for one in homes):
        return True
    parent = os.path.dirname(real)  # noqa: PTH120
    return parent in ("/home", "/Users") or real == os.path.realpath(os.environ.get("TMPDIR", "/"))


# -- what was granted --------------------------------------------------------------------------


def _granted(entry: str, wish: Wish) -> tuple[str, bool]:
    """The real path of an entry, and whether it may be written."""
    path, writes = (entry[:-3], True) if entry.endswith(":rw") else (entry, False)
    path = path.removesuffix(":ro")
    full = os.path.abspath(os.path.join(wish.cwd, os.path.expanduser(path)))  # noqa: PTH100, PTH111, PTH118
    real = os.path.realpath(full)

    def refused(code: str, why: str, help: str) -> Refused:
        return Refused(
            code,
            f"permissions.filesystem names {path!r}, {why}",
            extension=wish.extension,
            help=help,
            evidence=Evidence(path=full, key="permissions.filesystem"),
        )

    for one in (full, real):
        if one == "/" or any(one == bad or one.startswith(f"{bad}/") for bad in _FORBIDDEN):
            led = f", which leads to {one}" if one != full else ""
            raise refused(
                "X0381", f"and that is never granted{led}", "name the folder that it needs"
            )
    if not os.path.lexists(full):
        raise refused("X0382", "and there is nothing", "create it, or take the entry out")
    if real != full:
        raise refused(
            "X0383",
            f"and on the way is a link: it leads to {real}",
            f"write {real} if that is what you mean",
        )
    return real, writes


def _outermost(read: set[str], write: set[str]) -> set[str]:
    """Those that are not below another that is shown the same way anyway."""
    kept = set()
    for path in read:
        above = {str(one) for one in Path(path).parents}
        if not above & read or above & write:
            kept.add(path)
    return kept


# -- who could use it --------------------------------------------------------------------------


def _open_to_all(path: str) -> bool:
    """Whether somebody who owns nothing here could reach and read it."""
    try:
        for above in Path(path).parents:
            if not above.stat().st_mode & stat.S_IXOTH:
                return False
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    return mode & wanted == wanted


def _writable_to_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IWOTH)  # noqa: PTH116
    except OSError:
        return False
