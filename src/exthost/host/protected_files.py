"""Recognises files that other programs execute or obey without asking the user, by their paths.

An extension that could write such a file could run code outside its sandbox. The files are those of
version control, shells, editors, agents, CI systems and package managers, the config of exthost,
and whatever discovery takes for an extension. The lists cannot be complete. The names of manifests
come from the installed dialects. No file is read.
"""

import unicodedata
from functools import cache

from exthost.dialects.find import load_manifest_formats

__all__ = ["is_at_or_below", "is_protected"]

# All names are in lower case: `_fold_name` makes names comparable.
_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".husky", ".ssh", ".gnupg", ".config", ".local", ".cargo"),
        *(".direnv", ".mise", ".yarn", ".bashrc.d", ".profile.d", ".oh-my-zsh", ".devcontainer"),
        # Editors and agents.
        *(".vscode", ".idea", ".vim", ".nvim", ".emacs.d", ".zed", ".fleet", ".vs", ".claude"),
        *(".codex", ".cursor", ".gemini", ".windsurf", ".codeium", ".continue", ".roo", ".kiro"),
        *(".opencode", ".amazonq"),
        # CI systems.
        *(".github", ".gitlab", ".gitea", ".forgejo", ".circleci", ".buildkite", ".woodpecker"),
        *(".drone", ".semaphore", ".teamcity", ".azure-pipelines"),
    )
)
_FILES = frozenset(
    (
        # Shells and sessions.
        *(".envrc", ".env", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile"),
        *(".bash_aliases", ".bash_functions", ".aliases", ".inputrc", ".zshrc", ".zshenv"),
        *(".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login", ".logout", ".kshrc"),
        *(".mkshrc", ".shrc", ".tmux.conf", ".screenrc", ".xprofile", ".xinitrc", ".xsession"),
        *(".xsessionrc", ".xserverrc", ".xresources", ".pam_environment"),
        # Version control, package managers and other tools.
        *(".gitmodules", ".gitattributes", ".gitconfig", ".npmrc", ".yarnrc", ".yarnrc.yml"),
        *(".pnpmfile.cjs", ".pnp.cjs", ".pypirc", ".mise.toml", "mise.toml", ".tool-versions"),
        *(".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml"),
        *("lefthook.yml", ".lefthook.yml", "sitecustomize.py", "usercustomize.py", ".netrc"),
        *(".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".pryrc", ".rprofile", ".psqlrc"),
        *(".sqliterc", ".curlrc", ".wgetrc", ".bazelrc", ".bazeliskrc"),
        # Editors and agents.
        *(".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".lazy.lua", ".emacs"),
        *(".dir-locals.el", ".editorconfig", ".devcontainer.json", ".gitpod.yml", ".cursorrules"),
        *(".windsurfrules", ".aider.conf.yml", "opencode.json", "opencode.jsonc", ".mcp.json"),
        *("mcp.json", "claude_desktop_config.json"),
        # CI systems.
        *(".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", ".travis.yaml", "jenkinsfile"),
        *("azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", ".drone.yml"),
        *(".drone.yaml", ".drone.jsonnet", ".drone.star", ".woodpecker.yml", ".woodpecker.yaml"),
        *("appveyor.yml", ".appveyor.yml", ".cirrus.yml", ".cirrus.star", "cloudbuild.yaml"),
        *("cloudbuild.yml", "buildspec.yml", "buildspec.yaml", "wercker.yml", "bitrise.yml"),
        *("codemagic.yaml",),
        "exthost.toml",
        # A folder that contains HEAD and `config` is a git repository, and git runs commands that
        # its settings name.
        "head",
    )
)
_SUFFIXES = (".code-workspace", ".sublime-project")


def is_protected(path: str) -> bool:
    """Return whether other programs execute the file at this path, or read their settings from
    it."""
    *folders, name = map(_fold_name, path.split("/"))
    manifests, manifest_prefixes, manifest_folders = _manifest_names()
    return (
        name in _FILES
        or name in manifests
        or name.startswith(manifest_prefixes)
        or name.endswith(_SUFFIXES)
        or not (_FOLDERS | manifest_folders).isdisjoint((*folders, name))
    )


def is_at_or_below(path: str, folder: str) -> bool:
    """Return whether an absolute path is that of the folder or leads below it, on any file
    system."""
    names, folder_names = _fold_path(path), _fold_path(folder)
    return names[: len(folder_names)] == folder_names


@cache
def _manifest_names() -> tuple[frozenset[str], tuple[str, ...], frozenset[str]]:
    """Return the file names of the manifests of all dialects, the beginnings of such names, and the
    folders that contain manifests."""
    names: set[str] = set()
    prefixes: set[str] = set()
    folders: set[str] = set()
    for format in load_manifest_formats():
        for name in map(_fold_name, format.names):
            if name.endswith("*"):
                prefixes.add(name[:-1])
            else:
                names.add(name)
        if format.parent:
            folders.add(_fold_name(format.parent))
        # The first folder of "~/.synaps-cli/plugins" is the one that belongs to the dialect.
        folders.update(_fold_path(home.removeprefix("~"))[0] for home in format.homes)
    return frozenset(names), tuple(prefixes), frozenset(folders)


def _fold_path(path: str) -> list[str]:
    return [_fold_name(name) for name in path.split("/") if name]


def _fold_name(name: str) -> str:
    """Return a form of a file name that is the same for all names which some file system takes for
    the same: those of macOS ignore case, forms of one letter and invisible characters, and those of
    Windows ignore dots and blanks at the end."""
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFKC", visible).casefold().rstrip(". ")
    return ".git" if folded == "git~1" else folded  # its short name on Windows
