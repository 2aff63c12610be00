"""Trials of the sandbox: the files that an extension can read and write.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. The
attacks run in a sandboxed extension: `explore(extension, code, **facts)` gives the code the dict
`facts`, and returns what the code stores in `result`.
"""

import hashlib
import os
import uuid
from pathlib import Path

from tests.sandbox.confined import EXPLORER, explore, folder, shared_folder, started_explorer
from tests.sandbox.trials import trial


@trial
async def a_file_that_is_not_granted_cannot_be_read_in_any_way() -> None:
    with folder() as place, shared_folder() as granted:
        canary = place / "canary"
        canary.write_text("secret-" + "canary")
        (granted / "link").symlink_to(canary)
        (granted / "file").write_text("granted")
        async with started_explorer(permissions={"filesystem": [f"{granted}:rw"]}) as ext:
            results = await explore(
                ext,
                """
                import glob, os
                canary, granted = facts["canary"], facts["granted"]
                ways = [canary, f"{granted}/link", f"{granted}/../{canary.split('/', 2)[2]}",
                        f"/proc/self/root{canary}", f"/proc/1/root{canary}",
                        f"/proc/1/cwd/{canary}", f"/proc/{facts['host']}/root{canary}",
                        f"/proc/self/cwd/../../../..{canary}"]
                ways += [f"{root}{canary}" for root in glob.glob("/proc/*/root")]
                result = {}
                for way in ways:
                    try:
                        result[way] = open(way).read()
                    except OSError as error:
                        result[way] = type(error).__name__
                for make in (os.link, os.symlink):
                    try:
                        make(canary, f"{granted}/{make.__name__}")
                        result[make.__name__] = open(f"{granted}/{make.__name__}").read()
                    except OSError as error:
                        result[make.__name__] = type(error).__name__
                result["itself"] = open(f"{granted}/file").read()
                result["stat"] = os.path.exists(canary)
                """,
                canary=str(canary),
                granted=str(granted),
                host=os.getpid(),
            )
            assert results.pop("itself") == "granted" and results.pop("stat") is False
            assert not any("secret" in content for content in results.values()), results
        assert canary.read_text() == "secret-canary"


def digest(place: Path) -> str:
    """Return a digest of all files in a folder, with their modes and times."""
    hasher = hashlib.sha256()
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        hasher.update(f"{path} {status.st_mode} {status.st_mtime_ns} {status.st_size}".encode())
        hasher.update(path.read_bytes() if path.is_file() else b"")
    return hasher.hexdigest()


@trial
async def a_read_only_grant_is_unchanged_after_every_attempt() -> None:
    with folder() as place:
        (place / "below").mkdir()
        for name in ("a", "below/b"):
            (place / name).write_text(name)
        before = digest(place)
        async with started_explorer(permissions={"filesystem": [str(place)]}) as ext:
            outcomes = await explore(
                ext,
                """
                import os
                a, b = facts["place"] + "/a", facts["place"] + "/below/b"
                attempts = {
                    "write": lambda: open(a, "w"), "append": lambda: open(a, "a"),
                    "truncate": lambda: os.truncate(a, 0), "chmod": lambda: os.chmod(a, 0o777),
                    "utime": lambda: os.utime(a, (1, 1)), "rename": lambda: os.rename(a, b),
                    "unlink": lambda: os.unlink(b),
                    "rmdir": lambda: os.rmdir(facts["place"] + "/below"),
                    "mkdir": lambda: os.mkdir(facts["place"] + "/new"),
                    "symlink": lambda: os.symlink("x", facts["place"] + "/new"),
                    "link": lambda: os.link(a, facts["place"] + "/new"),
                    "chown": lambda: os.chown(a, os.getuid(), os.getgid()),
                    "xattr": lambda: os.setxattr(a, "user.x", b"1"),
                    "mknod": lambda: os.mkfifo(facts["place"] + "/new"),
                }
                result = {}
                for name, attempt in attempts.items():
                    try:
                        attempt()
                        result[name] = "done"
                    except OSError as error:
                        result[name] = type(error).__name__
                result["read"] = open(a).read()
                """,
                place=str(place),
            )
            assert outcomes.pop("read") == "a"
            assert "done" not in outcomes.values(), outcomes
        assert digest(place) == before


@trial
async def a_writable_grant_can_be_written_and_its_sibling_cannot() -> None:
    with shared_folder() as place:
        (place / "mine").mkdir()
        (place / "mine").chmod(0o777)
        (place / "sibling").mkdir()
        (place / "sibling" / "x").write_text("theirs")
        async with started_explorer(permissions={"filesystem": [f"{place}/mine:rw"]}) as ext:
            code = """
                import os
                open(facts["place"] + "/mine/new", "w").write("written")
                result = []
                for name in ("/sibling/x", "/sibling/new", "/new"):
                    try:
                        open(facts["place"] + name, "w").write("harm")
                        result.append(name)
                    except OSError:
                        pass
            """
            assert await explore(ext, code, place=str(place)) == []
        assert (place / "mine" / "new").read_text() == "written"
        assert (place / "sibling" / "x").read_text() == "theirs"
        assert not (place / "new").exists() and not (place / "sibling" / "new").exists()


@trial
async def tmp_is_private_and_the_rest_of_the_root_is_read_only() -> None:
    name = f"/tmp/{uuid.uuid4().hex}"
    with folder() as place:
        async with started_explorer(permissions={"filesystem": [str(place)]}) as ext:
            code = """
                import os
                open(facts["name"], "w").write("private")
                result = {"tmp": os.listdir("/tmp")}
                for place in ("/", "/usr", "/etc", "/var", facts["granted"]):
                    try:
                        open(place + "/harm", "w")
                        result[place] = "written"
                    except OSError as error:
                        result[place] = type(error).__name__
            """
            report = await explore(ext, code, name=name, granted=str(place))
            assert Path(name).name in report.pop("tmp")
            assert "written" not in report.values(), report
    assert not Path(name).exists()


@trial
async def an_extension_can_read_its_own_folder() -> None:
    program = Path(EXPLORER[-1])
    async with started_explorer() as ext:
        code = "result = open(facts['file']).read()"
        assert await explore(ext, code, file=str(program)) == program.read_text()
