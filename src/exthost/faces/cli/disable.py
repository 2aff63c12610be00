"""Switch an extension off in the config. A running host ends it after `exthost reload`. Its files
and the rest of its entry in the config are kept."""

from exthost.faces.cli.common import Args
from exthost.faces.cli.toggle_verbs import add_toggle_options, toggle

add_options = add_toggle_options


def run(args: Args) -> int:
    return toggle(args, enabled=False)
