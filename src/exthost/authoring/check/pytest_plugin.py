"""A pytest plugin: `exthost check` as tests.

Enable it with `pytest_plugins = ["exthost.authoring.check.pytest_plugin"]` in `conftest.py`, or
with `-p`:

    pytest -p exthost.authoring.check.pytest_plugin --exthost-check ./weather   a test for each rule

    def test_conformance(exthost_check):   or in a test of one's own
        exthost_check("./weather")
        exthost_check(["python3", "text.py"], dialect="mcp", call={"shout": {"text": "hi"}})

The fixture looks for relative paths in the folder of the test file first, then in pytest's root
folder, whatever the current folder is. Paths of `--exthost-check` are relative to the current
folder.

It is not registered as an entry point, because pytest would then rewrite the assertions of all of
exthost in every test run of every project that has exthost installed.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from exthost.authoring.check.findings import Outcome, Report


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("exthost")
    group.addoption(
        "--exthost-check",
        action="append",
        default=[],
        metavar="PATH",
        help="check the extension in this folder or manifest, a test for each rule",
    )


def check_extension(
    target: "str | os.PathLike[str] | Sequence[str]",
    *,
    dialect: str | None = None,
    call: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    **settings: Any,
) -> "Report":
    """Check an extension: a folder or manifest by its path, or a command with its dialect.

    `call` names tools to be called, with their arguments. `settings` are the keys of an
    `[[extensions]]` entry, for a command. Raises UsageError for wrong arguments, and in a test that
    is `async`.
    """
    import asyncio

    from exthost.authoring.check.manifest_check import check_manifest
    from exthost.authoring.check.run import run_checks
    from exthost.authoring.check.settings import CHECK_SECONDS, Settings
    from exthost.config.discovery.extension_at_path import spec_at
    from exthost.errors import UsageError
    from exthost.extension.misuse import check_timeout
    from exthost.host.connection import connection_spec

    requested_calls: object = call
    if requested_calls is not None and not isinstance(requested_calls, Mapping):
        problem = f"call must be a dict of tools and their arguments, not {call!r:.60}"
        raise UsageError("X1338", problem, help='call={"shout": {"text": "hi"}}')
    if timeout is not None:
        timeout = check_timeout(timeout)
    if asyncio._get_running_loop() is not None:
        raise UsageError(
            "X1314",
            "a check waits for its processes, and cannot run in an event loop",
            help="check in a test that is not async, or with asyncio.to_thread",
        )
    if isinstance(target, str | os.PathLike):
        spec = spec_at(Path(target))
    elif dialect is None:
        raise UsageError("X1310", "a command needs a dialect", help='dialect="mcp"')
    else:
        spec = connection_spec(target, dialect, settings)  # type: ignore[arg-type]
    seconds = CHECK_SECONDS if timeout is None else timeout
    check_settings = Settings(seconds=seconds, calls=tuple((call or {}).items()))
    report = asyncio.run(run_checks(spec, dict(os.environ), check_settings))
    return check_manifest(spec).add_to(report)


def find_folder(target: "str | os.PathLike[str] | Sequence[str]", folders: Sequence[Path]) -> Path:
    """Return the first of these folders that has the path, or a file that the command names. If
    none has it, return the first folder."""
    targets = [target] if isinstance(target, str | os.PathLike) else target
    words = [word for word in map(str, targets) if not Path(word).is_absolute()]
    for folder in folders:
        # Not `Path.exists`, which raises OSError for a word that is too long for a path.
        if any(os.path.exists(folder / word) for word in words):  # noqa: PTH110
            return folder
    return folders[0]


@pytest.fixture
def exthost_check(request: pytest.FixtureRequest) -> "Callable[..., Report]":
    """Return a function that checks an extension, fails the test with the report if there is a
    fault, and returns the report otherwise. It takes what `check_extension` takes. Relative paths
    are those of the folder of the test file, or else of pytest's root folder."""

    def check(target: "str | os.PathLike[str] | Sequence[str]", **options: Any) -> "Report":
        if not isinstance(target, str | os.PathLike | list | tuple):
            return check_extension(target, **options)  # raises the error
        folder = find_folder(target, (request.path.parent, request.config.rootpath))
        if isinstance(target, str | os.PathLike):
            target = str(folder / target)
        elif target:
            from exthost.host.connection import command_id

            # A command that names its own folder is left as it is.
            options = {"cwd": str(folder), "name": command_id(_absolute(target, folder))} | options
        report = check_extension(target, **options)
        if not report.ok:
            from exthost.authoring.check.report_text import report_lines

            pytest.fail("\n".join(report_lines(report)), pytrace=False)
        return report

    return check


def _absolute(command: "Sequence[str | os.PathLike[str]]", folder: Path) -> list[str]:
    """Return a command with absolute paths of the files in this folder."""
    return [
        str(folder / word) if os.path.isfile(folder / word) else word  # noqa: PTH113
        for word in map(str, command)
    ]


class RuleFailed(Exception):
    """A rule is broken."""


class RuleItem(pytest.Item):
    """The test of one rule."""

    outcome: "Outcome"

    def runtest(self) -> None:
        if self.outcome.status == "skipped":
            pytest.skip(self.outcome.reason)
        if self.outcome.status == "fault":
            raise RuleFailed

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        from exthost.authoring.check.report_text import outcome_lines

        if isinstance(excinfo.value, RuleFailed):
            return "\n".join(outcome_lines(self.outcome))
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[str, None, str]:
        return str(self.path), None, self.name


class ExtensionCollector(pytest.Collector):
    """The tests of one extension. It is checked when the tests are collected."""

    def collect(self) -> Iterator[pytest.Item]:
        from exthost.authoring.check.manifest_check import make_failed_report
        from exthost.errors import ConfigError, ManifestError

        try:
            report = check_extension(self.name)
        except (ManifestError, ConfigError) as error:
            report = make_failed_report(error, self.name, "")
        for outcome in report.outcomes:
            item = RuleItem.from_parent(self, name=f"{outcome.rule.name} ({outcome.rule.id})")
            item.outcome = outcome
            yield item


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    from exthost.errors import ExthostError

    for target in config.getoption("--exthost-check"):
        collector = ExtensionCollector.from_parent(session, name=target)
        try:
            items.extend(collector.collect())
        except ExthostError as error:
            help = f"; {error.help}" if error.help else ""
            raise pytest.UsageError(f"--exthost-check {target}: {error.message}{help}") from None
