"""Switch an extension off in the config, for every host that is started from then on; its files
stay, and so does all else that the config says of it."""

from exthost.cli.frame import Asked
from exthost.cli.toggle import toggle, toggle_options

options = toggle_options


def run(asked: Asked) -> int:
    return toggle(asked, on=False)
