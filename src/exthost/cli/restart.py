"""End the process of an extension of a running host, and wait until a fresh one is ready."""

from exthost.cli.frame import Asked
from exthost.cli.steer import steer, steer_options

options = steer_options


def run(asked: Asked) -> int:
    return steer(asked, "restart")
