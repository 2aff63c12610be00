"""Print completions for a shell, made from the verbs and their options.

  exthost completion bash > ~/.local/share/bash-completion/completions/exthost
  exthost completion zsh > "${fpath[1]}/_exthost"
  exthost completion fish > ~/.config/fish/completions/exthost.fish

Where a verb takes an extension, those of the config in the current folder are offered.
"""

import argparse
import shlex
from collections.abc import Sequence

from exthost.cli.common import Args, no_command, show_text
from exthost.cli.verb_table import Option, Verb, read_verbs

SHELLS = ("bash", "zsh", "fish")

# Prints the ids of a config's extensions, a line each; nothing where there is no config.
_NAMES = "exthost list 2>/dev/null | tail -n +2 | cut -d' ' -f1"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(args: Args) -> int:
    no_command(args)
    show_text({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](read_verbs()))
    return 0


def bash(verbs: Sequence[Verb]) -> str:
    """Return a completion for bash."""
    lines = [
        "# bash completion for exthost",
        "_exthost() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        "  local words= names= arguments=",
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=($(compgen -W "{" ".join(verb.name for verb in verbs)}" -- "$cur"))',
        "    return",
        "  fi",
        '  case "${COMP_WORDS[1]} $prev" in',
        *(
            f"    {shlex.quote(f'{verb.name} {name}')}) "
            f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur")); return ;;'
            for verb in verbs
            for option in verb.options
            if option.choices
            for name in option.names
        ),
        "  esac",
        '  case "${COMP_WORDS[1]}" in',
        *(f"    {verb.name}) {_bash_words(verb)} ;;" for verb in verbs),
        "  esac",
        '  if [[ "$cur" == -* ]]; then',
        '    COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "  else",
        f'    [ -n "$names" ] && names="$({_NAMES})"',
        '    COMPREPLY=($(compgen -W "$names $arguments" -- "$cur"))',
        '    [ -n "$arguments" ] || COMPREPLY+=($(compgen -f -- "$cur"))',
        "  fi",
        "}",
        "complete -F _exthost exthost",
    ]
    return "\n".join(
        line.replace("local words= names=", "local words= names= arguments=") for line in lines
    )


def _bash_words(verb: Verb) -> str:
    parts = [f'words="{" ".join(_names(verb))}"']
    if verb.takes_name:
        parts.append("names=yes")
    choices = [word for option in verb.options if not option.names for word in option.choices]
    if choices:
        parts.append(f'arguments="{" ".join(choices)}"')
    return "; ".join(parts)


def zsh(verbs: Sequence[Verb]) -> str:
    """Return a completion for zsh."""
    lines = [
        "#compdef exthost",
        "_exthost() {",
        "  local -a verbs names",
        "  if (( CURRENT == 2 )); then",
        "    verbs=(",
        *(f"      {shlex.quote(f'{verb.name}:{_plain(verb.summary)}')}" for verb in verbs),
        "    )",
        "    _describe verb verbs",
        "    return",
        "  fi",
        "  case $words[2] in",
    ]
    for verb in verbs:
        specs = [shlex.quote(spec) for option in verb.options for spec in _zsh_specs(option)]
        rest = "_exthost_names" if verb.takes_name else "_files"
        lines.append(f"    {verb.name}) _arguments {' '.join(specs)} '*: :{rest}' ;;")
    lines += [
        "  esac",
        "}",
        "_exthost_names() {",
        "  local -a names",
        f'  names=("${{(@f)$({_NAMES})}}")',
        "  _describe extension names",
        "  _files",
        "}",
        '_exthost "$@"',
    ]
    return "\n".join(lines)


def _zsh_specs(option: Option) -> list[str]:
    text = _plain(option.help).replace("[", "(").replace("]", ")").replace(":", r"\:")
    value = ""
    if option.placeholder:
        action = f"({' '.join(option.choices)})" if option.choices else "_files"
        value = f":{_plain(option.placeholder)}:{action}"
    return [f"{name}[{text}]{value}" for name in option.names]


def fish(verbs: Sequence[Verb]) -> str:
    """Return a completion for fish."""
    lines = ["# fish completion for exthost", "complete -c exthost -f"]
    lines += [
        f"complete -c exthost -n __fish_use_subcommand -a {verb.name} "
        f"-d {_fish_quoted(_plain(verb.summary))}"
        for verb in verbs
    ]
    for verb in verbs:
        seen = f"-n '__fish_seen_subcommand_from {verb.name}'"
        if verb.takes_name:
            lines.append(f"complete -c exthost {seen} -F -a '({_NAMES.replace(chr(39), chr(34))})'")
        for option in verb.options:
            flags = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            chosen = f" -a {_fish_quoted(' '.join(option.choices))}" if option.choices else ""
            value = " -r -F" if option.placeholder and option.names and not chosen else chosen
            if flags or chosen:
                about = _fish_quoted(_plain(option.help))
                lines.append(f"complete -c exthost {seen} {flags}{value} -d {about}")
    return "\n".join(lines)


def _names(verb: Verb) -> list[str]:
    return [name for option in verb.options for name in option.names]


def _plain(text: str) -> str:
    """Return a text as one line that no shell takes apart."""
    return " ".join(text.replace("`", "").replace("'", "").replace('"', "").split())


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
