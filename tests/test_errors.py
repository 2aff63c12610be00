"""Errors are values: they can be copied, and sent to another process."""

import copy
import pickle
import re
from pathlib import Path

import pytest

import exthost
from exthost import errors
from exthost.errors import Evidence, ExthostError

# The modules that compare codes: those of JSON-RPC, the code in a reply of another host, that of
# a diagnostic, which has no class, and the code that a handshake error has just been given.
MAY_COMPARE_CODES = {
    "authoring/sdk/dialects/nexo.py",
    "dialects/mcp/handshake.py",
    "dialects/nexo/dialect.py",
    "dialects/nexo/second_contract.py",
    "faces/cli/lock.py",
    "faces/cli/package_folders.py",
    "faces/cli/running_host.py",
    "faces/cli/security_findings.py",
    "session/handshake.py",
}

LEAVES = [getattr(errors, name) for name in errors.__all__ if name != "Evidence"]


@pytest.mark.parametrize("kind", LEAVES)
def test_an_error_survives_its_way_to_another_process(kind: type[ExthostError]) -> None:
    evidence = Evidence(argv=("a", "b"), exit="exited with 1", stderr=("x",))
    error = kind("X1001", "why", extension="e", help="do", evidence=evidence)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (str(again), again.args) == (str(error), error.args)
        assert again.as_dict() == error.as_dict()


def test_an_error_as_text_has_no_control_characters_of_a_child() -> None:
    evidence = Evidence(stderr=("\x1b[31mred\x1b[0m\x07",))
    error = errors.CallFailed("X0701", "no\x1b]0;title\x07\x9b2J\r", evidence=evidence)
    text = str(error)
    assert all(item.isprintable() or item == "\n" for item in text)
    assert "red" in text and "\\x1b" in text
    assert error.message.startswith("no\x1b")  # a program may still have it as it came


def test_an_error_about_no_extension_by_name_still_has_a_noun() -> None:
    assert str(errors.ExtensionGone("X1001", "it ended")).startswith("the extension ended [X1001]")
    assert str(errors.ExtensionGone("X1001", "its pipe broke")).startswith(
        "the extension's pipe broke"
    )
    assert str(errors.ExtensionGone("X1001", "it ended", extension="a")).startswith("a: it ended")
    assert str(errors.ExtensionGone("X1001", "items are gone")).startswith("items are gone")


def test_an_error_as_text_has_the_reason_of_a_panic_of_rust() -> None:
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


def test_fields_of_only_some_errors_survive_too() -> None:
    failed = errors.CallFailed("X0701", "no", error_code=-1, error_message="m", data={"a": [1]})
    opened = errors.BreakerOpen("X1170", "later")
    opened.seconds_left = 2.5
    again = pickle.loads(pickle.dumps([failed, opened]))
    assert again[0].data == {"a": [1]} and again[0].error_code == -1
    assert again[1].seconds_left == 2.5


def test_errors_are_also_the_matching_builtin_exceptions() -> None:
    assert isinstance(errors.CallTimeout("X0801", "late"), TimeoutError)
    assert isinstance(errors.SpawnFailed("X0401", "no program"), OSError)
    assert isinstance(errors.NotFound("X1202", "no tool"), LookupError)
    for kind in (errors.CallTimeout, errors.SpawnFailed, errors.NotFound):
        error = kind("X0000", "what happened", extension="x", help="do this")
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error) and "what happened" in str(error)


def test_a_name_of_another_module_says_where_it_is() -> None:
    for name, home in (("CallFailed", "exthost.errors"), ("CallEnded", "exthost.events")):
        with pytest.raises(AttributeError, match=f"it is {home}.{name}"):
            getattr(exthost, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        getattr(exthost, "nothing")  # noqa: B009


def test_the_kind_of_an_error_is_its_public_class() -> None:
    class Narrower(errors.NotFound):
        pass

    assert Narrower("X1204", "which one?").kind == "NotFound"
    assert Narrower("X1204", "which one?").as_dict()["kind"] == "NotFound"


def test_the_host_does_not_compare_codes_of_its_own_errors() -> None:
    source = Path(errors.__file__).parent
    steered = re.compile(r"\.code (?:==|!=|in|not in) \(?(?:\"X|(?:\w+\.)?_?[A-Z])")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if steered.search(path.read_text(encoding="utf-8"))
    }
    assert found == MAY_COMPARE_CODES
