"""The programs whose arguments name the code that runs, as data: wrappers, interpreters, runners.

`command_code` reads these tables. A wrapper (`timeout 60 COMMAND`) executes another command. An
interpreter (`python3 run.py`) reads code. A runner (`npx`, `docker run`) finds or fetches the code
itself. An option that is not in the table of its program makes the code unknown, because it may
take the next argument as its value. The module does no I/O.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSyntax:
    """The options of a program.

    flags     options without a value; "--name" also stands for "--name=value"
    values    options with a value, in the same argument or in the next one
    last      options after which every argument belongs to the code
    prefixes  beginnings of options without a value, such as "-D" of java
    joined    whether the letters of short options can share an argument, as in "-Bm"
    """

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWrapper:
    """A program that executes the command in its arguments.

    operands  how many arguments are before the command, such as the duration of timeout
    operand   what such an argument looks like, as a regular expression
    numbers   whether an option can be a number, as in `nice -5`
    chdir     options whose value is the working folder of the command
    text      options that make the program execute something else than the arguments
    """

    options: OptionSyntax
    operands: int = 0
    operand: str = ".+"
    numbers: bool = False
    chdir: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A program that runs code from a file, a folder, a module or a text.

    text       options that make it run a text among its arguments, or its stdin
    module     options whose value is a module
    preload    options that run further code before the script
    watch      options that run a file again when it changes
    chdir      options whose value is the working folder
    script     options whose value is the script
    variables  environment variables with further options
    sourced    environment variables that name a file, which runs before the script
    settings   files in the working folder that can make it run further code
    commands   subcommands that can be before the script; then a script has a dot or a slash
    suffixes   what it appends to the name of a script that does not exist
    folders    whether the script can be a folder
    """

    options: OptionSyntax
    text: frozenset[str] = frozenset()
    module: frozenset[str] = frozenset()
    preload: frozenset[str] = frozenset()
    watch: frozenset[str] = frozenset()
    chdir: frozenset[str] = frozenset()
    script: frozenset[str] = frozenset()
    variables: tuple[str, ...] = ()
    sourced: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    commands: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    folders: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _letters(letters: str) -> frozenset[str]:
    return frozenset(f"-{letter}" for letter in letters)


def program_name(program: str) -> str:
    """Return the name of a program without its version: python for /usr/bin/python3.12."""
    name = re.sub(r"[-0-9.]+t?$", "", PurePath(program).name)
    return _OTHER_NAMES.get(name, name)


_OTHER_NAMES = {
    "nodejs": "node",
    "python-dbg": "python",
    "pythonw": "python",
    "gtimeout": "timeout",  # GNU's programs on macOS
    "gnice": "nice",
    "gstdbuf": "stdbuf",
    "genv": "env",
    "luajit": "lua",
    "rbash": "bash",
    "ash": "sh",
    "mksh": "ksh",
}

WRAPPERS: Mapping[str, CommandWrapper] = {
    # The variables among the arguments of env, and -i, -u and -S, are read by `command_code`.
    "env": CommandWrapper(
        options=OptionSyntax(
            flags=_letters("i0v")
            | _words(
                "- --ignore-environment --null --debug --block-signal --default-signal "
                "--ignore-signal --list-signal-handling"
            ),
            values=_letters("uCSa") | _words("--unset --chdir --split-string --argv0"),
        ),
        chdir=_words("-C --chdir"),
    ),
    "timeout": CommandWrapper(
        options=OptionSyntax(
            flags=_letters("fpv") | _words("--foreground --preserve-status --verbose"),
            values=_letters("ks") | _words("--kill-after --signal"),
        ),
        operands=1,
        operand=r"[0-9.]+[smhd]?|infinity",
    ),
    "stdbuf": CommandWrapper(
        options=OptionSyntax(values=_letters("ioe") | _words("--input --output --error"))
    ),
    "nice": CommandWrapper(
        options=OptionSyntax(values=_letters("n") | _words("--adjustment")), numbers=True
    ),
    "ionice": CommandWrapper(
        options=OptionSyntax(
            flags=_letters("t") | _words("--ignore"),
            values=_letters("cn") | _words("--class --classdata"),
        )
    ),
    "chrt": CommandWrapper(
        options=OptionSyntax(
            flags=_letters("bdfiorRv")
            | _words("--batch --deadline --fifo --idle --other --rr --reset-on-fork --verbose"),
            values=_letters("TPD") | _words("--sched-runtime --sched-period --sched-deadline"),
        ),
        operands=1,
        operand="[0-9]+",
    ),
    "taskset": CommandWrapper(
        options=OptionSyntax(flags=_letters("ac") | _words("--all-tasks --cpu-list")),
        operands=1,
        operand="(0x)?[0-9a-fA-F,]+|[0-9,:-]+",
    ),
    "nohup": CommandWrapper(options=OptionSyntax()),
    "setsid": CommandWrapper(
        options=OptionSyntax(flags=_letters("cfw") | _words("--ctty --fork --wait"))
    ),
    "setpriv": CommandWrapper(
        options=OptionSyntax(
            flags=_words(
                "--clear-groups --keep-groups --init-groups --no-new-privs --nnp --reset-env"
            ),
            values=_words(
                "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps "
                "--bounding-set --securebits --pdeathsig --selinux-label --apparmor-profile"
            ),
        )
    ),
    "prlimit": CommandWrapper(
        options=OptionSyntax(
            flags=_words(
                "--as --core --cpu --data --fsize --locks --memlock --msgqueue --nice --nofile "
                "--nproc --rss --rtprio --rttime --sigpending --stack --verbose"
            ),
            prefixes=tuple(sorted(_letters("vctdflmqenurxyisw"))),
            joined=False,
        )
    ),
    "flock": CommandWrapper(
        options=OptionSyntax(
            flags=_letters("sxenoFv")
            | _words("--shared --exclusive --nonblock --close --no-fork --verbose"),
            values=_letters("wEc") | _words("--timeout --wait --conflict-exit-code --command"),
        ),
        operands=1,
        text=_words("-c --command"),
    ),
    "time": CommandWrapper(
        options=OptionSyntax(
            flags=_letters("apvq") | _words("--append --portability --verbose --quiet"),
            values=_letters("of") | _words("--output --format"),
        )
    ),
    "unbuffer": CommandWrapper(options=OptionSyntax(flags=_letters("p"))),
    "tini": CommandWrapper(options=OptionSyntax(flags=_letters("gsvw"), values=_letters("pe"))),
    "dumb-init": CommandWrapper(
        options=OptionSyntax(
            flags=_letters("cv") | _words("--single-child --verbose"),
            values=_letters("r") | _words("--rewrite"),
        )
    ),
    "catatonit": CommandWrapper(options=OptionSyntax(flags=_letters("gPL"))),
    "caffeinate": CommandWrapper(
        options=OptionSyntax(flags=_letters("dimsu"), values=_letters("tw"))
    ),
}

_PYTHON = Interpreter(
    options=OptionSyntax(
        flags=_letters("bBdEiIOPqRsSuvx"),
        values=_letters("WX") | _words("--check-hash-based-pycs"),
        last=_letters("cm"),
    ),
    text=_letters("ci"),
    module=_letters("m"),
    folders=True,
)
# -l and -i read a profile first, -s reads commands from stdin.
_SHELL = Interpreter(
    options=OptionSyntax(
        flags=_letters("aBbCceEfhHikLlmnPprsTuvx")
        | _words("--posix --norc --noprofile --login --restricted --verbose --noediting"),
        values=_letters("oO") | _words("+o +O --rcfile --init-file"),
    ),
    text=_letters("cs"),
    preload=_letters("li") | _words("--login"),
)

_NODE = Interpreter(
    options=OptionSyntax(
        flags=_words(
            "-i --interactive -c --check --watch --watch-preserve-output --test --inspect "
            "--inspect-brk --inspect-wait --enable-source-maps --expose-gc --expose_gc --jitless "
            "--prof --cpu-prof --heap-prof --track-heap-objects --preserve-symlinks "
            "--preserve-symlinks-main --throw-deprecation --pending-deprecation --trace-warnings "
            "--trace-deprecation --trace-uncaught --trace-exit --trace-sigint --use-system-ca "
            "--use-openssl-ca --use-bundled-ca --permission --experimental-permission "
            "--experimental-strip-types --experimental-transform-types --experimental-sqlite "
            "--experimental-vm-modules --experimental-wasm-modules --experimental-require-module "
            "--experimental-websocket --experimental-eventsource --experimental-webstorage "
            "--experimental-fetch --experimental-global-webcrypto --experimental-detect-module "
            "--experimental-import-meta-resolve --experimental-specifier-resolution "
            "--allow-fs-read --allow-fs-write --allow-child-process --allow-worker --allow-addons "
            "--allow-wasi --allow-net --insecure-http-parser --max-old-space-size "
            "--max_old_space_size --stack-size --stack_size --abort-on-uncaught-exception"
        ),
        values=_words(
            "-r --require --import --loader --experimental-loader -e --eval -p --print -pe "
            "-C --conditions --env-file --env-file-if-exists --title --input-type "
            "--experimental-default-type --icu-data-dir --openssl-config --diagnostic-dir "
            "--disable-warning --dns-result-order --inspect-port --inspect-publish-uid "
            "--redirect-warnings --report-dir --report-directory --report-filename "
            "--report-signal --stack-trace-limit --trace-event-categories "
            "--trace-event-file-pattern --unhandled-rejections --watch-path --tls-cipher-list "
            "--tls-keylog --secure-heap --secure-heap-min --localstorage-file "
            "--heapsnapshot-signal --max-http-header-size --run --experimental-config-file"
        ),
        prefixes=("--no-",),
        joined=False,
    ),
    text=_words(
        "-e --eval -p --print -pe -i --interactive --run --test --experimental-config-file"
    ),
    # An env file can set NODE_OPTIONS.
    preload=_words(
        "-r --require --import --loader --experimental-loader --env-file --env-file-if-exists"
    ),
    watch=_words("--watch --watch-path --watch-preserve-output"),
    variables=("NODE_OPTIONS",),
    suffixes=(".js", ".json", ".node"),
    folders=True,
)

INTERPRETERS: Mapping[str, Interpreter] = {
    "python": _PYTHON,
    "pypy": _PYTHON,
    "node": _NODE,
    "tsx": Interpreter(
        options=OptionSyntax(
            flags=_words("--no-cache --enable-source-maps"),
            values=_words("--tsconfig -r --require --import -e --eval -p --print"),
            joined=False,
        ),
        text=_NODE.text,
        preload=_NODE.preload,
        commands=_words("watch"),
        watch=_words("watch"),
        variables=("NODE_OPTIONS",),
        folders=True,
    ),
    "ts-node": Interpreter(
        options=OptionSyntax(
            flags=_words("-T --transpile-only --esm --swc --files --pretty -H"),
            values=_words("-P --project -r --require -e --eval -p --print -O"),
            joined=False,
        ),
        text=_NODE.text,
        preload=_NODE.preload,
        variables=("NODE_OPTIONS",),
        settings=("tsconfig.json",),
    ),
    "bun": Interpreter(
        options=OptionSyntax(
            flags=_words("-b --bun --smol --no-install --silent --no-clear-screen --hot --watch"),
            values=_words(
                "-r --preload --require --import --cwd -c --config --env-file --tsconfig-override "
                "-e --eval -p --print"
            ),
            joined=False,
        ),
        text=_words("-e --eval -p --print"),
        preload=_words("-r --preload --require --import -c --config --env-file"),
        watch=_words("--hot --watch"),
        chdir=_words("--cwd"),
        variables=("BUN_OPTIONS",),
        settings=("bunfig.toml", ".env", ".env.local"),
        commands=_words("run"),
    ),
    "deno": Interpreter(
        options=OptionSyntax(
            flags=_words(
                "-A -R -W -N -E -S -q --quiet --allow-all --cached-only --check --inspect "
                "--inspect-brk --inspect-wait --frozen --v8-flags --node-modules-dir --vendor "
                "--watch --watch-hmr --unstable -r --reload"
            ),
            values=_words(
                "-c --config --import-map --lock --cert -L --log-level --location --seed "
                "--env-file --ext --preload --import --require"
            ),
            prefixes=("--allow-", "--deny-", "--no-", "--unstable-"),
            joined=False,
        ),
        preload=_words("--preload --import --require"),
        watch=_words("--watch --watch-hmr"),
        commands=_words("run serve"),
    ),
    "ruby": Interpreter(
        options=OptionSyntax(
            flags=_letters("acdlnpsSUvwWxy") | _words("--disable-gems --jit --yjit"),
            values=_letters("reICEFK") | _words("--disable --enable --encoding --parser"),
        ),
        text=_letters("eS"),
        preload=_letters("r"),
        chdir=_letters("C"),
        variables=("RUBYOPT",),
    ),
    "perl": Interpreter(
        options=OptionSyntax(
            flags=_letters("acfnpsStTuUvwWX"), values=_letters("IMmeEd") | _words("-x")
        ),
        text=_letters("eES"),
        preload=_letters("Mmd"),
        variables=("PERL5OPT",),
    ),
    "php": Interpreter(
        options=OptionSyntax(
            flags=_letters("nqeHC"), values=_letters("cdrfzBRFE") | _words("--file --run")
        ),
        text=_letters("rBRFE") | _words("--run"),
        preload=_letters("z"),
        script=_letters("f") | _words("--file"),
    ),
    "lua": Interpreter(
        options=OptionSyntax(flags=_letters("EWiv"), values=_letters("el")),
        text=_letters("ei"),
        preload=_letters("l"),
        sourced=("LUA_INIT",),
    ),
    "sh": _SHELL,
    "dash": _SHELL,
    "ksh": _SHELL,
    "zsh": _SHELL,
    "bash": Interpreter(
        options=_SHELL.options, text=_SHELL.text, preload=_SHELL.preload, sourced=("BASH_ENV",)
    ),
    # What -cp, -jar and -m mean is read by `command_code`.
    "java": Interpreter(
        options=OptionSyntax(
            flags=_words("-jar -server -client -ea -esa -da -dsa --enable-preview -version"),
            values=_words(
                "-cp -classpath --class-path -p --module-path --add-modules --add-opens "
                "--add-exports --add-reads --source --upgrade-module-path --enable-native-access"
            ),
            last=_words("-m --module"),
            prefixes=("-D", "-X", "-ea:", "-da:", "-javaagent:", "-agentlib:", "-agentpath:"),
            joined=False,
        ),
        module=_words("-m --module"),
        preload=_words("-javaagent: -agentlib: -agentpath:"),
        variables=("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    ),
    "Rscript": Interpreter(
        options=OptionSyntax(
            flags=_words("--vanilla --no-save --no-restore --no-environ --verbose"),
            values=_letters("e"),
            prefixes=("--default-packages=",),
            joined=False,
        ),
        text=_letters("e"),
        settings=(".Rprofile", ".Renviron"),
        sourced=("R_PROFILE", "R_PROFILE_USER"),
    ),
    "dotnet": Interpreter(
        options=OptionSyntax(
            values=_words("--roll-forward --fx-version --additionalprobingpath"), joined=False
        ),
        commands=_words("exec"),
        sourced=("DOTNET_STARTUP_HOOKS",),
    ),
}

# Interpreters that import nothing by themselves.
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})

NPX_OPTIONS = OptionSyntax(
    flags=_words(
        "-y --yes --no -q --quiet -s --silent --offline --prefer-offline --prefer-online "
        "--no-install --no-update-notifier"
    ),
    values=_words("-p --package -c --call"),
    joined=False,
)
UVX_OPTIONS = OptionSyntax(
    flags=_words("-q --quiet --offline --no-progress --no-config --no-env-file"),
    values=_words("--from"),
    joined=False,
)
UV_OPTIONS = OptionSyntax(
    flags=_words(
        "-q --quiet -v --verbose --offline --no-progress --native-tls --no-config -n --no-cache"
    ),
    values=_words("--directory --project --cache-dir --config-file --color"),
    joined=False,
)
UV_RUN_OPTIONS = OptionSyntax(
    flags=UV_OPTIONS.flags
    | _words(
        "-s --script --no-project --isolated --active --no-sync --frozen --locked --dev --no-dev "
        "--all-extras --all-groups --no-editable --exact --no-env-file --managed-python "
        "--no-managed-python"
    ),
    values=UV_OPTIONS.values
    | _words(
        "--with --with-requirements --with-editable -p --python --extra --group --no-group "
        "--only-group --env-file --index --default-index -i --index-url --extra-index-url -f "
        "--find-links --package"
    ),
    joined=False,
)

_INSTALL = "install the package, and run the installed program"
_BUILD = "build it, and run the program that was built"
_NO_OTHER_USER = "run the program itself, as the user of the host"

# Program, or program and subcommand → what to do instead of pinning it. Each starts code that its
# arguments do not name as a file, or that another program changes.
RUNNERS: Mapping[str, str] = {
    # npx, npm and uvx are read by `package_runners`, and `uv run` by `command_code`.
    "bunx": _INSTALL,
    "pnpm": _INSTALL,
    "pnpx": _INSTALL,
    "yarn": _INSTALL,
    "pipx": _INSTALL,
    "pip-run": _INSTALL,
    "poetry": "run the program in the virtual environment itself",
    "pdm": "run the program in the virtual environment itself",
    "hatch": "run the program in the virtual environment itself",
    "rye": "run the program in the virtual environment itself",
    "pipenv": "run the program in the virtual environment itself",
    "pixi": "run the program in the environment itself",
    "conda": "run the program in the environment itself",
    "mamba": "run the program in the environment itself",
    "mise": "run the installed program itself",
    "asdf": "run the installed program itself",
    "nix": "run the program in the store itself",
    "nix-shell": "run the program in the store itself",
    "direnv": "run the program itself, and set its variables with `env`",
    "go run": _BUILD,
    "cargo run": _BUILD,
    "make": _BUILD,
    "just": _BUILD,
    "gradle": _BUILD,
    "mvn": _BUILD,
    "mcp run": "run the server's own script",
    "mcp dev": "run the server's own script",
    "fastmcp run": "run the server's own script",
    "fastmcp dev": "run the server's own script",
    "uvicorn": "run a script that starts the server",
    "gunicorn": "run a script that starts the server",
    "docker": "name the image by its digest: IMAGE@sha256:…",
    "podman": "name the image by its digest: IMAGE@sha256:…",
    "nerdctl": "name the image by its digest: IMAGE@sha256:…",
    "kubectl": "name the image by its digest: IMAGE@sha256:…",
    "ssh": "run a host there, as a node",
    "sudo": _NO_OTHER_USER,
    "doas": _NO_OTHER_USER,
    "su": _NO_OTHER_USER,
    "runuser": _NO_OTHER_USER,
    "gosu": _NO_OTHER_USER,
    "su-exec": _NO_OTHER_USER,
    "chroot": "run the program itself",
    "unshare": "run the program itself, with `permissions`",
    "nsenter": "run the program itself",
    "bwrap": "run the program itself, with `permissions`",
    "firejail": "run the program itself, with `permissions`",
    "systemd-run": "run the program itself, with `limits`",
    "xargs": "run the program itself",
    "parallel": "run the program itself",
    "script -c": "run the program itself",
    "script -qc": "run the program itself",
    "script -qec": "run the program itself",
    "rlwrap": "run the program itself",
    "strace": "run the program itself",
    "ltrace": "run the program itself",
    "gdb": "run the program itself",
    "busybox": "name the program that busybox stands for",
}

# Modules for `python -m` that run code which their own arguments name.
MODULES_THAT_RUN_CODE = _words(
    "runpy pdb bdb trace cProfile profile timeit code codeop doctest unittest asyncio idlelib "
    "coverage debugpy viztracer pyinstrument scalene memory_profiler line_profiler "
    "uvicorn gunicorn hypercorn daphne flask django celery streamlit gradio chainlit "
    "fastmcp mcp pytest nox tox IPython jupyter ptpython bpython "
    "pip pipx uv poetry pdm hatch zipapp"
)
