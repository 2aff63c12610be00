"""Switch an extension on in the config, for every host that is started from then on."""

from exthost.cli.frame import Asked
from exthost.cli.toggle import toggle, toggle_options

options = toggle_options


def run(asked: Asked) -> int:
    return toggle(asked, on=True)
