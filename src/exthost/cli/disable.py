"""Switch an extension off in the config, for every host that is started from then on; its files
stay, and so does all else that the config says of it."""

from exthost.cli.frame import Asked
from exthost.cli.switch import switch, switch_options

options = switch_options


def run(asked: Asked) -> int:
    return switch(asked, on=False)
