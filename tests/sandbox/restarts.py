"""Trials of restarts: changes that an extension makes while it runs do not affect its next start.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. The
extension is the explorer: `explore(extension, code, **facts)` runs code in it. When an extension is
admitted, the host records the files that its sandbox shows, so another file in their place is
noticed at the next start.
"""

import errno
import os
import shutil
from pathlib import Path

from exthost.errors import ExtensionGone, ExthostError, Refused
from exthost.extension.extension import Extension
from exthost.launch.package_tree import file_digest
from tests.extensions.harness import error_of, wait_until
from tests.sandbox.confined import explore, folder, shared_folder, system_explorer
from tests.sandbox.trial_host import START_METHOD, started_extension
from tests.sandbox.trials import trial

RESTART_IMMEDIATELY = {"strategy": "immediate", "max_retries": 3}

# Code that replaces the program by another one, whose shebang line names a secret file.
REPLACE = """
    import os
    old, new = facts["old"], facts["new"]
    text = open(facts["program"]).read()
    os.rename(old, new)
    os.makedirs(os.path.dirname(facts["program"]))
    with open(facts["program"], "w") as file:
        file.write(facts["first_line"] + text)
    os.chmod(facts["program"], 0o755)
"""


async def make_exit(ext: Extension) -> None:
    """Make the process exit by itself."""
    error = await error_of(ext.call("explore", {"code": "import os; os._exit(3)"}))
    assert isinstance(error, ExtensionGone), error


async def wait_until_refused(ext: Extension) -> Refused:
    """Wait until the extension is refused, and return the error."""
    await wait_until(lambda: ext.state in ("refused", "failed"))
    assert ext.state == "refused" and isinstance(ext.cause, Refused), (ext.state, ext.cause)
    return ext.cause


@trial
async def a_pinned_program_that_is_replaced_is_not_started_again() -> None:
    with shared_folder() as place, folder() as victim:
        key = victim / "key"
        key.write_text("secret-" + "key")
        program = system_explorer(place / "mid" / "sub" / "run")
        settings = {
            "permissions": {"filesystem": [f"{place}:rw"]},
            "sha256": file_digest(str(program)),
            "restart": RESTART_IMMEDIATELY,
        }
        async with started_extension([str(program)], **settings) as ext:
            first_line = f"#!/usr/bin/env -S /usr/bin/python3 {program} {key}\n"
            outcome = await explore(
                ext,
                REPLACE,
                program=str(program),
                old=str(place / "mid"),
                new=str(place / "moved"),
                first_line=first_line,
            )
            assert outcome["errno"] == errno.EBUSY, outcome
            # A process without a sandbox can replace the program.
            text = program.read_text()
            (place / "mid").rename(place / "moved")
            program.parent.mkdir(parents=True)
            program.write_text(first_line + text)
            program.chmod(0o755)
            await make_exit(ext)
            assert (await wait_until_refused(ext)).code in ("X0384", "X0386")


@trial
async def a_folder_that_is_put_in_the_place_of_a_granted_one_is_not_shown() -> None:
    with shared_folder() as place, shared_folder() as program_folder, folder() as victim:
        (victim / "key").write_text("secret")
        program = system_explorer(program_folder / "run")
        granted = place / "a" / "data"
        granted.mkdir(parents=True)
        for path in (granted, granted.parent):
            path.chmod(0o777)
        settings = {
            "permissions": {"filesystem": [f"{place}:rw", str(granted)]},
            "restart": RESTART_IMMEDIATELY,
        }
        for swap in (
            "os.makedirs(facts['granted'])",
            "os.makedirs(facts['above']); os.symlink(facts['victim'], facts['granted'])",
        ):
            async with started_extension([str(program)], **settings) as ext:
                report = await explore(
                    ext,
                    f"import os; os.rename(facts['above'], facts['above'] + '.moved'); {swap}",
                    above=str(granted.parent),
                    granted=str(granted),
                    victim=str(victim),
                )
                assert report is None, report
                await make_exit(ext)
                refused = await wait_until_refused(ext)
                assert refused.code == "X0384" and refused.evidence.path == str(granted), refused
            granted.parent.rename(place / f"used{swap.count('symlink')}")
            Path(f"{granted.parent}.moved").rename(granted.parent)


@trial
async def a_first_line_that_changes_after_the_admission_shows_nothing_more() -> None:
    with shared_folder() as program_folder, folder() as elsewhere:
        program = system_explorer(program_folder / "run")
        (elsewhere / "tool" / "bin").mkdir(parents=True)
        (elsewhere / "tool" / "lib").mkdir()
        interpreter = elsewhere / "tool" / "bin" / "python3"
        interpreter.write_bytes(Path("/usr/bin/python3").resolve().read_bytes())
        interpreter.chmod(0o755)
        async with started_extension(
            [str(program)], permissions={}, restart=RESTART_IMMEDIATELY
        ) as ext:
            before = ext.enforced["paths"]
            text = program.read_text().split("\n", 1)[1]
            with program.open("r+") as file:  # the same file with other content
                file.write(f"#!{interpreter}\n{text}")
            await make_exit(ext)
            await wait_until(lambda: ext.state in ("failed", "refused", "backoff", "ready"))
            assert ext.enforced["paths"] == before
            assert not any(str(elsewhere) in item["path"] for item in before)
            await wait_until(lambda: ext.state in ("failed", "refused"))


@trial
async def a_requested_restart_accepts_a_replaced_program() -> None:
    with shared_folder() as program_folder:
        program = system_explorer(program_folder / "run")
        async with started_extension(
            [str(program)], permissions={}, restart=RESTART_IMMEDIATELY
        ) as ext:
            new_program = system_explorer(program_folder / "new")
            new_program.replace(program)  # as an update does: another file with the same name
            await make_exit(ext)
            assert (await wait_until_refused(ext)).code == "X0384"
            await ext.restart()
            assert await explore(ext, "result = 1") == 1
            new_program = system_explorer(program_folder / "new")
            new_program.replace(program)
            await ext.restart()
            assert await explore(ext, "result = 2") == 2


# A wrapper of bubblewrap that replaces a folder between the check and the mount.
SWAPPING_WRAPPER = """#!/bin/sh
if [ -e {place}/armed ]; then
    rm {place}/armed
    mv {granted} {granted}.moved
    {swap}
fi
exec {bwrap} "$@"
"""


@trial
async def a_path_replaced_between_the_check_and_the_mount_is_not_shown() -> None:
    bwrap = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    assert bwrap is not None
    with shared_folder() as place, shared_folder() as program_folder, shared_folder() as victim:
        (victim / "key").write_text("secret")
        for path in (victim, victim / "key"):
            path.chmod(0o755)
        for kind, swap in enumerate(("mv {victim} {granted}", "ln -s {victim} {granted}")):
            granted = place / f"data{kind}"
            granted.mkdir()
            granted.chmod(0o777)
            victim_copy = shutil.copytree(victim, place / f"victim{kind}")
            swap_command = swap.format(victim=victim_copy, granted=granted)
            wrapper = program_folder / f"bwrap{kind}"
            wrapper.write_text(
                SWAPPING_WRAPPER.format(
                    place=place, granted=granted, swap=swap_command, bwrap=bwrap
                )
            )
            wrapper.chmod(0o755)
            program = system_explorer(program_folder / "run")
            settings = {
                "permissions": {"filesystem": [str(granted)]},
                "restart": {"strategy": "never"},
            }
            os.environ["EXTHOST_BWRAP"] = str(wrapper)
            try:
                async with started_extension([str(program)], **settings) as ext:
                    assert await explore(ext, "result = 1") == 1
                (place / "armed").touch()
                (place / "armed").chmod(0o777)
                async with started_extension([str(program)], **settings) as ext:
                    listing = await explore(
                        ext, "import os; result = os.listdir(facts['at'])", at=str(granted)
                    )
                    raise AssertionError(f"it was started, and saw {listing}")
            except ExthostError as error:
                assert not (place / "armed").exists(), error
                # A template is started in the same sandbox before, and finds the swapped folder.
                before = START_METHOD == "template" and error.code == "X0384"
                assert before or "was replaced while it was started" in str(error), error
            finally:
                del os.environ["EXTHOST_BWRAP"]
