"""Switch an extension on in the config. A running host uses it after `exthost reload`."""

from exthost.faces.cli.common import Args
from exthost.faces.cli.toggle_verbs import add_toggle_options, toggle

add_options = add_toggle_options


def run(args: Args) -> int:
    return toggle(args, enabled=True)
