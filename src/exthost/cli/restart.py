"""Give an extension of a running host a fresh process, which takes the old one's place once it is
ready; wait for that."""

from exthost.cli.frame import Asked
from exthost.cli.steer import steer, steer_options

options = steer_options


def run(asked: Asked) -> int:
    return steer(asked, "restart")
