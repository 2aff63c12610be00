"""Computes what a start reads as code: for one extension, and for the host itself.

A program is more than one file. `python3` may be a symlink in a virtual environment, whose
`pyvenv.cfg` and `.pth` files decide what is imported; a bare name is looked up in the folders of
PATH; variables such as NODE_PATH name further folders; `npx` and `uv` read settings in the working
folder and above it. A user who can write one of these paths decides what the next start runs.

`CodeReader` lists them as `CodePath`s. It follows symlinks and first lines (`#!`) as the kernel
does, and knows by name what interpreters and package managers read (`known_tools`). It does not
know what a program opens by itself. A path that does not exist is listed, too, if it would be code
as soon as somebody creates it. `protected_paths` compares the result with the folders that an
extension may write.

The module reads the file system and changes nothing. Whatever it cannot read is left out: the
start then fails, or does not read it either.
"""

import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from exthost.launch import known_tools
from exthost.launch.command_code import unwrap_once
from exthost.launch.program_files import code_folders, program_files
from exthost.launch.runtimes import installation
from exthost.process.small_files import first_words, read_start


class Scope(Enum):
    """Which part of a path is code.

    ALL      a file, or everything in a folder
    NAMES    what is looked up in a folder by its name, such as programs in a folder of PATH and
             modules beside a script; an extension may be granted a folder inside it
    FENCE    a folder in which nothing must be added, such as a virtual environment; its parts
             (`bin`, `lib`) are code paths of their own
    UPWARD   this folder and every folder above it, in which a tool looks for its settings
    LINK     a symlink on the way to code
    MISSING  a path that does not exist, and would be code if it did
    """

    ALL = "all"
    NAMES = "names"
    FENCE = "fence"
    UPWARD = "upward"
    LINK = "link"
    MISSING = "missing"


class CodePath(NamedTuple):
    """A path from which a start reads code.

    path        an absolute path; of its folders, none is a symlink
    reason      what the path is for the program, such as "virtual environment"
    fix         the line of the config, or the command, that makes this path unnecessary or safe;
                "" if only moving the code helps
    is_program  whether the path decides which program is executed, and so what its sandbox shows:
                the program, its script and interpreter, and the way to them
    is_secret   whether the host reads the path to get a secret; a digest in the config cannot
                protect such a path
    """

    path: str
    scope: Scope
    reason: str
    fix: str = ""
    is_program: bool = False
    is_secret: bool = False


# The most symlinks in one path, as in the kernel.
_MAX_LINKS = 40

# How many programs are followed, each started by the one before: wrappers, shells, first lines.
_MAX_DEPTH = 12

# How much of a settings file is read: pyvenv.cfg, .pth files and what these import.
_SETTINGS_BYTES = 256 * 1024

# The parts of an installation that contain code.
_PREFIX_PARTS = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg", "conda-meta")

# After one of these options of an interpreter come a module or a text, and then its own arguments.
_TEXT_OPTIONS = frozenset(("-c", "-m", "-e", "-E", "--eval", "-p", "--print", "-jar"))

# Words of a shell that are followed by a command.
_SHELL_PREFIXES = frozenset(
    (
        *("exec", "command", "builtin", "eval", "time", "if", "then", "elif", "else", "do"),
        *("while", "until", "!", "{"),
    )
)
# Words of a shell that are followed by assignments.
_SHELL_DECLARATIONS = frozenset(("export", "declare", "typeset", "readonly", "local"))

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)


class CodeReader:
    """Lists what starts read as code. One object serves many extensions, and remembers the symlinks
    and PATHs that it has seen: use it for one moment, and then drop it."""

    def __init__(self) -> None:
        # The results of `_read_link`, `search_path`, `variable_paths` and `installation_paths`, by
        # what they depend on: many extensions have the same ones.
        self._targets: dict[str, str | OSError | None] = {}
        self._search_paths: dict[tuple[str, str], tuple[CodePath, ...]] = {}
        self._variables: dict[tuple[str, ...], tuple[CodePath, ...]] = {}
        self._installations: dict[tuple[str, ...], tuple[CodePath, ...]] = {}

    def read_extension(
        self,
        argv: Sequence[str],
        cwd: str,
        variables: Mapping[str, str],
        *,
        manifest: str = "",
        package: str = "",
    ) -> list[CodePath]:
        """Return what a start of this command reads as code.

        argv       the program and its arguments; a bare name is looked up on PATH
        variables  the environment variables of the program
        manifest   the path of its manifest, "" for none
        package    the folder of its package, "" for none"""
        command = _Command(self, os.path.abspath(cwd), variables)  # noqa: PTH100
        if manifest:
            command.add(manifest, "manifest", is_program=True)
        if package:
            command.add(package, "package", scope=Scope.NAMES)
        if argv:
            command.add_search_path(is_program="/" not in argv[0])
            command.read(argv, command.cwd)
        command.add_variables()
        return command.paths

    def read_host(
        self, variables: Mapping[str, str], programs: Iterable[str], config: str, audit: str = ""
    ) -> list[CodePath]:
        """Return what a start of this host reads as code. `variables` are its environment
        variables, `programs` the programs that make sandboxes, `config` its config file or "",
        `audit` its audit file or ""."""
        command = _Command(self, _working_folder(), variables)
        # The audit is not code, but the host appends to it: a symlink in its place would make the
        # host write to any file. It need not be listed as missing, since the host creates it before
        # it starts extensions.
        if audit and os.path.lexists(audit):
            command.add(audit, "audit")
        if config:
            command.add(config, "config")
            lock = f"{os.path.dirname(config)}/exthost.lock"  # noqa: PTH120
            if os.path.lexists(lock):
                command.add(lock, "lock of the config")
        command.add_search_path(is_program=False)
        for program in (sys.executable, *programs):
            if program:
                command.add_program(program, "program of the host")
        for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix}:
            command.add_prefix(prefix, "Python of the host", is_python=True)
        for path in sys.path:
            fix = "start the host with python -P, or from another folder"
            command.add(path or ".", "modules of the host", scope=Scope.NAMES, fix=fix)
        for path in sorted(_package_folders()):
            command.add(path, "modules of the host")
        command.add_variables()
        return command.paths

    def read_secret(
        self, place: str | Sequence[str], reason: str, cwd: str, variables: Mapping[str, str]
    ) -> list[CodePath]:
        """Return what the host reads to get a secret: the file, or the code of the command.
        `cwd` and `variables` are those of the command."""
        if isinstance(place, str):
            command = _Command(self, os.path.abspath(cwd), variables)  # noqa: PTH100
            command.add(place, reason, is_program=True)
            return [path._replace(is_secret=True) for path in command.paths]
        return [
            path._replace(reason=f"{path.reason} of {reason}", is_program=True, is_secret=True)
            for path in self.read_extension(place, cwd, variables)
        ]

    def walk(self, path: str) -> tuple[str, list[str], str]:
        """Resolve an absolute path. Return the real path, the symlinks on the way, and the first
        path on the way that does not exist. If none is missing, the third is "", otherwise the real
        path is ""."""
        remaining = [name for name in path.split("/") if name not in ("", ".")]
        remaining.reverse()
        folder, links = "", list[str]()
        while remaining:
            name = remaining.pop()
            if name == "..":
                folder = folder.rpartition("/")[0]
                continue
            current = f"{folder}/{name}"
            target = self._read_link(current)
            if target is None:
                folder = current
                continue
            if isinstance(target, OSError):
                # Below a file there is nothing, but the file could be replaced by a folder. So the
                # file is the path that is missing.
                return "", links, folder if isinstance(target, NotADirectoryError) else current
            if len(links) == _MAX_LINKS:
                return "", links, ""
            links.append(current)
            if target.startswith("/"):
                folder = ""
            remaining += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        return folder or "/", links, ""

    def _read_link(self, path: str) -> str | OSError | None:
        """Return the target of a symlink; None if the path is not a symlink; the error if nothing
        is there."""
        try:
            return self._targets[path]
        except KeyError:
            pass
        target: str | OSError | None
        try:
            target = os.readlink(path)  # noqa: PTH115
        except (FileNotFoundError, NotADirectoryError) as error:
            target = error
        except OSError:  # not a symlink, or not to be read
            target = None
        self._targets[path] = target
        return target

    def installation_paths(
        self, program: str, home: str, variables: Mapping[str, str]
    ) -> tuple[CodePath, ...]:
        """Return the virtual environment, or the installation, that a program belongs to. `home`
        and `variables` are those of the extension."""
        stores = (
            variables.get(name, "")
            for tool in ("uv", "conda")
            for name, _ in known_tools.STORES[tool]
        )
        bases = (variables.get(name, "") for name in known_tools.BASE_FOLDERS)
        key = (program, home, *stores, *bases)
        if key not in self._installations:
            # The entry ends the recursion if an environment names itself as its interpreter.
            self._installations[key] = ()
            found = _Command(self, "/", variables)
            found.read_installations(program)
            self._installations[key] = tuple(found.paths)
        return self._installations[key]

    def search_path(self, value: str, cwd: str) -> tuple[CodePath, ...]:
        """Return the folders of a PATH. An empty entry is the working folder."""
        is_absolute = all(entry.startswith("/") for entry in value.split(os.pathsep))
        key = (value, "" if is_absolute else cwd)
        if key not in self._search_paths:
            found = _Command(self, cwd, {})
            for entry in value.split(os.pathsep):
                fix = f"take {entry or 'the empty entry'} out of PATH"
                found.add(entry or ".", "folder of PATH", scope=Scope.NAMES, fix=fix)
            self._search_paths[key] = tuple(found.paths)
        return self._search_paths[key]

    def variable_paths(self, variables: Mapping[str, str], cwd: str) -> tuple[CodePath, ...]:
        """Return the paths that variables such as PYTHONPATH name."""
        set_names = [name for name in known_tools.ALL_VARIABLES if variables.get(name)]
        programs = [
            name
            for name, value in sorted(variables.items())
            if name not in set_names and value.startswith("/") and _is_executable(value)
        ]
        if not set_names and not programs:
            return ()
        key = (cwd, *(f"{name}={variables[name]}" for name in (*set_names, *programs)))
        if key not in self._variables:
            found = _Command(self, cwd, variables)
            for name in set_names:
                _read_variable(found, name, variables[name])
            for name in programs:
                found.add(variables[name], f"program in the variable {name}")
            self._variables[key] = tuple(found.paths)
        return self._variables[key]


class _Command:
    """Collects the code of one command line. The methods `add…` add paths to the result, and the
    methods `read…` find out what a program, a script or a settings file runs."""

    def __init__(self, reader: CodeReader, cwd: str, variables: Mapping[str, str]) -> None:
        self._reader = reader
        self._variables = variables
        self._found: dict[tuple[str, Scope], CodePath] = {}
        self._visited: set[tuple[str, bool]] = set()  # arguments of `add_prefix`
        self._inner_commands: set[tuple[tuple[str, ...], str]] = set()
        self.cwd = cwd
        self.home = variables.get("HOME") or "/"

    @property
    def paths(self) -> list[CodePath]:
        return list(self._found.values())

    def add(
        self,
        path: str,
        reason: str,
        *,
        scope: Scope = Scope.ALL,
        fix: str = "",
        is_program: bool = False,
        cwd: str = "",
    ) -> str:
        """Add a path, and each symlink on the way to it. Return the real path; "" if there is
        nothing, which is then added as missing."""
        absolute = os.path.join(cwd or self.cwd, path)  # noqa: PTH118
        real, links, missing = self._reader.walk(absolute)
        for link in links:
            link_fix = f"write {real} in place of {absolute}" if real else ""
            self._keep(CodePath(link, Scope.LINK, reason, link_fix, is_program))
        if missing:
            create = f"create it: mkdir -p {shlex.quote(absolute)}"
            missing_fix = f"{create}; or {fix}" if fix else create
            self._keep(CodePath(missing, Scope.MISSING, reason, missing_fix, is_program))
        if real:
            self._keep(CodePath(real, scope, reason, fix, is_program))
        return real

    def _keep(self, code: CodePath) -> None:
        key = (code.path, code.scope)
        known = self._found.get(key)
        if known is None or (code.is_program and not known.is_program):
            self._found[key] = code

    def add_search_path(self, *, is_program: bool) -> None:
        """Add the folders of PATH. `is_program` is whether the program itself is looked up there:
        then a folder of PATH decides which program is executed."""
        for code in self._reader.search_path(self._variables.get("PATH", os.defpath), self.cwd):
            self._keep(code._replace(is_program=is_program))

    def add_variables(self) -> None:
        """Add what the environment variables name."""
        for code in self._reader.variable_paths(self._variables, self.cwd):
            self._keep(code)

    # -- programs --------------------------------------------------------------------------------

    def read(self, argv: Sequence[str], cwd: str, depth: int = 0) -> None:
        """Add what this command line runs."""
        if not argv or depth > _MAX_DEPTH:
            return
        program, arguments = self._find(argv[0], cwd), [*argv[1:]]
        if not program:
            return
        real = self.add_program(program, "interpreter" if depth else "program", cwd=cwd)
        names = self._names(program, real)
        if Path(program).parent.name == "shims":
            # A version manager chooses the program, by settings in the folder or above it.
            self._add_project(cwd)
        if tools := names & known_tools.PROJECT_TOOLS:
            self._read_project_tool(tools, arguments, cwd, depth)
        if names & known_tools.SCRIPT_RUNNERS:
            self._read_script_runner(arguments, cwd)
        for name in names & known_tools.SETTINGS.keys():
            for file in known_tools.SETTINGS[name]:
                self.add(file, f"settings of {name}", cwd=cwd, fix='set another folder: cwd = "/"')
        if inner := unwrap_once(argv, cwd, self._variables):  # env, timeout, nice and the like
            self._read_inner(inner.argv, inner.cwd or cwd, inner.env, depth + 1)
            return
        if real and (first_line := first_words(real)):
            self._read_inner((*first_line, program, *arguments), cwd, self._variables, depth + 1)
            return
        kinds = {_kind(name) for name in names}
        if kinds & known_tools.SHELLS:
            self._read_shell(arguments, cwd, depth)
        elif kind := next(iter(sorted(kinds & known_tools.INTERPRETERS)), ""):
            self._read_interpreter(kind, arguments, cwd)
        elif kinds & known_tools.CWD_IMPORTERS:
            self._read_interpreter("lua", arguments, cwd)
        else:
            self._add_scripts(arguments, cwd)
            self._read_wrapped(arguments, cwd, depth)

    def _read_inner(
        self, argv: Sequence[str], cwd: str, variables: Mapping[str, str], depth: int
    ) -> None:
        """Add what a command inside another command runs. It may have other variables."""
        # The same inner command can be found in several ways.
        if not argv or (key := (tuple(argv), cwd)) in self._inner_commands:
            return
        self._inner_commands.add(key)
        if dict(variables) == dict(self._variables):
            self.read(argv, cwd, depth)
            return
        inner = _Command(self._reader, cwd, variables)
        inner.add_search_path(is_program="/" not in argv[0])
        inner.read(argv, cwd, depth)
        inner.add_variables()
        for code in inner.paths:
            self._keep(code)

    def _find(self, program: str, cwd: str) -> str:
        """Return the absolute path of a program; "" if it is not found on PATH."""
        if "/" in program:
            return os.path.join(cwd, program)  # noqa: PTH118
        for folder in self._variables.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(cwd, folder, program)  # noqa: PTH118
            if _is_executable(path):
                return path
        return ""

    def _names(self, program: str, real: str) -> set[str]:
        """Return the file names of a program: its own, and those of the symlinks and the file that
        it leads to."""
        _, links, _ = self._reader.walk(program)
        return {os.path.basename(path) for path in (program, *links, real)}  # noqa: PTH119

    def add_program(self, program: str, reason: str, *, cwd: str = "") -> str:
        """Add an executable, and the environment or installation that it belongs to. Return its
        real path."""
        real = self.add(program, reason, is_program=True, cwd=cwd)
        for code in self._reader.installation_paths(program, self.home, self._variables):
            self._keep(code)
        return real

    def read_installations(self, program: str) -> None:
        """Add the environments and installations that a program belongs to."""
        real, links, _ = self._reader.walk(program)
        for place in dict.fromkeys((program, *links, real)):
            folder = os.path.dirname(place)  # noqa: PTH120
            is_python = _kind(place) in known_tools.PYTHONS
            if is_python:  # it reads settings beside itself, and in the folder above
                self.add(folder, "folder of the interpreter", scope=Scope.NAMES, is_program=True)
            if is_python or os.path.basename(folder) == "bin":  # noqa: PTH119
                prefix = os.path.dirname(folder)  # noqa: PTH120
                self.add_prefix(prefix, "installation", is_python=is_python)

    def add_prefix(self, prefix: str, reason: str, *, is_python: bool) -> None:
        """Add a virtual environment, or the installation of an interpreter or a program."""
        real, _, _ = self._reader.walk(prefix)
        if not real or (real, is_python) in self._visited:
            return
        self._visited.add((real, is_python))
        settings = Path(real, "pyvenv.cfg")
        is_environment = settings.is_file()
        is_conda = Path(real, "conda-meta").is_dir()
        if is_environment:
            reason = "virtual environment"
        elif is_conda:
            reason = "conda environment"
        elif not installation(f"{real}/bin/program", self.home):
            # It is not the folder of a single installation: it has other files, as /usr has.
            if is_python:
                self._keep_missing_settings(real)
                self._read_site_packages(real)
            return
        if is_environment or is_conda or is_python:
            self.add(real, reason, scope=Scope.FENCE, is_program=is_python)
        if is_python and not is_environment:
            self._keep_missing_settings(real)
        for part in _PREFIX_PARTS:
            if os.path.lexists(f"{real}/{part}"):
                self.add(f"{real}/{part}", reason, is_program=is_python)
        if is_environment:
            self._read_environment(settings)
        if is_conda:
            self._add_store("conda")
            self._add_conda_packages(Path(real))
        if is_environment or is_conda or is_python:
            self._read_site_packages(real)

    def _keep_missing_settings(self, prefix: str) -> None:
        """Add the settings that would make a virtual environment of the folder of a Python."""
        path = f"{prefix.rstrip('/')}/pyvenv.cfg"
        self._keep(CodePath(path, Scope.MISSING, "virtual environment", is_program=True))

    def _read_environment(self, settings: Path) -> None:
        """Add what the settings of a virtual environment name: the interpreter that it was made
        for, and the cache of uv, whose files are hard links to those of the environment."""
        for line in _read_lines(settings):
            key, _, value = (part.strip() for part in line.partition("="))
            if key == "home":
                for name in ("python3", "python"):
                    if os.path.lexists(f"{value}/{name}"):
                        self.add_program(f"{value}/{name}", "interpreter")
            elif key == "uv":
                self._add_store("uv")

    def _add_conda_packages(self, prefix: Path) -> None:
        """Add the packages of a conda installation: the files of its environments are hard links to
        theirs."""
        for root in (prefix, prefix.parent.parent):
            if (root / "pkgs").is_dir():
                self.add(str(root / "pkgs"), "store of conda")

    def _read_site_packages(self, prefix: str) -> None:
        """Add the folders that .pth files name, and those that the modules imported by .pth files
        name. Editable installs have such files."""
        user_base = f"{self.home}/.local"
        fix = "grant folders inside of it"
        self.add(f"{user_base}/lib", "user packages of Python", scope=Scope.NAMES, fix=fix)
        for packages in _site_packages(user_base):
            self.add(str(packages), "user packages of Python")
        prefixes = (prefix, user_base, *(("/usr/local",) if prefix == "/usr" else ()))
        for packages in [path for root in prefixes for path in _site_packages(root)]:
            for pth_file in sorted(packages.glob("*.pth")):
                for line in _read_lines(pth_file):
                    if match := re.match(r"import[ \t]+([A-Za-z_][\w]*)", line):
                        self._read_finder(packages / f"{match[1]}.py")
                        self._add_quoted(line, "pth file")
                    elif line.strip() and not line.startswith(("#", "import")):
                        self._add_import(line.strip(), "pth file", cwd=str(packages))

    def _read_finder(self, module: Path) -> None:
        """Add the folders that a module names, if an editable install has written the module."""
        if "editable" in module.name:
            self._add_quoted("\n".join(_read_lines(module)), "editable install")

    def _add_quoted(self, text: str, reason: str) -> None:
        """Add the absolute paths that are strings in a text of Python."""
        for path in re.findall(r"""['"](/[^'"\n]+)['"]""", text):
            self._add_import(path, reason)

    def _add_import(self, path: str, reason: str, *, cwd: str = "") -> None:
        """Add a folder from which Python imports, also if it does not exist yet."""
        self.add(path, reason, scope=Scope.NAMES, cwd=cwd)

    # -- what a program runs -----------------------------------------------------------------------

    def _read_interpreter(self, kind: str, arguments: list[str], cwd: str) -> None:
        """Add the script of an interpreter, the folders that it imports from, and what its options
        name."""
        argv = (kind, *arguments)
        script = _find_script(argv, cwd)
        target = self._find_target(kind, arguments, cwd) if not script else ""
        options = self._options(arguments, script or target, cwd)
        for option in options:
            self._add_words(option, cwd, "option of the interpreter")
        if script:
            self.add(script, "script", is_program=True)
        if target:
            self.add(target, "script", is_program=True)
        is_isolated = kind in known_tools.PYTHONS and self._variables.get("PYTHONSAFEPATH")
        # Java imports from its class path, not from the folder of a script.
        if not is_isolated and not target and (script or kind != "java"):
            for folder in code_folders(argv, cwd):
                self._add_import_folder(kind, arguments, folder, script, cwd)
        has_class_path = "CLASSPATH" in self._variables or any(
            word.startswith(("-cp", "-classpath", "--class-path")) for word in options
        )
        if kind == "lua" or (kind == "java" and not script and not has_class_path):
            fix = 'set another working folder: cwd = "/"'
            self.add(cwd, "working folder, from which it imports", scope=Scope.NAMES, fix=fix)
        if kind in known_tools.NODES:
            # Without a script, Node looks for packages as a script in the working folder would.
            self._add_node_packages(script or target or f"{cwd}/-", bool(script or target))

    def _add_scripts(self, arguments: list[str], cwd: str) -> None:
        """Add the arguments of an unknown program that have the name of a script and exist: the
        program may be their interpreter."""
        for argument in arguments:
            for path in _path_words(argument):
                suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122
                if suffix in known_tools.SCRIPT_SUFFIXES:
                    full = os.path.join(cwd, path)  # noqa: PTH118
                    if os.path.lexists(full) and not os.path.isdir(full):  # noqa: PTH112
                        self.add(path, "script", is_program=True, cwd=cwd)

    def _add_import_folder(
        self, kind: str, arguments: list[str], folder: str, script: str, cwd: str
    ) -> None:
        """Add a folder from which an interpreter imports: that of its script, or without a script
        the working folder."""
        reason = "folder of its script"
        fix = "move it into a folder of its own"
        if not script:
            reason = "working folder, from which it imports"
            fix = 'cwd = "/"'
            if kind in known_tools.PYTHONS:
                words = ", ".join(f'"{word}"' for word in ("-P", *arguments[:2]))
                fix = f"args = [{words}, …], which does not import from there; or {fix}"
        self.add(folder, reason, scope=Scope.NAMES, fix=fix, cwd=cwd)

    def _find_target(self, kind: str, arguments: list[str], cwd: str) -> str:
        """Return the folder, or the file without its suffix, that Python or Node runs as a script;
        "" if there is none."""
        word = next((word for word in arguments if not word.startswith("-")), "")
        if not word or not _TEXT_OPTIONS.isdisjoint(arguments[: arguments.index(word)]):
            return ""
        path = os.path.join(cwd, word)  # noqa: PTH118
        if kind in known_tools.PYTHONS | known_tools.NODES and os.path.isdir(path):  # noqa: PTH112
            return path
        is_module = kind in known_tools.NODES and os.path.isfile(f"{path}.js")  # noqa: PTH113
        return f"{path}.js" if is_module else ""

    def _options(self, arguments: list[str], script: str, cwd: str) -> list[str]:
        """Return the arguments that are for the interpreter and not for the program that it runs:
        those before the script, the module or the main class."""
        options: list[str] = []
        previous = ""
        for word in arguments:
            is_script = script and os.path.join(cwd, word) == script  # noqa: PTH118
            is_value = previous.startswith("-")
            if is_script or word in _TEXT_OPTIONS or not (word.startswith("-") or is_value):
                break
            options.append(word)
            previous = word
        return options

    def _read_shell(self, arguments: list[str], cwd: str, depth: int) -> None:
        """Add the script of a shell, or the programs in the text after -c."""
        is_text = False
        words = iter(arguments)
        for word in words:
            if re.fullmatch(r"[-+][A-Za-z]+", word):
                is_text = is_text or (word[0] == "-" and "c" in word)
                if word[-1] in "oO":  # the name of an option follows, as in -euo pipefail
                    next(words, "")
            elif word in ("--rcfile", "--init-file"):
                self._add_words(next(words, ""), cwd, "script")
            elif not word.startswith(("-", "+")):
                if is_text:
                    self._read_shell_text(word, cwd, depth)
                elif os.path.lexists(os.path.join(cwd, word)):  # noqa: PTH118
                    self.add(word, "script", is_program=True, cwd=cwd)
                return

    def _read_shell_text(self, text: str, cwd: str, depth: int) -> None:
        """Add the programs in a text that a shell runs. The text is not run: substitutions other
        than those of variables are not known."""
        variables = dict(self._variables)
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quote without its end
            words = text.split()
        command: list[str] = []
        for word in (*words, ";"):
            # A word that consists of operators, such as && or |, ends a command.
            if not set(word) <= set(";&|()<>\n"):
                command.append(_expand(word, variables))
                continue
            while command and (command[0] in _SHELL_PREFIXES or _assign(command[0], variables)):
                del command[0]
            if command[:1] in (["cd"], ["pushd"]) and len(command) > 1:
                cwd = os.path.join(cwd, command[-1])  # noqa: PTH118
            elif command and command[0] in _SHELL_DECLARATIONS:
                for declared in command[1:]:
                    _assign(declared, variables)
            elif command[:1] in (["."], ["source"]) and len(command) > 1:
                self.add(command[1], "script", is_program=True, cwd=cwd)
            else:
                self._read_inner(command, cwd, variables, depth + 1)
            command = []

    def _read_wrapped(self, arguments: list[str], cwd: str, depth: int) -> None:
        """Add the first argument that is a program, as in `timeout 60 python3 run.py`: many
        programs run another program."""
        words = list[str]()
        for previous, word in zip(("", *arguments), arguments, strict=False):
            # The value of the option -S of env is a whole command line.
            words += _split(word) if previous in ("-S", "--split-string") else [word]
        variables = dict(self._variables)
        for position, word in enumerate(words):
            is_argument = word.startswith("-") or _assign(word, variables)
            if not is_argument and _is_executable(self._find(word, cwd)):
                self._read_inner(words[position:], cwd, variables, depth + 1)
                return

    def _read_script_runner(self, arguments: list[str], cwd: str) -> None:
        """Add the file that a tool such as fastmcp runs, or the settings in its working folder. A
        name of an object can follow the file, as in `run.py:app`."""
        for word in arguments:
            for name in (word, word.rpartition(":")[0]):
                path = os.path.join(cwd, name)  # noqa: PTH118
                if name and os.path.isfile(path):  # noqa: PTH113
                    folder = os.path.dirname(self.add(path, "script", is_program=True))  # noqa: PTH120
                    fix = "move it into a folder of its own"
                    self.add(folder, "folder of its script", scope=Scope.NAMES, fix=fix)
                    return
        self._add_project(cwd)

    def _read_project_tool(
        self, tools: set[str], arguments: list[str], cwd: str, depth: int
    ) -> None:
        """Add the settings and the stores of tools such as npx and uv."""
        self._add_project(cwd)
        for tool in sorted(tools):
            self._add_store(known_tools.STORE_NAMES.get(tool, tool))
        previous = ""
        for argument in arguments:
            for path in _path_words(argument):
                full = os.path.join(cwd, path)  # noqa: PTH118
                if os.path.isdir(full):  # noqa: PTH112
                    self._add_project(full)
                elif os.path.isfile(full):  # noqa: PTH113
                    self._add_project(os.path.dirname(full))  # noqa: PTH120
            # Arguments after the package or the script are for the program, as in `npx server
            # /data`.
            is_option = argument.startswith("-") or previous.startswith("-")
            if not is_option and argument not in known_tools.SUBCOMMANDS:
                break
            previous = "" if argument in known_tools.FLAGS else argument
        self._read_wrapped(arguments, cwd, depth)

    def _add_project(self, folder: str) -> None:
        fix = 'set another working folder: cwd = "/"; or name the program itself as the command'
        self.add(folder, "settings of its tool", scope=Scope.UPWARD, fix=fix)

    def _add_store(self, tool: str) -> None:
        for variable, folder in known_tools.STORES.get(tool, ()):
            default = f"{self.home}/{folder}"
            for name, base in known_tools.BASE_FOLDERS.items():
                if folder.startswith(base) and (value := self._variables.get(name)):
                    default = f"{value}/{folder.removeprefix(base)}"
            path = self._variables.get(variable) or default
            fix = f'give it a store of its own: env = {{ {variable} = "…" }}'
            self.add(path, f"store of {tool}", fix=fix)

    def _add_node_packages(self, script: str, has_script: bool) -> None:
        """Add each node_modules folder in which Node looks for the packages of a script, and the
        package.json that describes the script: the first one above it, up to a node_modules folder.
        Everything beside a package.json is code of the script."""
        real = self._reader.walk(script)[0] or script
        is_description_found = False
        for above in Path(real).parents:
            folder = str(above)
            if above.name != "node_modules" and self.add(f"{folder}/node_modules", "node packages"):
                self._add_pnpm_store(Path(folder, "node_modules", ".modules.yaml"))
            package = f"{folder}/package.json"
            if is_description_found or above.name == "node_modules":
                is_description_found = True
            elif os.path.lexists(package):
                is_description_found = True
                self.add(package, "package.json")
                if has_script:
                    fix = "give it a folder and a package.json of its own"
                    self.add(folder, "package of its script", scope=Scope.NAMES, fix=fix)
            else:
                # Node would read a package.json here before one in a folder above.
                fix = f"create it: echo '{{}}' > {shlex.quote(package)}"
                self._keep(CodePath(package, Scope.MISSING, "package.json", fix))

    def _add_pnpm_store(self, settings: Path) -> None:
        """Add the store from which pnpm has installed packages: their files are hard links to those
        of the store."""
        for line in _read_lines(settings):
            if match := re.search(r"""storeDir["']?: *["']?([^"'\n,]+)""", line):
                self.add(match[1].strip(), "store of pnpm", cwd="/")

    def _add_words(self, text: str, cwd: str, reason: str) -> None:
        """Add the paths in an option, such as --require=./hook.js or -cp lib/a.jar:lib/b.jar."""
        for path in _path_words(text):
            if os.path.lexists(os.path.join(cwd, path)) or path.startswith(("/", "./")):  # noqa: PTH118
                self.add(path, reason, scope=Scope.NAMES, cwd=cwd)

    def add_options(self, text: str, reason: str) -> None:
        """Add the paths in the value of a variable with options."""
        for word in _split(text):
            self._add_words(word, self.cwd, reason)


def _read_variable(command: _Command, name: str, value: str) -> None:
    """Add the paths that an environment variable names."""
    reason = f"variable {name}"
    fix = f"set {name} to another folder, or to none"
    if name in known_tools.OPTION_VARIABLES:
        command.add_options(value, reason)
    elif name in known_tools.PATTERN_VARIABLES:
        for pattern in value.split(";"):
            if pattern:
                folder = pattern.partition("?")[0] or "."
                command.add(folder, reason, scope=Scope.NAMES, fix=fix)
    elif name in known_tools.ENVIRONMENT_VARIABLES:
        command.add_prefix(value, reason, is_python=True)
    elif name == "BUNDLE_GEMFILE":
        folder = os.path.dirname(value) or "."  # noqa: PTH120
        command.add(folder, reason, scope=Scope.NAMES, fix=fix)
    elif name == "HOME":
        command.add(value, "home folder", scope=Scope.NAMES, fix="grant folders inside of it")
    else:
        scope = Scope.ALL if name in known_tools.TREE_VARIABLES else Scope.NAMES
        for path in re.split("[: ]" if name in ("LD_PRELOAD", "MAKEFILES") else ":", value):
            if path.strip() and ("/" in path or name in known_tools.RELATIVE_VARIABLES):
                command.add(path.strip().removesuffix("/*"), reason, scope=scope, fix=fix)


def _path_words(text: str) -> Iterator[str]:
    """Yield the parts of an argument that may be paths."""
    for part in re.split("[=:;,]", text):
        part = part.removesuffix("/*")
        if part.startswith("-"):
            part = part[2:]  # as in -I/srv/lib
        if part.startswith("@"):
            part = part[1:]  # a file with further arguments
        if part and part != ".":
            yield part


def _kind(program: str) -> str:
    """Return the name of a program without its version: python for /usr/bin/python3.12."""
    return re.sub(r"[-0-9.]+$", "", os.path.basename(program))  # noqa: PTH119


def _assign(word: str, variables: dict[str, str]) -> bool:
    """Set the variable that a word such as `A=b` assigns. Return whether it is such a word."""
    match = _ASSIGNMENT.fullmatch(word)
    if match is None:
        return False
    name, plus, value = match.groups()
    variables[name] = variables.get(name, "") + value if plus else value
    return True


def _expand(word: str, variables: Mapping[str, str]) -> str:
    """Return a word of a shell with the values of variables and the home folder in it."""
    if word == "~" or word.startswith("~/"):
        word = variables.get("HOME", "") + word[1:]
    return re.sub(
        r"\$(?:\{(\w+)\}|(\w+))", lambda match: variables.get(match[1] or match[2], ""), word
    )


def _split(text: str) -> list[str]:
    """Return the words of a text as a shell splits it, or at spaces if a quote has no end."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _read_lines(path: Path) -> list[str]:
    try:
        return read_start(str(path), _SETTINGS_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _site_packages(prefix: str) -> list[Path]:
    """Return the folders of packages of an installation of Python. Debian calls them
    dist-packages."""
    return sorted(Path(prefix).glob("lib*/python3*/*-packages"))


def _find_script(argv: Sequence[str], cwd: str) -> str:
    """Return the script of an interpreter; "" if it has none. A file after an option, as in
    `node --require hook.js server.js`, is taken for the option's value."""
    files = program_files(argv, cwd)[1:]
    for previous, word in pairwise(argv):
        path = os.path.join(cwd, word)  # noqa: PTH118
        if path in files and not previous.startswith("-"):
            return path
    return files[-1] if files else ""


def _is_executable(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return "/"


def _package_folders() -> set[str]:
    """Return the folders and files of the modules that this process has imported from outside the
    folders of `sys.path`, as an editable install has them."""
    known = tuple(f"{os.path.abspath(path)}/" for path in sys.path)  # noqa: PTH100
    outside = set[str]()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or not isinstance(file, str) or not file.startswith("/"):
            continue
        if not file.startswith(known):
            is_package = os.path.basename(file).startswith("__init__.")  # noqa: PTH119
            outside.add(os.path.dirname(file) if is_package else file)  # noqa: PTH120
    return outside
