"""Work on an extension: run it and print its messages and its stderr as they arrive. Each time a
source file is saved, the extension is restarted and the last call is repeated.

  exthost dev TARGET                         a folder, a manifest, or a name in the config
  exthost dev --dialect D -- COMMAND …       a bare command

Keys: c calls a tool (NAME k=v …), Enter repeats the last call, r restarts, t lists the tools,
q or Ctrl-C ends. --call makes a first call: --call shout, or --call 'shout {"text": "hi"}'.
If the program fails, it is started again when a file is saved.
--build CMD runs this command in the folder of the sources before each start. The default for a
program of Go beside its go.mod is `go build`, for one of Rust in `target` `cargo build`, for one in
JavaScript beside its source in TypeScript `npm run build`. If the build fails, its output is shown
and the old program is not called. --build "" builds nothing.
"""

import argparse
import asyncio
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.config import Config
from exthost.errors import ExthostError, UsageError, escape_controls
from exthost.faces.cli.call import read_arguments
from exthost.faces.cli.check import parse_call
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    add_launch_options,
    add_sandbox_options,
    add_start_timeout_option,
    json_text,
    print_error,
    remember_shown_line,
    say,
    show_text,
)
from exthost.faces.cli.key_reader import KeyReader
from exthost.faces.cli.own_sdk import lend_sdk
from exthost.faces.cli.source_watch import changed_files, read_stamps, watched_paths
from exthost.faces.cli.started_extension import detect_dialect, with_start_limit
from exthost.faces.cli.target_specs import find_unlocked_spec
from exthost.faces.cli.text_width import text_width
from exthost.faces.cli.traffic_lines import traffic_line
from exthost.faces.cli.verb_loop import run_async
from exthost.host.control.call_requests import own_tool_name
from exthost.host.host import Host
from exthost.model.spec import Spec
from exthost.process.build_command import BuildCommand, find_build_command
from exthost.session.trace.record import TraceRecord

# The time between two checks for changed files. A change is reported only when the next check finds
# no more, so that an editor that saves several files causes one restart.
POLL_SECONDS = 0.25

_PYTHONPATH = "PYTHONPATH"


class DevArgs(Args):
    """The parsed arguments of this verb (a subcommand of exthost).

    call   the first call, as `NAME` or `NAME JSON`; None if there is none
    watch  additional files and folders to watch
    build  the command of a shell that builds the program; None for the default of its language
    """

    call: str | None
    watch: list[str]
    build: str | None


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    parser.add_argument("--call", metavar="TOOL", help="call this tool after each start")
    parser.add_argument(
        "--watch",
        metavar="PATH",
        action="append",
        default=[],
        help="a file or folder to watch as well; may be repeated",
    )
    parser.add_argument(
        "--build", metavar="CMD", help="build the program with this command before each start"
    )
    add_start_timeout_option(parser)
    add_launch_options(parser)
    add_config_option(parser)
    add_dialect_option(parser)
    add_sandbox_options(parser)


def run(args: DevArgs) -> int:
    spec = find_unlocked_spec(args, args.target)
    if spec is None:
        raise UsageError("X1316", "which extension?", help="exthost dev TARGET, or -- COMMAND …")
    first_call = None if args.call is None else parse_call(args.call)
    # A program that imports the SDK of exthost without having it installed gets that of exthost.
    with lend_sdk(spec) as spec_with_sdk:
        return run_async(_develop(args, spec_with_sdk, first_call))


async def _develop(args: DevArgs, spec: Spec, first_call: tuple[str, Any] | None) -> int:
    if args.command and args.dialect is None:
        spec = await detect_dialect(args, spec)
    host = Host(Config())
    host.traffic.subscribe(_show_record)
    async with host:
        loop = DevLoop(args, host, with_start_limit(args, spec), first_call)
        with closing(_Keys()) as keys:
            await loop.run(keys)
    return 0


def _show_record(record: TraceRecord) -> None:
    if record.kind == "stderr":
        remember_shown_line(record.text)
    say(traffic_line(record))


class DevLoop:
    """Runs one extension, restarts it when a file changes, and handles keys.

    `last_call` is the call that is repeated after each start: the name of the tool and its
    arguments. None if there is no such call yet.
    """

    def __init__(
        self, args: DevArgs, host: Host, spec: Spec, last_call: tuple[str, Any] | None
    ) -> None:
        self._args = args
        self._host = host
        self._spec = spec
        self._last_call = last_call
        folder = None if args.command else _source_folder(spec)
        self._paths = [*watched_paths(folder, spec.argv), *map(Path, args.watch)]
        self._build = _find_build(args, spec, folder)
        if self._build is not None:
            # Otherwise each build would be a change of the watched program.
            self._paths = [path for path in self._paths if path != Path(spec.argv[0])]
        self._stamps = read_stamps(self._paths)  # the state of each file when it was last checked
        self._is_loaded = False  # whether the host knows the extension
        self._is_built = True  # whether the last build succeeded
        self._is_building = False
        # The files that the build writes: the program, or the script that it runs, and those that
        # are found later. A change of one of them during a build is not a save.
        self._files_of_build = {_resolve(Path(spec.cwd or ".", word)) for word in spec.argv[:2]}

    async def run(self, keys: "_Keys") -> None:
        """Run until the user presses q or Ctrl-D."""
        watched = ", ".join(map(str, self._paths)) or "nothing: name it with --watch"
        say(f"watching {watched}; c call, Enter again, r restart, t tools, q end")
        await self._restart()
        key = asyncio.ensure_future(keys.read_key())
        change_task = asyncio.ensure_future(self._wait_for_change())
        try:
            while True:
                await asyncio.wait([key, change_task], return_when=asyncio.FIRST_COMPLETED)
                if change_task.done():
                    say(f"saved: {_file_names(change_task.result())}")
                    await self._restart()
                    change_task = asyncio.ensure_future(self._wait_for_change())
                if key.done():
                    if not await self._handle_key(key.result(), keys):
                        return
                    key = asyncio.ensure_future(keys.read_key())
        finally:
            key.cancel()
            change_task.cancel()

    async def _handle_key(self, key: str, keys: "_Keys") -> bool:
        """Handle a key. Return False for a key that ends the loop."""
        if key in ("q", ""):
            return False
        if key == "r":
            await self._restart()
        elif key == "t":
            self._list_tools()
        elif key == "c":
            await self._prompt_and_call(keys)
        elif key in ("enter", " "):
            await self._repeat()
        return True

    async def _wait_for_change(self) -> list[str]:
        """Wait for changed files. Return their paths as soon as a check finds no further change."""
        changed: list[str] = []
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._is_building:  # `_build_saved_sources` checks the files itself
                continue
            new_stamps = await asyncio.to_thread(read_stamps, self._paths)
            new_changes, self._stamps = changed_files(self._stamps, new_stamps), new_stamps
            if changed and not new_changes:
                return changed
            changed += new_changes

    async def _restart(self) -> None:
        """Build the program, start the extension anew, and repeat the last call."""
        start_time = time.perf_counter()
        self._is_built = await self._build_saved_sources()
        if not self._is_built:
            say("the build failed: waiting for a change")
            return
        try:
            await self._start()
        except ExthostError as error:
            print_error(error, wants_json=False)
            say("waiting for a change")
            return
        duration_ms = (time.perf_counter() - start_time) * 1000
        say(f"{self._spec.id} is ready, after {duration_ms:.0f} ms")
        await self._repeat()

    async def _build_saved_sources(self) -> bool:
        """Build the program. If a source file was saved meanwhile, build it again, so that the
        program is made from the saved sources. Return whether the last build succeeded."""
        if self._build is None:
            return True
        changed_by_last_build: set[str] = set()
        self._is_building = True
        try:
            while True:
                before = await asyncio.to_thread(read_stamps, self._paths)
                is_built = await self._run_build(self._build)
                self._stamps = await asyncio.to_thread(read_stamps, self._paths)
                # A file that did not exist before was made by the build. One that changes during
                # two builds in a row is written by the build; a person would not save it twice.
                changed = {path for path in changed_files(before, self._stamps) if path in before}
                self._files_of_build |= set(map(_resolve, changed & changed_by_last_build))
                saved = sorted(
                    path for path in changed if _resolve(path) not in self._files_of_build
                )
                if not saved:
                    return is_built
                say(f"saved during the build: {_file_names(saved)}")
                changed_by_last_build = changed
        finally:
            self._is_building = False

    async def _run_build(self, build: BuildCommand) -> bool:
        """Build the program, and show what the build prints. Return whether it succeeded."""
        argv, folder = build
        say(f"building: {build.text}")
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            say(f"  {argv[0]}: {error.strerror}")
            return False
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            raise
        for line in output.decode("utf-8", "backslashreplace").splitlines():
            say(escape_controls(f"  {line}"))
        return process.returncode == 0

    async def _start(self) -> None:
        """Start or restart the extension. Its manifest or config entry is read again first."""
        spec = self._spec
        if not self._args.command:
            target_spec = find_unlocked_spec(self._args, self._args.target)
            assert target_spec is not None
            spec = with_start_limit(self._args, target_spec)
            if _PYTHONPATH in self._spec.env:  # `lend_sdk` may have added it to the first spec
                path = self._spec.env[_PYTHONPATH]
                spec = replace(spec, env={_PYTHONPATH: path, **spec.env})
        if not self._is_loaded:
            await self._host.load(replace(spec, start="lazy"))
            self._is_loaded = True
            await self._host[spec.id].start()
        elif spec == self._spec:
            await self._host[spec.id].restart()
        else:  # its manifest or config entry has changed
            await self._host.replace(spec, before=self._spec.id)
        self._spec = spec

    def _check_built(self) -> bool:
        """Return whether the last build succeeded; print a message if it failed."""
        if not self._is_built:
            say("the program is not the one of these sources: the build failed")
        return self._is_built

    def _list_tools(self) -> None:
        if not self._check_built() or not self._is_loaded:
            return
        for name, tool in self._host[self._spec.id].tools.items():
            say(f"  {name}  {tool.description}")

    async def _prompt_and_call(self, keys: "_Keys") -> None:
        """Read a call from the terminal, such as `shout text=hi`, and make it."""
        line = await keys.read_line("call: ")
        try:
            name, *pairs = shlex.split(line) or [""]
            if not name:
                return
            self._last_call = name, read_arguments(_check_pairs(pairs), None)
        except (ValueError, ExthostError) as error:
            say(f"error: {error}")
            return
        await self._repeat()

    async def _repeat(self) -> None:
        """Make the last call again, if there was one."""
        if self._last_call is None or not self._check_built() or not self._is_loaded:
            return
        name, arguments = self._last_call
        extension = self._host[self._spec.id]
        try:
            tool_name = own_tool_name(extension, name)
            result = await extension.call_tool(tool_name, arguments, check=False)
        except ExthostError as error:
            print_error(error, wants_json=False)
            return
        failed = " (an error)" if result.is_error else ""
        show_text(f"{name} {json_text(arguments)} ->{failed} {result.text}")


def _find_build(args: DevArgs, spec: Spec, folder: str | None) -> BuildCommand | None:
    """Return the command that builds the program; None if nothing is to be built."""
    if args.build == "":
        return None
    if args.build is not None:
        return BuildCommand(("sh", "-c", args.build), Path(folder or spec.cwd or "."))
    # The program, unless it is looked up in PATH, as `go` is in `go run .`; or the script of Node
    # that it runs. Any other argument is the source of a program, or not even a file.
    words = [word for word in spec.argv[:1] if "/" in word]
    words += [word for word in spec.argv[1:2] if word.endswith(".js")]
    programs = [Path(spec.cwd or ".", word) for word in words]
    return next(filter(None, map(find_build_command, programs)), None)


def _resolve(path: str | Path) -> str:
    return os.path.realpath(path)


def _check_pairs(pairs: Sequence[str]) -> list[str]:
    """Return the k=v pairs. Raises ValueError for an argument without "="."""
    invalid = [pair for pair in pairs if "=" not in pair]
    if invalid:
        raise ValueError(f"{invalid[0]!r} is not an argument: write k=v")
    return list(pairs)


def _source_folder(spec: Spec) -> str | None:
    """Return the folder of an extension's sources: the folder of its manifest or config. A manifest
    in a hidden folder, such as `.synaps-plugin`, belongs to the folder above."""
    path = spec.manifest_file or spec.origin
    if not path:
        return spec.cwd
    folder = Path(path).parent
    return str(folder.parent if folder.name.startswith(".") else folder)


def _file_names(paths: Sequence[str]) -> str:
    """Return the names of the first three files, and the number of the others, as text."""
    names = [Path(path).name for path in paths]
    rest_text = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + rest_text


class _Keys:
    """The keys that a person presses, and lines of text. If stdin is not a terminal, each character
    that is read from it is a key."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._reader = KeyReader(self._queue.put_nowait, from_any_stdin=True)
        self.close = self._reader.close
        self.read_key = self._queue.get

    async def read_line(self, prompt: str) -> str:
        """Print a prompt to stderr, read a line, and return it without the newline. Return ""
        after Ctrl-D."""
        _print_prompt(prompt)
        text = ""
        while (key := await self._queue.get()) != "enter":
            if key == "backspace":
                if text:
                    _print_prompt("\b \b" * text_width(text[-1]))
                    text = text[:-1]
            elif not key:
                return ""
            elif len(key) == 1 and key.isprintable():
                text += key
                _print_prompt(key)
        _print_prompt("\n")
        return text


def _print_prompt(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
