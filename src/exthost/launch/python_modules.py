"""Finds the file or folder of the module that `python -m` runs, as Python would find it.

The search path is computed from the options, the variables and the files of the interpreter; no
Python is executed. It is, in this order: the working folder, PYTHONPATH, the standard library, the
packages of the user, site-packages, and the folders that `.pth` files name. A module that is not
found there is an error, because an import hook may find it elsewhere. Another Python than CPython
is an error, too.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from exthost.process.small_files import first_words, read_start

# How much of a pyvenv.cfg or .pth file is read. Such files have a few lines.
_SETTINGS_BYTES = 64 * 1024

# Where the packages of Debian's Python are, in place of site-packages.
_DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"

# The files of a module, in the order in which Python tries them. Extension modules come first.
_SOURCE_SUFFIXES = (".py", ".pyc")


class UnknownModule(Exception):
    """It is not known where Python finds a module. The message is the reason."""


class _Found(NamedTuple):
    """The result of the search for a name: a file or a regular package (`path`), or the folders
    that together are a namespace package (`portions`)."""

    path: str = ""
    portions: tuple[str, ...] = ()


def find_module(
    module: str, program: str, options: frozenset[str], cwd: str | None, env: Mapping[str, str]
) -> str:
    """Return the path of a module that Python runs with -m: its file, or the folder of the package
    that contains it. Raises UnknownModule.

    program  the path of the interpreter
    options  the options of the interpreter, such as "-I"
    cwd      the working folder; None for that of the host
    env      the environment variables of the interpreter
    """
    folders = [*_search_path(program, options, cwd or os.getcwd(), env)]  # noqa: PTH109
    parents: Sequence[str] = folders
    names = module.split(".")
    for name in names:
        if not name.isidentifier():
            raise UnknownModule(f"{module!r} is not the name of a module")
        found = _find(name, parents)
        if found.path:
            return found.path
        if not found.portions:
            raise UnknownModule(
                f"the module {module} is not in a folder in which Python looks for modules"
            )
        parents = found.portions
    main = _find("__main__", parents)  # a namespace package that is run as a program
    if not main.path:
        raise UnknownModule(f"the module {module} has no __main__")
    return os.path.dirname(main.path)  # noqa: PTH120


def _find(name: str, folders: Sequence[str]) -> _Found:
    """Search folders for a name; the result is empty if it is in none of them. Raises UnknownModule
    for an archive of modules, which is not read."""
    portions = []
    for folder in folders:
        path = os.path.join(folder, name)  # noqa: PTH118
        if os.path.isdir(path):  # noqa: PTH112
            if any(_module_files(path, "__init__")):
                return _Found(path=path)
            portions.append(path)
        for file in _module_files(folder, name):  # the first one counts
            return _Found(path=file)
        if os.path.isfile(folder):  # noqa: PTH113
            raise UnknownModule(f"{folder}, in which Python looks for modules, is an archive")
    return _Found(portions=tuple(portions))


def _module_files(folder: str, name: str) -> Iterator[str]:
    """Yield the files of a module in a folder: an extension module, its source, its byte code."""
    prefix = os.path.join(folder, name)  # noqa: PTH118
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return
    for file in sorted(names):
        if file.startswith(f"{name}.") and file.endswith(".so"):
            yield os.path.join(folder, file)  # noqa: PTH118
    for suffix in _SOURCE_SUFFIXES:
        if os.path.isfile(prefix + suffix):  # noqa: PTH113
            yield prefix + suffix


# -- the search path -------------------------------------------------------------------------------


class _Installation(NamedTuple):
    """A Python: its virtual environment or "", the prefix of its standard library, the folder of
    libraries below that prefix (`lib` or `lib64`), and its version, such as 3.12."""

    environment: str
    prefix: str
    library_name: str
    version: str

    def libraries(self, prefix: str) -> Iterator[str]:
        """Yield the folders of Python's libraries below a prefix."""
        for name in dict.fromkeys((self.library_name, "lib")):
            yield f"{prefix}/{name}/python{self.version}"


def _search_path(
    program: str, options: frozenset[str], cwd: str, env: Mapping[str, str]
) -> Iterator[str]:
    """Yield the folders in which Python looks for modules, in its order. Raises UnknownModule if
    they are not known."""
    is_isolated = "-I" in options
    variables = {} if is_isolated or "-E" in options else env
    if variables.get("PYTHONHOME") or variables.get("PYTHONPLATLIBDIR"):
        raise UnknownModule("PYTHONHOME or PYTHONPLATLIBDIR changes where Python looks for modules")
    if first_words(program):
        raise UnknownModule(f"{program} is a script: which Python it starts is not known")
    python = _find_installation(program)
    if not is_isolated and "-P" not in options and not variables.get("PYTHONSAFEPATH"):
        yield cwd
    if python_path := variables.get("PYTHONPATH"):
        for folder in python_path.split(os.pathsep):
            yield os.path.join(cwd, folder)  # noqa: PTH118
    library = f"{python.prefix}/{python.library_name}/python{python.version}"
    archive = f"python{python.version.replace('.', '')}.zip"
    yield f"{python.prefix}/{python.library_name}/{archive}"
    yield library
    yield f"{library}/lib-dynload"
    if "-S" in options:
        return
    has_user_site = not (is_isolated or "-s" in options or variables.get("PYTHONNOUSERSITE"))
    user_base = variables.get("PYTHONUSERBASE") or f"{env.get('HOME') or _home()}/.local"
    for site in _site_folders(python, user_base if has_user_site else ""):
        yield site
        yield from _pth_folders(site)


def _home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111


def _find_installation(program: str) -> _Installation:
    """Return the Python that a program is. Raises UnknownModule if its library is not found."""
    # Python looks for the settings beside the name that it was started by, not where a link leads.
    folder = os.path.dirname(os.path.abspath(program))  # noqa: PTH100, PTH120
    environment, settings = "", dict[str, str]()
    for place in (folder, os.path.dirname(folder)):  # noqa: PTH120
        if (found := _read_settings(place)) is not None:
            environment, settings = place, found
            break
    real_path = os.path.realpath(program)
    version = re.fullmatch(r"python(3\.\d+t?)", os.path.basename(real_path))  # noqa: PTH119
    if version is None:
        text = settings.get("version_info") or settings.get("version") or ""
        version = re.match(r"(3\.\d+)", text)
    homes = [settings["home"]] if settings.get("home") else []
    for home in (*homes, os.path.dirname(real_path)):  # noqa: PTH120
        prefix = os.path.dirname(home)  # noqa: PTH120
        for name in ("lib64", "lib"):
            if version and os.path.isfile(f"{prefix}/{name}/python{version[1]}/os.py"):  # noqa: PTH113
                return _Installation(
                    environment=environment, prefix=prefix, library_name=name, version=version[1]
                )
    raise UnknownModule(f"the standard library of {program} was not found")


def _site_folders(python: _Installation, user_base: str) -> Iterator[str]:
    """Yield the folders with installed packages. `user_base` is "" if those of the user are not
    used."""
    uses_system = not python.environment or _includes_system_sites(python.environment)
    if python.environment:
        for library in python.libraries(python.environment):
            yield f"{library}/site-packages"
    if user_base and uses_system:
        yield f"{user_base}/lib/python{python.version}/site-packages"
    if uses_system and python.prefix == "/usr" and os.path.isdir(_DEBIAN_PACKAGES):  # noqa: PTH112
        yield f"/usr/local/lib/python{python.version}/dist-packages"
        yield _DEBIAN_PACKAGES
        yield f"/usr/lib/python{python.version}/dist-packages"
    elif uses_system:
        for library in python.libraries(python.prefix):
            yield f"{library}/site-packages"


def _includes_system_sites(environment: str) -> bool:
    settings = _read_settings(environment) or {}
    return settings.get("include-system-site-packages", "").lower() == "true"


def _read_settings(folder: str) -> dict[str, str] | None:
    """Return the settings in the pyvenv.cfg of a folder; None if it has none."""
    try:
        text = read_start(f"{folder}/pyvenv.cfg", _SETTINGS_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    lines = (line.partition("=") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in lines}


def _pth_folders(site: str) -> Iterator[str]:
    """Yield the folders that the .pth files of a site folder name. A line with `import` is not
    followed: a module that it makes importable is found by no search here."""
    try:
        names = sorted(os.listdir(site))  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if not name.endswith(".pth"):
            continue
        try:
            text = read_start(f"{site}/{name}", _SETTINGS_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        for line in text.splitlines():
            folder = line.rstrip()
            if folder and not folder.startswith(("#", "import ", "import\t")):
                path = os.path.join(site, folder)  # noqa: PTH118
                if os.path.exists(path):  # noqa: PTH110
                    yield path
