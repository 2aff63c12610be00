"""Splits the arguments of a known program into its options and the rest. Does no I/O.

For Python, `-Bm server --port 80` becomes the options `-B` and `-m` (with the value `server`) and
the rest `--port 80`. The syntax of each program is data (`known_programs`).
"""

from collections.abc import Sequence

from exthost.launch.known_programs import OptionSyntax


class UnknownOption(Exception):
    """The options of a program cannot be read. The message is the reason."""


def split_options(
    arguments: Sequence[str], syntax: OptionSyntax, program: str
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options at the beginning of the arguments, each with its value or "", and the
    remaining arguments. `program` is a name for errors. Raises UnknownOption."""
    options: list[tuple[str, str]] = []
    rest = [*arguments]
    while rest and _is_option(rest[0], syntax):
        word = rest.pop(0)
        if word == "--":
            break
        if syntax.joined and not word.startswith("--") and len(word) > 2:
            options += _read_letters(word, rest, syntax, program)
        else:
            options.append(_read_word(word, rest, syntax, program))
        if options[-1][0] in syntax.last:
            break
    return options, rest


def _is_option(word: str, syntax: OptionSyntax) -> bool:
    # "-" alone stands for stdin, except for env. Shells have options that begin with "+".
    is_known = word in syntax.flags | syntax.values
    return is_known or (word.startswith("-") and word != "-")


def _read_word(word: str, rest: list[str], syntax: OptionSyntax, program: str) -> tuple[str, str]:
    """Return the option in a word, and its value, which may be the next word."""
    with_value = syntax.values | syntax.last
    if word in with_value:
        return word, _take_value(rest, word, program)
    if word in syntax.flags:
        return word, ""
    name, separator, value = word.partition("=")
    if separator and name in with_value | syntax.flags:
        return name, value
    for prefix in syntax.prefixes:
        if word.startswith(prefix):
            return prefix, word.removeprefix(prefix)
    raise _unknown_option(word, program)


def _read_letters(
    word: str, rest: list[str], syntax: OptionSyntax, program: str
) -> list[tuple[str, str]]:
    """Return the options in one argument such as `-Bm`: letters without a value, and maybe a last
    one with a value, which is the rest of the word or the next argument."""
    options: list[tuple[str, str]] = []
    for index, letter in enumerate(word[1:], 1):
        name = f"-{letter}"
        if name in syntax.values | syntax.last:
            return [*options, (name, word[index + 1 :] or _take_value(rest, name, program))]
        if name not in syntax.flags:
            raise _unknown_option(word, program)
        options.append((name, ""))
    return options


def _take_value(rest: list[str], option: str, program: str) -> str:
    if not rest:
        raise UnknownOption(f"the option {option} of {program} has no value")
    return rest.pop(0)


def _unknown_option(word: str, program: str) -> UnknownOption:
    return UnknownOption(f"the option {word} of {program} is not known to exthost")
