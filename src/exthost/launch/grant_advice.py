"""Suggests which path to grant to a sandboxed program, from what it reports that it cannot read or
write.

A program may print any path, so what it prints must not decide what a person is advised to grant.
Never suggested are home folders, roots of file systems and other folders with files of many
programs, files that look like secrets, and write access to code that others run.

The module reads the file system, and knows which paths a sandbox shows from its `Wrapper`.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from exthost.launch.runtimes import installation
from exthost.launch.sandbox import strict
from exthost.launch.visible_paths import SYSTEM_FOLDERS, PathCollection, is_below, is_too_wide
from exthost.model.launch_plan import Wrapper

# An absolute path in an error message of a program. Two slashes begin the host in a URL. No path
# has a NUL or half of a surrogate pair.
_PATH = re.compile(r"""(?<![\w.:/])/(?!/)[^\s:'"`,;()\[\]<>\0\ud800-\udfff]+""")

# Messages about a file that cannot be written, of Linux, Python, Node, Ruby, Go and SQLite.
_READ_ONLY = re.compile(r"read-only file ?system|EROFS|readonly database", re.IGNORECASE)
_DENIED = re.compile(r"permission denied|EACCES", re.IGNORECASE)

# Hidden folders, relative to where they are, in which managers and tools keep programs and models,
# but no secrets.
_HARMLESS_FOLDERS = tuple(
    tuple(path.split("/"))
    for path in (
        *(".venv", ".bin", ".pnpm", ".pyenv/shims", ".pyenv/versions", ".nvm/versions"),
        *(".rbenv/shims", ".rbenv/versions", ".nodenv/versions", ".asdf/shims", ".asdf/installs"),
        *(".volta/bin", ".volta/tools", ".sdkman/candidates", ".cargo/bin", ".rustup/toolchains"),
        *(".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools"),
        *(".local/share/pipx/venvs", ".local/share/pnpm/global", ".local/share/fnm"),
        *(".local/share/mise/installs", ".cache/ms-playwright", ".cache/puppeteer"),
        *(".cache/huggingface", ".cache/torch"),
    )
)

# Names of files and folders with secrets: words in them, and endings.
_SECRET_NAME = re.compile(
    r"passw|passphrase|credential|keyring|keychain|kwallet|htdigest|htpasswd|kerberos"
    r"|(?:^|[^a-z])(?:secrets?|tokens?|private|vault|wallets?|cookies?|g?shadow|netrc|pgpass"
    r"|ssh|gnupg|gpg|pki|logins?(?: data)?|sudoers)(?:[^a-z]|$)"
    r"|^(?:id_(?:rsa|dsa|ecdsa|ed25519).*|key[34]\.db|auth\.json)$|\.env(?:\.|$)"
    # Folders of applications, such as profiles of browsers, that are not hidden.
    r"|^(?:snap|Application Support|mozilla|thunderbird|google-chrome)$"
    r"|\.(?:pem|key|p12|pfx|p8|jks|keystore|kdbx?|gpg|pgp|asc|ppk|ovpn|keytab|agebox|age)$",
    re.IGNORECASE,
)

# Folders with code that other programs run, wherever they are.
_CODE_FOLDERS = frozenset({"node_modules", "site-packages", "dist-packages", ".git", "bin"})


def suggest_grant(wrapper: Wrapper | None, stderr: Iterable[str]) -> str:
    """Look on stderr for an error about a path that the sandbox hides or makes read-only. Return
    the permission that would help; "" if there is no such error."""
    if wrapper is None or not wrapper.is_strict:
        return ""
    lines = [*stderr]
    last_resort = ""  # the advice if no line gives a better one
    # Each line is paired with the one before it, since a message may span two lines. A warning is
    # seldom why the program failed, so warnings come last.
    for line, previous in sorted(zip(lines, ["", *lines], strict=False), key=_is_warning):
        is_read_only = _READ_ONLY.search(f"{previous} {line}") is not None
        paths = [os.path.normpath(str(match)) for match in _PATH.findall(line)]
        for path in paths:
            if path.startswith(("/proc/", "/dev/", "/sys/")) or is_private(path):
                continue
            if os.path.lexists(path) and not _can_see(wrapper, path):  # the sandbox hides it
                if not is_wide(path):
                    return _suggest_reading(path)
                last_resort = last_resort or (
                    f"its sandbox hides {path}, which is more than one program should see: name "
                    "the folder in it that it needs in permissions.filesystem"
                )
                continue
            # The sandbox shows the path, but the program could not write it.
            protected = next((p for p in wrapper.protected if is_below(path, p)), "")
            if is_read_only and protected:
                return f"{protected} is read-only for it, because it is code: see exthost inspect"
            is_denied = is_read_only or (_DENIED.search(line) and _is_public_file(path))
            if is_denied and (advice := _suggest_writing(path)):
                return advice
        # Without an absolute path in the message, a file in the working folder is probably meant.
        folder = strict.working_folder(wrapper)
        if is_read_only and not paths and folder and _can_see(wrapper, folder):
            last_resort = last_resort or _suggest_writing(folder)
    return last_resort


def suggest_folder_of_module(wrapper: Wrapper, argv: Sequence[str], module: str) -> str:
    """Return how to show a sandboxed script a module that lies beside it, or among the packages of
    the user; "" if the module is not there, or is visible. `module` is a name, or an absolute path
    without a suffix."""
    cwd = strict.working_folder(wrapper)
    scripts = (os.path.realpath(os.path.join(cwd, argument)) for argument in argv)  # noqa: PTH118
    folders = [str(Path(script).parent) for script in scripts if os.path.isfile(script)]  # noqa: PTH113
    name = module
    if module.startswith("/"):
        folders = [str(Path(module).parent)]
        name = Path(module).name
    for folder in folders:
        for path in _module_files(folder, name):
            if _can_see(wrapper, path) or is_private(path):
                continue
            if is_wide(folder):
                return f'its sandbox hides {path}: add "{path}" to permissions.filesystem'
            return (
                f"its sandbox shows the script without its folder, and hides {path}: set cwd = "
                f'"{folder}", or add "{folder}" to permissions.filesystem'
            )
    home = Path(os.path.expanduser("~"))  # noqa: PTH111
    for folder in map(str, home.glob(".local/lib/python3*/site-packages")):
        if any(not _can_see(wrapper, path) for path in _module_files(folder, module)):
            return _suggest_reading(str(Path(folder).parent))
    return ""


def _module_files(folder: str, module: str) -> Iterator[str]:
    """Yield the files in a folder from which an interpreter may load a module."""
    name = module.removeprefix("./")
    if not re.fullmatch(r"[\w@./-]+", name) or ".." in name:
        return
    for stem in dict.fromkeys((name, name.partition(".")[0])):
        for suffix in ("", ".py", ".rb", ".js", ".mjs", ".cjs", ".ts", ".json", ".pm"):
            path = f"{folder}/{stem}{suffix}"
            if stem and os.path.exists(path):  # noqa: PTH110
                yield path
    if os.path.isdir(f"{folder}/node_modules/{name}"):  # noqa: PTH112
        yield f"{folder}/node_modules/{name}"


def _suggest_reading(path: str) -> str:
    needed = installation(path, os.path.expanduser("~"))  # noqa: PTH111
    if not needed or is_wide(needed) or is_private(needed):
        needed = path
    return f'its sandbox hides {path}: add "{needed}" to permissions.filesystem'


def _suggest_writing(path: str) -> str:
    """Return how to let the program write a path; "" if that must not be suggested."""
    folder = path
    while not os.path.isdir(folder):  # noqa: PTH112
        folder = str(Path(folder).parent)
    if find_write_risk(folder) or is_wide(folder) or is_private(folder):
        return ""
    return f'it may only read {folder}: add "{folder}:rw" to permissions.filesystem'


def find_write_risk(folder: str) -> str:
    """Return why write access to a folder must not be suggested: it is hidden, belongs to the
    system, or has code that others run. Return "" if it may be suggested."""
    if any(name.startswith(".") for name in Path(folder).parts):
        return "a hidden folder"
    if any(is_below(os.path.realpath(folder), system) for system in SYSTEM_FOLDERS):
        return "a folder of the system"
    has_code = _CODE_FOLDERS & set(Path(folder).parts)
    if has_code or os.path.exists(f"{folder}/pyvenv.cfg"):  # noqa: PTH110
        return "a folder with code that others run"
    return ""


def _can_see(wrapper: Wrapper, path: str) -> bool:
    """Return whether a path is visible in the sandbox, through the symlinks that lead to it."""
    real_path, links = PathCollection().walk(path)
    return all(strict.can_see(wrapper, place) for place in (*links, real_path or path))


def is_wide(path: str) -> bool:
    """Return whether a path contains files of many programs, or of many people: a home folder, the
    root of a file system, /var/lib, ~/.cache."""
    if is_too_wide(path, os.path.expanduser("~")):  # noqa: PTH111
        return True
    if not os.path.isdir(path):  # noqa: PTH112
        return False
    parts = Path(os.path.realpath(path)).parts
    is_of_system = len(parts) == 3 and parts[1] in ("var", "etc")
    is_of_user = parts[-1] in (".cache", ".config", ".local") or parts[-2:] == (".local", "share")
    return is_of_system or is_of_user or os.path.ismount(path)


def is_private(path: str) -> bool:
    """Return whether a path may contain secrets: whether its name, or that of a folder above,
    says so, whether it is or lies in a hidden folder that is not known to be harmless, or is a file
    that only its owner can read. If the file does not exist, its folder is checked, too."""
    for real_path in dict.fromkeys((path, os.path.realpath(path))):
        if has_secret_name(real_path) or hidden_folder(real_path):
            return True
    try:
        status = os.stat(path if os.path.lexists(path) else Path(path).parent)  # noqa: PTH116
    except OSError:  # the folder does not exist either
        return False
    return stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077


def has_secret_name(path: str) -> bool:
    """Return whether the name of a path, or of a folder above, is that of a secret."""
    return any(map(_SECRET_NAME.search, Path(path).parts))


def hidden_folder(path: str) -> str:
    """Return the outermost hidden folder or file in a path that is not known to be harmless; "" if
    there is none."""
    parts = Path(path).parts
    for index, name in enumerate(parts):
        if name.startswith("."):
            return "" if _is_harmless(parts[index:]) else str(Path(*parts[: index + 1]))
    return ""


def _is_harmless(parts: Sequence[str]) -> bool:
    return any(tuple(parts[: len(folder)]) == folder for folder in _HARMLESS_FOLDERS)


def _is_public_file(path: str) -> bool:
    """Return whether every user can read a file, so that only writing it can be denied."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & stat.S_IROTH)


def _is_warning(lines: tuple[str, str]) -> bool:
    return lines[0].lower().startswith("warn")
