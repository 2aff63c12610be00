"""Facts about paths of this machine, for proposals of permissions (`exthost learn`).

`learned_policy` makes the proposals without reading the file system. It gets a `MachinePaths`,
which answers what it must know about a path: whether it is a secret, or in a project.
"""

import os
from pathlib import Path

from exthost.launch.grant_advice import (
    find_write_risk,
    has_secret_name,
    hidden_folder,
    is_private,
    is_wide,
)
from exthost.launch.runtimes import installation
from exthost.launch.visible_paths import is_too_wide

# Files and folders in the top folder of a project.
_PROJECT_MARKS = (
    *(".git", ".hg", ".svn", "pyproject.toml", "setup.py", "package.json", "Cargo.toml", "go.mod"),
    *("pom.xml", "build.gradle", "Gemfile", "composer.json", "exthost.toml"),
)

# Parts of paths, in lower case, and what they are.
_SECRETS = (
    ((".ssh", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa"), "an SSH key or its settings"),
    ((".gnupg", ".password-store"), "a keyring"),
    (
        (".mozilla", "firefox", "google-chrome", "chromium", "bravesoftware", "microsoft-edge"),
        "a profile of a browser",
    ),
    (
        (".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", "gcloud"),
        "credentials",
    ),
)

# The largest folder whose names are compared with those of secrets.
_MAX_ENTRIES = 1000


class MachinePaths:
    """Implements `learned_policy.PathFacts` for the file system of this machine."""

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112

    def secret(self, path: str) -> str:
        parts = {part.lower() for part in Path(path).parts}
        for names, description in _SECRETS:
            if parts & set(names):
                return description
        if has_secret_name(path):
            return "its name is that of a secret"
        if is_wide(path):
            return "a folder with files of many programs"
        return ""

    def hidden(self, path: str) -> str:
        return hidden_folder(path) or (path if is_private(path) else "")

    def unwritable(self, folder: str) -> str:
        return find_write_risk(folder)

    def secret_inside(self, folder: str) -> str:
        try:
            with os.scandir(folder) as entries:
                for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False):
                    # A repository is hidden, and no secret.
                    if entry.name not in (".git", ".gitignore") and is_private(entry.path):
                        return entry.name
        except OSError:
            return ""
        return ""

    def project(self, path: str) -> str:
        home = os.path.expanduser("~")  # noqa: PTH111
        for folder in (path, *map(str, Path(path).parents)):
            if is_too_wide(folder, home):
                return ""
            if any(os.path.lexists(f"{folder}/{mark}") for mark in _PROJECT_MARKS):
                return folder
        return ""

    def installation(self, program: str) -> str:
        return installation(program, os.path.expanduser("~"))  # noqa: PTH111
