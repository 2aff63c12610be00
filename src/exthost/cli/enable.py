"""Switch an extension on in the config, for every host that is started from then on."""

from exthost.cli.common import Args
from exthost.cli.toggle_verbs import add_toggle_options, toggle

add_options = add_toggle_options


def run(args: Args) -> int:
    return toggle(args, enabled=True)
