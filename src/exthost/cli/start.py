"""Start an extension of a running host that is stopped, failed or idle; wait until it is ready."""

from exthost.cli.frame import Asked
from exthost.cli.steer import steer, steer_options

options = steer_options


def run(asked: Asked) -> int:
    return steer(asked, "start")
