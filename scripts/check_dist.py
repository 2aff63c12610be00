"""Test the packages in `dist/`: install them into a clean environment of each Python, and use them.

    python scripts/check_dist.py [--dist FOLDER] PYTHON …

Tests the wheel on each Python, and the sdist on the first. Each is installed without extras, into a
temporary folder; nothing of the source tree is on its path.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

INSTALL_SECONDS = 600
RUN_SECONDS = 60

EXTENSION = """\
from exthost.sdk import Extension

ext = Extension("tool")


@ext.tool
def shout(text: str) -> str:
    "Upper case"
    return text.upper()


ext.run()
"""

PROGRAM = """\
import sys
import exthost

assert "site-packages" in exthost.__file__, exthost.__file__
with exthost.sync_connect([sys.executable, "tool.py", "--dialect", "nexo"], dialect="nexo") as ext:
    print(ext.call_tool("shout", {"text": "hello"}))
"""


def run(command: list[str], folder: Path, seconds: int = RUN_SECONDS) -> str:
    """Run a command in this folder and return what it prints."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def check(python: str, package: Path, folder: Path) -> None:
    """Install a package into a new environment of this Python, and use it."""
    run([python, "-m", "venv", "env"], folder, INSTALL_SECONDS)
    bin_folder = folder / "env" / "bin"
    own = str(bin_folder / "python")
    # The SDK of this release may not be on the index yet.
    install = [own, "-m", "pip", "install", "--quiet", "--find-links", str(package.parent)]
    run([*install, str(package)], folder, INSTALL_SECONDS)
    (folder / "tool.py").write_text(EXTENSION)
    (folder / "program.py").write_text(PROGRAM)
    version = run([str(bin_folder / "exthost"), "--version"], folder)
    call = ["call", "shout", "text=hello", "--text", "--dialect", "mcp"]
    command = ["--", own, "tool.py", "--dialect", "mcp"]
    outputs = [
        run([str(bin_folder / "exthost"), *call, *command], folder),
        run([own, "-I", "program.py"], folder),
    ]
    if outputs != ["HELLO", "HELLO"]:
        raise SystemExit(f"{package.name} on {python} printed {outputs}")
    about = run([own, "--version"], folder)
    print(f"{package.name}: {version} works on {about}", flush=True)


def check_sdk(python: str, folder: Path) -> None:
    """Install the wheel of the SDK alone, and let its program answer a host."""
    [wheel], [_] = folder.glob("exthost_sdk-*.whl"), folder.glob("exthost_sdk-*.tar.gz")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        run([python, "-m", "venv", "env"], work, INSTALL_SECONDS)
        own = str(work / "env" / "bin" / "python")
        run([own, "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], work)
        (work / "tool.py").write_text(EXTENSION.replace("exthost.sdk", "exthost_sdk"))
        manifest = run([own, "tool.py", "--manifest", "nexo"], work)
    if "shout" not in manifest:
        raise SystemExit(f"{wheel.name} printed {manifest}")
    print(f"{wheel.name}: works alone", flush=True)


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dist", type=Path, default=Path("dist"))
    parser.add_argument("pythons", nargs="+")
    args = parser.parse_args(words)
    folder, pythons = args.dist.resolve(), args.pythons
    [wheel], [sdist] = list(folder.glob("exthost-*.whl")), list(folder.glob("exthost-*.tar.gz"))
    check_sdk(pythons[0], folder)
    for package, python in [(sdist, pythons[0]), *((wheel, python) for python in pythons)]:
        with tempfile.TemporaryDirectory() as temporary:
            check(python, package, Path(temporary))


if __name__ == "__main__":
    main(sys.argv[1:])
