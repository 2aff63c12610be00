"""Separating the options of a known program from its other arguments.

To find the script in `python3 -X dev run.py`, the host must know which options take a value. An
OptionSyntax says that of one program: flags without a value, options with one, prefixes (`-Xmx1g`),
and options with a value, after which all words are arguments (`-c`). `joined` means that `-ab` is
`-a -b`.
"""

import pytest

from exthost.launch.command_options import UnknownOption, split_options
from exthost.launch.known_programs import OptionSyntax

SYNTAX = OptionSyntax(
    flags=frozenset(["-a", "-b", "--all"]),
    values=frozenset(["-v", "--value", "+o"]),
    last=frozenset(["-c"]),
    joined=True,
)


@pytest.mark.parametrize(
    ("arguments", "options", "rest"),
    [
        ("", [], ""),
        ("x -a", [], "x -a"),
        ("-a x", [("-a", "")], "x"),
        ("-ab x", [("-a", ""), ("-b", "")], "x"),
        ("-v 1 x", [("-v", "1")], "x"),
        ("-v1 x", [("-v", "1")], "x"),
        ("-av 1 x", [("-a", ""), ("-v", "1")], "x"),
        ("+o 1 x", [("+o", "1")], "x"),
        ("--all x", [("--all", "")], "x"),
        ("--all=yes x", [("--all", "yes")], "x"),  # with "=", a flag has a value, too
        ("--value 1 x", [("--value", "1")], "x"),
        ("--value=1 x", [("--value", "1")], "x"),
        ("-a -- -b x", [("-a", "")], "-b x"),
        ("- x", [], "- x"),
        ("-c text -a", [("-c", "text")], "-a"),
        ("-ac text -a", [("-a", ""), ("-c", "text")], "-a"),
    ],
)
def test_options_are_separated_from_the_rest(
    arguments: str, options: list[tuple[str, str]], rest: str
) -> None:
    assert split_options(arguments.split(), SYNTAX, "tool") == (options, rest.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-z", "the option -z of tool is not known"),
        ("-az", "the option -az of tool is not known"),
        ("--other=1", "the option --other=1 of tool is not known"),
        ("-v", "the option -v of tool has no value"),
        ("-av", "the option -v of tool has no value"),
        ("-c", "the option -c of tool has no value"),
    ],
)
def test_an_option_that_cannot_be_read_is_an_error(arguments: str, message: str) -> None:
    with pytest.raises(UnknownOption, match=message):
        split_options(arguments.split(), SYNTAX, "tool")


def test_the_letters_of_an_option_are_not_split_if_the_program_does_not_join_them() -> None:
    syntax = SYNTAX._replace(joined=False, prefixes=("-X",), flags=frozenset(["-a", "-server"]))
    assert split_options(["-server", "x"], syntax, "java") == ([("-server", "")], ["x"])
    assert split_options(["-Xmx1g", "x"], syntax, "java") == ([("-X", "mx1g")], ["x"])
    with pytest.raises(UnknownOption, match="the option -ab of java is not known"):
        split_options(["-ab"], syntax, "java")
