"""Stop an extension of a running host; nothing starts it until `exthost start` does."""

from exthost.cli.frame import Asked
from exthost.cli.steer import steer, steer_options

options = steer_options


def run(asked: Asked) -> int:
    return steer(asked, "stop")
