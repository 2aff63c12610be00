"""Give an extension of a running host a new process, which replaces the old process when it is
ready; wait until then."""

from exthost.faces.cli.common import Args
from exthost.faces.cli.control_verbs import add_control_options, run_control_verb

add_options = add_control_options


def run(args: Args) -> int:
    return run_control_verb(args, "restart")
