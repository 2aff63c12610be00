"""Stop an extension of a running host; nothing starts it until `exthost start` does."""

from exthost.faces.cli.common import Args
from exthost.faces.cli.control_verbs import add_control_options, run_control_verb

add_options = add_control_options


def run(args: Args) -> int:
    return run_control_verb(args, "stop")
