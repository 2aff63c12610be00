"""Tests of `exthost.errors`: errors can be copied and pickled, and their text is safe to print.

An error has a code (`X1001`), the extension at fault, a help and evidence: what the extension wrote
to stderr, how it ended. `public()` returns a copy for callers that must not see the operator's
paths and commands.
"""

import copy
import pickle
import re
from pathlib import Path

import pytest

import exthost
from exthost import errors
from exthost.errors import BreakerOpen, CallFailed, Evidence, ExthostError, UsageError

# Code of exthost decides by the class of an error, not by its code. These modules compare codes
# that are not those of exceptions: codes of JSON-RPC, of replies of a running host and of
# diagnostics. The last one, `session/handshake.py`, compares the code of an error that it has just
# created.
MAY_COMPARE_CODES = {
    "dialects/mcp/handshake.py",
    "dialects/nexo/dialect.py",
    "dialects/nexo/second_contract.py",
    "faces/cli/lock.py",
    "faces/cli/package_folders.py",
    "faces/cli/running_host.py",
    "faces/cli/security_findings.py",
    "host/control/attached_host.py",
    "session/handshake.py",
}

ERROR_CLASSES = [getattr(errors, name) for name in errors.__all__ if name != "Evidence"]


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_an_error_can_be_pickled_and_copied(kind: type[ExthostError]) -> None:
    evidence = Evidence(argv=("a", "b"), exit="exited with 1", stderr=("x",))
    error = kind("X1001", "why", extension="e", help="do", evidence=evidence)
    for duplicate in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(duplicate) is kind
        assert (str(duplicate), duplicate.args) == (str(error), error.args)
        assert duplicate.as_dict() == error.as_dict()


def test_an_error_as_text_has_no_control_characters_of_a_child() -> None:
    evidence = Evidence(stderr=("\x1b[31mred\x1b[0m\x07",))
    error = errors.CallFailed("X0701", "no\x1b]0;title\x07\x9b2J\r", evidence=evidence)
    text = str(error)
    assert all(item.isprintable() or item == "\n" for item in text)
    assert "red" in text and "\\x1b" in text
    assert error.message.startswith("no\x1b")  # the attribute is not changed, only the text


def test_an_error_without_an_extension_says_the_extension_instead_of_it() -> None:
    assert str(errors.ExtensionGone("X1001", "it ended")).startswith("the extension ended [X1001]")
    assert str(errors.ExtensionGone("X1001", "its pipe broke")).startswith(
        "the extension's pipe broke"
    )
    assert str(errors.ExtensionGone("X1001", "it ended", extension="a")).startswith("a: it ended")
    assert str(errors.ExtensionGone("X1001", "items are gone")).startswith("items are gone")


def test_an_error_as_text_has_the_message_of_a_rust_panic() -> None:
    lines = (
        "thread 'main' panicked at src/main.rs:9:5:",
        "no such city",
        "stack backtrace:",
        "(64 lines are left out here)",
        *(f"  {n}: frame" for n in range(10)),
    )
    text = str(errors.ExtensionGone("X1001", "it ended", evidence=Evidence(stderr=lines)))
    assert "panicked at" in text and "stderr: no such city" in text and "stack back" not in text


def test_an_error_as_text_has_the_first_and_the_last_lines_of_stderr() -> None:
    lines = ("panic: no such index", *(f"stack {n}" for n in range(19)))
    text = str(errors.ExtensionGone("X1001", "it ended", evidence=Evidence(stderr=lines)))
    assert "panic: no such index" in text and text.endswith("stderr: stack 18")


def test_fields_of_only_some_errors_are_pickled_too() -> None:
    failed = errors.CallFailed("X0701", "no", error_code=-1, error_message="m", data={"a": [1]})
    breaker_open = errors.BreakerOpen("X1170", "later")
    breaker_open.seconds_left = 2.5
    duplicate = pickle.loads(pickle.dumps([failed, breaker_open]))
    assert duplicate[0].data == {"a": [1]} and duplicate[0].error_code == -1
    assert duplicate[1].seconds_left == 2.5


def test_errors_are_also_the_matching_builtin_exceptions() -> None:
    assert isinstance(errors.CallTimeout("X0801", "late"), TimeoutError)
    assert isinstance(errors.SpawnFailed("X0401", "no program"), OSError)
    assert isinstance(errors.NotFound("X1202", "no tool"), LookupError)
    for kind in (errors.CallTimeout, errors.SpawnFailed, errors.NotFound):
        error = kind("X0000", "what happened", extension="x", help="do this")
        duplicate = pickle.loads(pickle.dumps(error))
        assert str(duplicate) == str(error) and "what happened" in str(error)


def test_the_error_for_a_name_of_another_module_names_the_module() -> None:
    for name, module in (("CallFailed", "exthost.errors"), ("CallEnded", "exthost.events")):
        with pytest.raises(AttributeError, match=f"it is {module}.{name}"):
            getattr(exthost, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        getattr(exthost, "nothing")  # noqa: B009


SECRETS = Evidence(
    argv=("/opt/tool", "--token", "hunter2"),
    cwd="/srv/private",
    stderr=("Traceback: password",),
    bytes="leaked bytes",
    path="/etc/exthost.toml",
    exit="exited with 3",
)


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_a_public_error_has_no_paths_commands_or_output(kind: type[ExthostError]) -> None:
    for message in ("it ended", "no program /opt/tool in /srv/private", "Traceback: password"):
        error = kind("X0101", message, extension="a", help="see /srv/private", evidence=SECRETS)
        error.add_note("a note about /srv/private")
        public = error.public()
        assert type(public) is kind and public is not error
        assert (public.code, public.extension) == ("X0101", "a")
        shown = f"{public} {public.as_dict()} {public!r} {public.args} {vars(public)}"
        for secret in ("hunter2", "/opt/tool", "/srv/private", "password", "leaked", "/etc"):
            assert secret not in shown
        assert public.evidence.exit == "exited with 3" and public.message
        assert error.message == message and error.evidence is SECRETS, "the error is not changed"


def test_a_public_error_keeps_what_its_caller_needs() -> None:
    wrong = UsageError("X1301", "text is not a string", help="see its schema").public()
    assert (wrong.message, wrong.help) == ("text is not a string", "see its schema")
    failed = CallFailed("X0701", "no", error_code=-1, error_message="no", data=[1]).public()
    assert failed.as_dict()["evidence"]["answer"] == {"code": -1, "message": "no", "data": [1]}
    gone = BreakerOpen("X1001", "it is down")
    gone.seconds_left = 3.0
    public = gone.public()
    assert isinstance(public, BreakerOpen) and public.seconds_left == 3.0


def test_the_kind_of_an_error_is_its_public_class() -> None:
    class Narrower(errors.NotFound):
        pass

    assert Narrower("X1204", "which one?").kind == "NotFound"
    assert Narrower("X1204", "which one?").as_dict()["kind"] == "NotFound"


def test_the_host_does_not_compare_codes_of_its_own_errors() -> None:
    source = Path(errors.__file__).parent
    # Such as `error.code == "X0101"`, `error.code in ("X0101", …` and `error.code != NOT_FOUND`.
    comparison = re.compile(r"\.code (?:==|!=|in|not in) \(?(?:\"X|(?:\w+\.)?_?[A-Z])")
    modules = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if comparison.search(path.read_text(encoding="utf-8"))
    }
    assert modules == MAY_COMPARE_CODES
