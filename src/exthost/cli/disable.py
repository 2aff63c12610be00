"""Switch an extension off in the config, for every host that is started from then on; its files
stay, and so does all else that the config says of it."""

from exthost.cli.common import Args
from exthost.cli.toggle_verbs import add_toggle_options, toggle

add_options = add_toggle_options


def run(args: Args) -> int:
    return toggle(args, on=False)
