"""Tables of the files that interpreters, package managers and the system read as code, by the names
of their programs and variables. Pure data; `code_paths` uses it.

Code of a program that is missing here is not protected from an extension that may write it.
"""

from collections.abc import Mapping

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
NODES = frozenset(("node", "nodejs"))
PYTHONS = frozenset(("python", "pypy"))
INTERPRETERS = frozenset((*SHELLS, *NODES, *PYTHONS, "ruby", "perl", "php", "lua", "java"))
# These import from the working folder, whatever they run.
CWD_IMPORTERS = frozenset(("lua", "luajit"))

# Tools that read settings in the working folder or above it, and run what those name.
PROJECT_TOOLS = frozenset(
    (
        *("npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "tsx", "ts-node", "volta"),
        *("uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "pipx", "tox", "nox"),
        *("conda", "mamba", "micromamba", "bundle", "bundler", "rake", "cargo", "go", "dotnet"),
        *("mvn", "gradle", "sbt", "lein", "clojure", "clj", "mix", "rebar3", "stack", "cabal"),
        *("swift", "zig", "make", "gmake", "just", "task", "rustup", "nix", "nix-shell", "devbox"),
        *("mise", "asdf", "direnv", "composer", "foreman", "overmind", "docker-compose"),
    )
)

# Tools that run the first file among their arguments or, without one, what their settings name.
SCRIPT_RUNNERS = frozenset(
    ("fastmcp", "mcp", "uvicorn", "gunicorn", "hypercorn", "daphne", "granian", "flask")
)

# The files in the working folder from which a tool reads code, if it is not a project tool.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "R": (".Rprofile", ".Renviron"),
    "Rscript": (".Rprofile", ".Renviron"),
}

# How the names of scripts and compiled programs end, in lower case. An argument with such a name is
# code of a program that is in none of these tables, which may be an interpreter.
SCRIPT_SUFFIXES = frozenset(
    (
        *(".py", ".pyc", ".pyz", ".pyw", ".xsh", ".star", ".rb", ".pl", ".pm", ".raku", ".php"),
        *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".coffee", ".wasm"),
        *(".lua", ".tl", ".fnl", ".r", ".jl", ".scm", ".ss", ".sls", ".rkt", ".lisp", ".wren"),
        *(".el", ".clj", ".cljc", ".cljs", ".bb", ".janet", ".ex", ".exs", ".erl", ".beam"),
        *(".tcl", ".exp", ".expect", ".sh", ".bash", ".zsh", ".ksh", ".fish", ".nu", ".ps1"),
        *(".awk", ".sed", ".groovy", ".kts", ".kt", ".scala", ".sc", ".java", ".jar", ".war"),
        *(".class", ".hs", ".lhs", ".ml", ".fs", ".fsx", ".cs", ".csx", ".dll", ".exe"),
        *(".nim", ".nims", ".cr", ".dart", ".go", ".rs", ".swift", ".v", ".pro", ".m", ".gdb"),
        *(".escript", ".gvy", ".wat"),
    )
)

# Words after which such a tool expects the package or the script.
SUBCOMMANDS = frozenset(("run", "exec", "x", "dlx", "tool", "task", "start", "shell", "develop"))

# Options of such tools that have no value: the next word may be the package or the script.
FLAGS = frozenset(
    (
        *("-y", "--yes", "-q", "--quiet", "-v", "--verbose", "-s", "--silent", "-A", "--allow-all"),
        *("--offline", "--prefer-offline", "--no-install", "--isolated", "--no-cache", "--frozen"),
        *("--locked", "--no-sync", "--no-project", "--release", "--bun", "--"),
    )
)

# Tool → where it keeps what it runs: a variable, or else a folder below the home folder.
STORES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "uv": (
        ("UV_CACHE_DIR", ".cache/uv"),
        ("UV_TOOL_DIR", ".local/share/uv/tools"),
        ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    ),
    "npm": (("npm_config_cache", ".npm"),),
    "pnpm": (("PNPM_HOME", ".local/share/pnpm"),),
    "yarn": (("YARN_GLOBAL_FOLDER", ".yarn"),),
    "bun": (("BUN_INSTALL", ".bun"),),
    "deno": (("DENO_DIR", ".cache/deno"),),
    "pipx": (("PIPX_HOME", ".local/share/pipx"),),
    "cargo": (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")),
    "go": (("GOMODCACHE", "go/pkg/mod"), ("GOCACHE", ".cache/go-build")),
    "conda": (("CONDA_PKGS_DIRS", ".conda/pkgs"),),
    "mvn": (("MAVEN_USER_HOME", ".m2"),),
    "gradle": (("GRADLE_USER_HOME", ".gradle"),),
}
# Variables that name another folder in place of one below the home folder.
BASE_FOLDERS = {"XDG_CACHE_HOME": ".cache/", "XDG_DATA_HOME": ".local/share/"}
# Programs that use the store of another tool.
STORE_NAMES = {"uvx": "uv", "npx": "npm", "pnpx": "pnpm", "bunx": "bun", "mamba": "conda"}

# Variables that name a folder or file of code, or a list of them.
PATH_VARIABLES = (
    *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONPYCACHEPREFIX", "NODE_PATH", "NODE_COMPILE_CACHE"),
    *("RUBYLIB", "PERL5LIB", "PERLLIB", "CLASSPATH", "GOBIN", "GOPATH", "GOENV", "GOWORK"),
    *("JULIA_LOAD_PATH", "GUILE_LOAD_PATH", "ERL_LIBS", "R_LIBS", "R_LIBS_USER", "R_PROFILE"),
    *("R_PROFILE_USER", "R_ENVIRON", "R_ENVIRON_USER", "PHPRC", "PHP_INI_SCAN_DIR"),
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "OPENSSL_CONF"),
    *("OPENSSL_MODULES", "OPENSSL_ENGINES", "GIO_EXTRA_MODULES", "QT_PLUGIN_PATH"),
    *("BASH_ENV", "ZDOTDIR", "XDG_CONFIG_HOME", "DOTNET_STARTUP_HOOKS"),
    *("npm_config_userconfig", "npm_config_globalconfig", "npm_config_script_shell"),
    *("NPM_CONFIG_USERCONFIG", "NPM_CONFIG_GLOBALCONFIG", "NPM_CONFIG_SCRIPT_SHELL"),
    *("GIO_MODULE_DIR", "GTK_PATH", "GST_PLUGIN_PATH", "TCLLIBPATH", "MAKEFILES"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR"),
    *("KUBECONFIG", "AWS_CONFIG_FILE", "DOCKER_CONFIG", "ANSIBLE_CONFIG", "TF_CLI_CONFIG_FILE"),
    *("HELM_PLUGINS", "IPYTHONDIR", "JUPYTER_PATH", "JUPYTER_CONFIG_DIR", "RAKULIB"),
    *("PLTCOLLECTS", "GUILE_LOAD_COMPILED_PATH", "EMACSLOADPATH", "JULIA_PROJECT"),
    *("UV_CONFIG_FILE", "UV_ENV_FILE", "UV_PROJECT", "PIP_CONFIG_FILE", "BUNDLE_APP_CONFIG"),
)
# Of these, those in which a name without a slash is a path, too. In the others it is the name of a
# library, or a word such as "off".
RELATIVE_VARIABLES = frozenset(
    (
        *("PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERL5LIB", "PERLLIB", "CLASSPATH"),
        *("LD_LIBRARY_PATH", "PYTHONSTARTUP", "BASH_ENV"),
    )
)
# Variables that name an installation: every file in it is code.
TREE_VARIABLES = (
    *("PYTHONHOME", "PYTHONUSERBASE", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "JAVA_HOME"),
    *("JRE_HOME", "GOROOT", "GOMODCACHE", "GOCACHE", "CARGO_HOME", "RUSTUP_HOME", "DENO_DIR"),
    *("JULIA_DEPOT_PATH", "PYENV_ROOT", "NVM_DIR", "VOLTA_HOME", "RBENV_ROOT", "SDKMAN_DIR"),
    *("ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "MISE_CONFIG_DIR", "FNM_DIR", "N_PREFIX"),
    *("NPM_CONFIG_PREFIX", "npm_config_prefix", "npm_config_cache", "PNPM_HOME", "BUN_INSTALL"),
    *("NPM_CONFIG_CACHE", "COREPACK_HOME", "POETRY_HOME", "YARN_GLOBAL_FOLDER"),
    *("PLAYWRIGHT_BROWSERS_PATH", "PUPPETEER_CACHE_DIR"),
    *("UV_CACHE_DIR", "UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR", "UV_PROJECT_ENVIRONMENT"),
    *("PIPX_HOME", "DOTNET_ROOT", "NUGET_PACKAGES", "MAVEN_HOME", "M2_HOME", "GRADLE_USER_HOME"),
)
# Variables with options, among which a path of code may be.
OPTION_VARIABLES = (
    *("NODE_OPTIONS", "RUBYOPT", "PERL5OPT", "GOFLAGS", "LUA_INIT", "MAVEN_OPTS", "GRADLE_OPTS"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "npm_config_node_options"),
    "NPM_CONFIG_NODE_OPTIONS",
)
# Variables with patterns of paths, separated by semicolons: /srv/lua/?.lua;;
PATTERN_VARIABLES = tuple(
    f"LUA_{kind}{version}"
    for kind in ("PATH", "CPATH")
    for version in ("", "_5_1", "_5_2", "_5_3", "_5_4")
)
# Variables that name an environment of Python, by its folder.
ENVIRONMENT_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")

# All of these variables, and those that are read in a way of their own.
ALL_VARIABLES = (
    *PATH_VARIABLES,
    *TREE_VARIABLES,
    *OPTION_VARIABLES,
    *PATTERN_VARIABLES,
    *ENVIRONMENT_VARIABLES,
    *("HOME", "BUNDLE_GEMFILE"),
)
