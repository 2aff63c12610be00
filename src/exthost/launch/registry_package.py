"""Finds the package of a registry that a command runs, and its digest in that registry, from what
the package manager wrote when it installed the package. Nothing is fetched.

npm writes the digest into the `package-lock.json` beside the installed packages.

uv keeps the digest of each wheel that it has downloaded in its cache, beside the name of the folder
that it unpacked the wheel into. That entry counts only if the installed files are those of the
folder, by the list of files (`RECORD`) of both. No digest is found if the cache was cleaned, if the
package was built from its source, if an older uv (0.9 for example) installed it, which kept no
digests, or if the wheel is for one platform: that digest would differ on another machine.
"""

import glob
import json
import os
import re
from collections.abc import Mapping

from exthost.launch.command_code import CodeKind, ProgramCode
from exthost.process.small_files import read_start

# How much of a package-lock.json is read.
_LOCKFILE_BYTES = 32 * 1024 * 1024

# How much of a RECORD, and of an entry in the cache of uv, is read.
_RECORD_BYTES = 1024 * 1024
_ENTRY_BYTES = 4096

# The beginning of an entry in the cache of uv, in MessagePack: a list of a folder, a list with one
# digest, and more. A list of 3 to 15 items begins with 0x93 to 0x9F, a text of up to 31 bytes with
# 0xA0 plus its length.
_ENTRY = rb"[\x93-\x9f][\xb0-\xbf]([\w-]{16,31})\x91\x81\xa6Sha256\xd9\x40([0-9a-f]{64})"


def find_registry_package(
    code: ProgramCode, cwd: str | None, env: Mapping[str, str]
) -> tuple[str, str]:
    """Return the package, such as `npm:NAME@1.2.3`, and its digest in the registry. Each is "" if
    it is not known. `cwd` and `env` are those of the command."""
    if code.kind is not CodeKind.PACKAGE:
        return "", ""
    modules = f"{code.path}/node_modules"
    if not os.path.isdir(modules):  # noqa: PTH112
        return f"pypi:{code.name}@{code.version}", _find_wheel_digest(code, cwd, env)
    for file in (f"{modules}/.package-lock.json", f"{code.path}/package-lock.json"):
        try:
            packages = json.loads(read_start(file, _LOCKFILE_BYTES))["packages"]
            return f"npm:{code.name}@{code.version}", str(
                packages[f"node_modules/{code.name}"]["integrity"]
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return f"npm:{code.name}@{code.version}", ""


def _find_wheel_digest(code: ProgramCode, cwd: str | None, env: Mapping[str, str]) -> str:
    """Return the digest of the wheel that uv installed; "" if it is not known."""
    home = env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    user_cache = env.get("XDG_CACHE_HOME") or f"{home}/.cache"
    cache = os.path.join(cwd or "", env.get("UV_CACHE_DIR") or f"{user_cache}/uv")  # noqa: PTH118
    info = f"{code.name.replace('-', '_')}-{code.version}.dist-info"
    try:
        installed = _read_record(f"{code.path}/lib/python*/site-packages", info)
        digests = set()
        for index in ("pypi", "index/*"):
            wheel = f"{code.name}/{code.version}-*-none-any.http"
            for file in glob.glob(f"{glob.escape(cache)}/wheels-v*/{index}/{wheel}"):  # noqa: PTH207
                match = re.match(_ENTRY, read_start(file, _ENTRY_BYTES))
                if match is None:
                    continue
                folder = f"{glob.escape(cache)}/archive-v*/{match[1].decode()}"
                if (files := _read_record(folder, info)) and files <= installed:
                    digests.add(match[2].decode())
    except OSError:
        return ""
    return f"sha256:{digests.pop()}" if len(digests) == 1 else ""


def _read_record(folder: str, info: str) -> set[bytes]:
    """Return the lines of a RECORD, each a file with its digest. `folder` is a pattern of folders;
    the result is empty unless exactly one of them has the file."""
    files = glob.glob(f"{folder}/{glob.escape(info)}/RECORD")  # noqa: PTH207
    if len(files) != 1:
        return set()
    lines = read_start(files[0], _RECORD_BYTES).splitlines()
    return {line for line in lines if not line.endswith(b",,")}  # its own line has no digest
