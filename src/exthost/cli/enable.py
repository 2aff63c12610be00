"""Switch an extension on in the config, for every host that is started from then on."""

from exthost.cli.frame import Asked
from exthost.cli.switch import switch, switch_options

options = switch_options


def run(asked: Asked) -> int:
    return switch(asked, on=True)
