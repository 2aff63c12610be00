"""Finds out whether the working folder of this process has been deleted."""

import os


def deleted_working_folder() -> str | None:
    """Return the path that the working folder had before it was deleted; None if it is there."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        try:
            return os.readlink("/proc/self/cwd").removesuffix(" (deleted)")  # noqa: PTH115
        except OSError:  # not on Linux; shells have it in a variable
            return os.environ.get("PWD", "(unknown)")
    return None
