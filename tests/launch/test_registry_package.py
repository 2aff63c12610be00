"""The digest that a registry (PyPI) has of the package that `uvx TOOL` runs.

A lock records it, so that two machines can compare what they run. Nothing is downloaded: uv keeps
the digest of each wheel that it has installed in its cache, in a binary format. The entry counts
only if the wheel's list of files (RECORD) is that of the installed tool.
"""

import base64
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from exthost.launch.command_code import Certainty, CodeKind, ProgramCode, find_code
from exthost.launch.registry_package import find_registry_package

INFO = "toy_server-1.2.3.dist-info"
WHEEL = "toy_server-1.2.3-py3-none-any.whl"
DIGEST = "5c" * 32
FOLDER = "nAlbTRt6fkfEhbMW"
RECORD = "toy_server/__init__.py,sha256=abc,12\n"
OWN_LINE = f"{INFO}/RECORD,,\n"


class ToolInCache:
    """A tool as uv installs it, and the entry of its wheel in the cache of uv."""

    def __init__(self, home: Path) -> None:
        self.tool = home / "tools" / "toy-server"
        self.cache = home / ".cache" / "uv"
        # The list of files of the tool, that of the unpacked wheel, and the entry with the digest.
        self.installed = self.tool / "lib" / "python3.12" / "site-packages" / INFO / "RECORD"
        self.unpacked = self.cache / "archive-v0" / FOLDER / INFO / "RECORD"
        self.entry = self.cache / "wheels-v7" / "pypi" / "toy-server" / "1.2.3-py3-none-any.http"
        for file in (self.installed, self.unpacked, self.entry):
            file.parent.mkdir(parents=True)
        self.installed.write_text(f"../../../bin/toy,sha256=x,1\n{RECORD}{OWN_LINE}")
        self.unpacked.write_text(RECORD + OWN_LINE)
        self.entry.write_bytes(make_entry())
        self.env = {"HOME": str(home)}

    def find(self, **env: str) -> tuple[str, str]:
        """Return the package and its digest, "" if no digest is found."""
        code = ProgramCode(
            kind=CodeKind.PACKAGE,
            certainty=Certainty.SEARCHED,
            name="toy-server",
            path=str(self.tool),
            version="1.2.3",
        )
        return find_registry_package(code, "/", {**self.env, **env})


def make_entry(folder: str = FOLDER, digests: bytes | None = None) -> bytes:
    """Return the beginning of an entry in the cache of uv 0.13, and some bytes that follow."""
    if digests is None:
        digests = b"\x91\x81\xa6Sha256\xd9\x40" + DIGEST.encode()
    name = b"\xd9\x21" + WHEEL.encode()
    return b"\x95" + bytes([0xA0 + len(folder)]) + folder.encode() + digests + name + b"\0\1https:"


@pytest.fixture
def tool(tmp_path: Path) -> ToolInCache:
    return ToolInCache(tmp_path)


PACKAGE = "pypi:toy-server@1.2.3"


def test_the_digest_of_an_installed_wheel_is_in_the_cache(tool: ToolInCache) -> None:
    assert tool.find() == (PACKAGE, f"sha256:{DIGEST}")
    tool.installed.write_text(RECORD + OWN_LINE)  # without a file that only the installation has
    assert tool.find() == (PACKAGE, f"sha256:{DIGEST}")
    moved = tool.cache.rename(tool.cache.with_name("elsewhere"))
    assert tool.find() == (PACKAGE, "")
    assert tool.find(UV_CACHE_DIR=str(moved)) == (PACKAGE, f"sha256:{DIGEST}")


def test_a_wheel_of_another_index_counts_as_well(tool: ToolInCache) -> None:
    other = tool.cache / "wheels-v7" / "index" / "0123456789abcdef" / "toy-server"
    other.mkdir(parents=True)
    tool.entry.rename(other / tool.entry.name)
    assert tool.find() == (PACKAGE, f"sha256:{DIGEST}")


@pytest.mark.parametrize(
    "entry",
    [
        make_entry(digests=b"\x90"),  # uv 0.9 and older keep an empty list
        make_entry(folder="../../../../etc/x"),
        make_entry()[:60],
        b"",
    ],
)
def test_an_entry_without_a_digest_or_of_another_form_is_not_used(
    tool: ToolInCache, entry: bytes
) -> None:
    tool.entry.write_bytes(entry)
    assert tool.find() == (PACKAGE, "")


def test_a_wheel_whose_files_are_not_the_installed_ones_is_not_used(tool: ToolInCache) -> None:
    tool.unpacked.write_text(RECORD.replace("abc", "def") + OWN_LINE)
    assert tool.find() == (PACKAGE, "")
    tool.unpacked.write_text(OWN_LINE)  # it says nothing about its files
    assert tool.find() == (PACKAGE, "")
    tool.unpacked.unlink()
    assert tool.find() == (PACKAGE, "")


def test_two_wheels_with_different_digests_are_ambiguous(tool: ToolInCache) -> None:
    other = tool.entry.with_name("1.2.3-py2.py3-none-any.http")
    other.write_bytes(make_entry().replace(b"5c", b"6d"))
    assert tool.find() == (PACKAGE, "")


def test_a_wheel_for_one_platform_is_not_used(tool: ToolInCache) -> None:
    tool.entry.rename(tool.entry.with_name("1.2.3-cp312-cp312-manylinux_2_17_x86_64.http"))
    assert tool.find() == (PACKAGE, "")


def write_index(folder: Path) -> str:
    """Write an index with one wheel. Return the digest of the wheel."""
    files = {
        "toy_server/__init__.py": "def main():\n    pass\n",
        f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: toy-server\nVersion: 1.2.3\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{INFO}/entry_points.txt": "[console_scripts]\ntoy-server = toy_server:main\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{name},sha256={digest.decode()},{len(text)}\n")
    files[f"{INFO}/RECORD"] = "".join(lines) + OWN_LINE
    page = folder / "simple" / "toy-server"
    page.mkdir(parents=True)
    with zipfile.ZipFile(page / WHEEL, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    wheel_digest = hashlib.sha256((page / WHEEL).read_bytes()).hexdigest()
    (page / "index.html").write_text(f'<a href="{WHEEL}#sha256={wheel_digest}">{WHEEL}</a>')
    return wheel_digest


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.more
def test_uv_keeps_the_digest_of_the_wheel_that_it_downloads(tmp_path: Path) -> None:
    digest = write_index(tmp_path / "index")
    handler = partial(QuietHandler, directory=str(tmp_path / "index"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    programs = Path(sys.executable).parent
    env = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "UV_DEFAULT_INDEX": f"http://127.0.0.1:{server.server_port}/simple",
    }
    try:
        command = ["tool", "install", "--python", sys.executable, "toy-server"]
        subprocess.run([programs / "uv", *command], env=env, check=True, timeout=120)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    code = find_code([str(programs / "uvx"), "toy-server"], str(tmp_path), env)
    assert find_registry_package(code, str(tmp_path), env) == (PACKAGE, f"sha256:{digest}")
