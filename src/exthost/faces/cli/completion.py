"""Print a completion script for a shell, made from the subcommands of exthost and their options.

  exthost completion bash > ~/.local/share/bash-completion/completions/exthost
  exthost completion zsh > "${fpath[1]}/_exthost"
  exthost completion fish > ~/.config/fish/completions/exthost.fish

If a subcommand takes the name of an extension, the script completes the names of the extensions in
the config of the current folder.
"""

import argparse
import shlex
from collections.abc import Sequence
from importlib import resources

from exthost.faces.cli.common import Args, show_json, show_text
from exthost.faces.cli.verb_table import Verb, VerbOption, read_verbs

SHELLS = ("bash", "zsh", "fish")

# A shell command that prints the ids of a config's extensions, one per line, and nothing if there
# is no config. The id of a discovered extension is any text that its author chose, and a shell
# would execute `$(…)` in a completed word. So only ids without special characters are completed.
_LIST_NAMES_COMMAND = (
    "exthost list 2>/dev/null | tail -n +2 | cut -d' ' -f1 "
    "| LC_ALL=C grep -x '[A-Za-z0-9_][A-Za-z0-9_.@:+-]*'"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(args: Args) -> int:
    make_script = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[args.shell]
    script = make_script(read_verbs())
    if args.json:
        show_json({"script": script})
    else:
        show_text(script)
    return 0


def bash_script(verbs: Sequence[Verb]) -> str:
    """Return the completion script for bash."""
    choices = [
        f"    {shlex.quote(f'{verb.name} {name}')}) "
        f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur")); return ;;'
        for verb in verbs
        for option in verb.options
        if option.choices
        for name in option.names
    ]
    return _fill_template(
        "completion.bash.template",
        VERBS=" ".join(verb.name for verb in verbs),
        CHOICES="\n".join(choices),
        ASSIGNMENTS="\n".join(f"    {verb.name}) {_bash_assignments(verb)} ;;" for verb in verbs),
    )


def _fill_template(file: str, **texts: str) -> str:
    """Return a template of this package with a text for each `@NAME@`."""
    script = resources.files("exthost.faces.cli").joinpath(file).read_text("utf-8")
    for name, text in (*texts.items(), ("LIST_NAMES", _LIST_NAMES_COMMAND)):
        script = script.replace(f"@{name}@", text)
    return script.rstrip("\n")


def _bash_assignments(verb: Verb) -> str:
    """Return the shell variables that `_exthost` reads for a verb: `words` are its options, `names`
    is set if it takes an extension, `arguments` are the choices of its positional arguments."""
    assignments = [f'words="{" ".join(_option_names(verb))}"']
    if verb.takes_name:
        assignments.append("names=yes")
    choices = [choice for option in verb.options if not option.names for choice in option.choices]
    if choices:
        assignments.append(f'arguments="{" ".join(choices)}"')
    return "; ".join(assignments)


def zsh_script(verbs: Sequence[Verb]) -> str:
    """Return the completion script for zsh."""
    described = (f"{verb.name}:{_quotable_text(verb.summary)}" for verb in verbs)
    return _fill_template(
        "completion.zsh.template",
        VERBS="\n".join(f"      {shlex.quote(text)}" for text in described),
        ARGUMENTS="\n".join(map(_zsh_arguments, verbs)),
    )


def _zsh_arguments(verb: Verb) -> str:
    """Return the line of a verb in the script. The specs are those of zsh's `_arguments`, such as
    '--json[print JSON]'."""
    specs = [shlex.quote(spec) for option in verb.options for spec in _zsh_specs(option)]
    completer = "_exthost_names" if verb.takes_name else "_files"
    return f"    {verb.name}) _arguments {' '.join(specs)} '*: :{completer}' ;;"


def _zsh_specs(option: VerbOption) -> list[str]:
    # The characters [ ] : separate the parts of a spec.
    text = _quotable_text(option.help).replace("[", "(").replace("]", ")").replace(":", r"\:")
    value = ""
    if option.placeholder:
        action = f"({' '.join(option.choices)})" if option.choices else "_files"
        value = f":{_quotable_text(option.placeholder)}:{action}"
    return [f"{name}[{text}]{value}" for name in option.names]


def fish_script(verbs: Sequence[Verb]) -> str:
    """Return the completion script for fish."""
    lines = ["# fish completion for exthost", "complete -c exthost -f"]
    lines += [
        f"complete -c exthost -n __fish_use_subcommand -a {verb.name} "
        f"-d {_fish_quoted(_quotable_text(verb.summary))}"
        for verb in verbs
    ]
    names_command = _LIST_NAMES_COMMAND.replace("'", '"')
    for verb in verbs:
        condition = f"-n '__fish_seen_subcommand_from {verb.name}'"
        if verb.takes_name:
            lines.append(f"complete -c exthost {condition} -F -a '({names_command})'")
        for option in verb.options:
            flags = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            choices_flag = f" -a {_fish_quoted(' '.join(option.choices))}" if option.choices else ""
            takes_file = option.placeholder and option.names and not choices_flag
            value = " -r -F" if takes_file else choices_flag
            if flags or choices_flag:
                about = _fish_quoted(_quotable_text(option.help))
                lines.append(f"complete -c exthost {condition} {flags}{value} -d {about}")
    return "\n".join(lines)


def _option_names(verb: Verb) -> list[str]:
    return [name for option in verb.options for name in option.names]


def _quotable_text(text: str) -> str:
    """Return a text as one line without quotation marks, which would need quoting in each shell."""
    return " ".join(text.replace("`", "").replace("'", "").replace('"', "").split())


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
