"""Runs the tests of `inside.py` in a virtual machine, whose kernel can limit memory and processes.

A container or a machine of an ordinary user often lacks the controllers of cgroup v2 for that.

    make trial-cgroup KERNEL=linux-image-….deb

The kernel comes from a Debian package. The virtual machine sees the files of this machine
read-only. It needs no privileges and no KVM; without KVM it takes a minute or two. Missing programs
are reported.
"""

import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PROJECT = Path(__file__).parents[2]

# The time limit of the emulated machine, on a busy host.
MACHINE_SECONDS = 900

# By program that is needed: how it is installed.
NEEDS = {
    "qemu-system-x86_64": "apt install qemu-system-x86",
    "busybox": "apt install busybox-static",
    "dpkg-deb": "it is Debian's own",
    "bwrap": "apt install bubblewrap",
    "setpriv": "apt install util-linux",
}

# Kernel modules in the order of their dependencies. A kernel may have some of them built in.
MODULES = (
    *("virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("netfs", "fscache", "9pnet", "9pnet_virtio", "9p"),
)

# The init program of the virtual machine: it mounts the files of this machine and runs SECOND_INIT.
FIRST_INIT = """#!/bin/busybox sh
export PATH=/bin
echo
for module in /modules/*; do busybox insmod $module; done
busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=262144 files /new
busybox mount -t proc proc /new/proc
busybox mount -t sysfs sysfs /new/sys
busybox mount -t devtmpfs dev /new/dev
for folder in tmp var/tmp run; do busybox mount -t tmpfs -o mode=1777 tmpfs /new/$folder; done
busybox mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
echo +memory +pids >/new/sys/fs/cgroup/cgroup.subtree_control
busybox cp /second /new/tmp/second
exec busybox switch_root /new /bin/sh /tmp/second
"""

SECOND_INIT = """
export HOME=/tmp PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={project}:{project}/src EXTHOST_HOME=/tmp/state
cd {project}
{python} -m tests.cgroup.inside </dev/null
{busybox} reboot -f
"""


def find_missing(kernel: str) -> list[str]:
    """Return the programs and files that must be installed or downloaded first."""
    missing_items = [f"{name}: {how}" for name, how in NEEDS.items() if shutil.which(name) is None]
    if not Path(kernel).is_file():
        missing_items.append("KERNEL=FILE: apt-get download linux-image-VERSION-amd64-unsigned")
    return missing_items


def build(kernel: str, folder: Path) -> tuple[Path, Path]:
    """Unpack the kernel of a package, and build an initial file system for it."""
    subprocess.run(["dpkg-deb", "-x", kernel, str(folder / "kernel")], check=True)
    root = folder / "root"
    for name in ("bin", "modules", "new", "proc", "dev"):
        (root / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin" / "busybox")
    for number, name in enumerate(MODULES):
        for file in sorted((folder / "kernel").rglob(f"{name}.ko*"))[:1]:
            code = file.read_bytes()
            uncompressed = lzma.decompress(code) if file.suffix == ".xz" else code
            (root / "modules" / f"{number:02}-{name}.ko").write_bytes(uncompressed)
    (root / "init").write_text(FIRST_INIT)
    (root / "init").chmod(0o755)
    values = {"project": PROJECT, "python": sys.executable, "busybox": busybox}
    (root / "second").write_text(SECOND_INIT.format(**values))
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*"))
    image = folder / "first.cpio"
    with image.open("wb") as output:
        subprocess.run(
            [busybox, "cpio", "-o", "-H", "newc"],
            input=names.encode(),
            stdout=output,
            stderr=subprocess.DEVNULL,
            cwd=root,
            check=True,
        )
    return next((folder / "kernel" / "boot").glob("vmlinuz-*")), image


def boot(kernel: Path, image: Path) -> list[str]:
    """Boot the machine, and return the lines of its output."""
    argv = (
        *("qemu-system-x86_64", "-m", "1024", "-smp", "2", "-nographic", "-no-reboot"),
        *("-nodefaults", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(image)),
        *("-append", "console=ttyS0 loglevel=1 panic=-1"),
        *("-fsdev", "local,id=files,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=files,mount_tag=files"),
    )
    messages = []
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as machine:
        assert machine.stdout is not None
        timer = threading.Timer(MACHINE_SECONDS, machine.kill)
        timer.start()
        for line in machine.stdout:
            messages.append(line.decode("utf-8", "replace").strip())
            print(messages[-1], file=sys.stderr, flush=True)
        timer.cancel()
    return messages


def main() -> int:
    kernel = os.environ.get("KERNEL", "")
    if missing_items := find_missing(kernel):
        print("this trial needs:", *missing_items, sep="\n  ")
        return 2
    with tempfile.TemporaryDirectory(prefix="exthost-machine-") as name:
        output = boot(*build(kernel, Path(name)))
    rows = [json.loads(line) for line in output if line.startswith('{"who"')]
    failed = [row for row in rows if row["wrong"]]
    print(f"{len(rows) - len(failed)} trials passed, {len(failed)} failed")
    if f"all {len(rows)} trials were run" not in output:
        print("not all trials were run: see the output above")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
